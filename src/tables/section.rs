//! The row of a synthetic section: kind, header fields, and contents if they are fixed when the row is made.

use crate::arch::Target;
use crate::arch::machine::SHF_PURE_CODE;
use crate::elf::consts as elf;
use crate::ids::{FileId, SectionId};
use crate::input::SectionInfo;
use crate::symbols::CommonBlock;

/// Declares the kinds of sections. Early kinds are made before scripts are matched, in the order of their
/// sections. Of the later kinds, passes make as many sections as they need.
macro_rules! kinds {
    (early { $($(#[$doc:meta])* $one:ident,)* } later { $($(#[$docs:meta])* $many:ident,)* }) => {
        /// The kinds of synthetic sections.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $one,)*
            $($(#[$docs])* $many(u32),)*
        }

        impl Kind {
            /// The kinds that are made early, in the order of their sections.
            pub const EARLY: &[Kind] = &[$(Kind::$one),*];

            /// The number of a section among the sections of its kind. Early kinds have 0.
            pub fn number(self) -> u32 {
                match self {
                    $(Kind::$many(number) => number,)*
                    _ => 0,
                }
            }
        }
    };
}

kinds! {
    early {
        /// `.note.gnu.property`.
        PropertyNote,
        /// The machine's build attributes, such as `.ARM.attributes`.
        BuildAttributes,
        /// `.gnu.attributes`.
        GnuAttributes,
        /// `.note.gnu.build-id`.
        BuildIdNote,
        /// `.note.package`.
        PackageNote,
        /// `.note.android.memtag`.
        MemoryTagNote,
        /// `.interp`.
        Interp,
        /// `.hash`.
        Hash,
        /// `.gnu.hash`.
        GnuHash,
        /// `.dynsym`.
        DynSym,
        /// `.dynstr`.
        DynStr,
        /// `.gnu.version`.
        VerSym,
        /// `.gnu.version_d`.
        VerDef,
        /// `.gnu.version_r`.
        VerNeed,
        /// `.rela.dyn`.
        RelaDyn,
        /// `.relr.dyn`.
        RelrDyn,
        /// `.relr.auth.dyn`: the same for signed pointers.
        SignedRelrDyn,
        /// `.memtag.globals.dynamic`: where the tagged globals lie.
        TaggedGlobals,
        /// `.dynamic`.
        Dynamic,
        /// `.dynbss`: copies of libraries' data.
        CopyData,
        /// `.data.rel.ro`: copies of libraries' read-only data.
        CopyRelro,
        /// `.rela.plt`.
        RelaPlt,
        /// `.plt`.
        Plt,
        /// `.plt.got`.
        PltGot,
        /// `.plt.sec`.
        PltSec,
        /// `.got`.
        Got,
        /// `.got.plt`.
        GotPlt,
        /// `.eh_frame`, all records of all inputs.
        EhFrame,
        /// `.eh_frame_hdr`.
        EhFrameHdr,
        /// `.sframe_unwind`: the table of `--unwind-table`.
        UnwindTable,
        /// `.bolt.org.sframe_unwind`: keeps BOLT from moving code that the table describes.
        CodeMark,
        /// `.debug_frame`: the FDEs that the table replaces, for debuggers.
        DebugFrame,
        /// `.comment`: this linker's name.
        Comment,
        /// `.gnu_debuglink`: the name of the separate debug file.
        DebugLink,
        /// `.sframe_idx`, `.sframe_compact` or a merged `.sframe`.
        SFrame,
        /// The sorted index at the start of `.sframe` ([`crate::sframe_output::overlay`]).
        SFrameOverlay,
        /// `.gdb_index`.
        GdbIndex,
        /// `.debug_names`, joined.
        DebugNames,
        /// `COMMON`: the common blocks of one object. This is the only early kind that may have several
        /// sections.
        Common,
        /// `.symtab`.
        SymTab,
        /// `.symtab_shndx`.
        SymTabShndx,
        /// `.strtab`.
        StrTab,
        /// `.shstrtab`.
        ShStrTab,
    }
    later {
        /// Merged pieces of `SHF_MERGE` sections. The number is the row in
        /// [`crate::merge::MergedSections::groups()`].
        Merged,
        /// Thunks. The number is the row in [`super::pools::Thunks::pools`].
        Thunks,
        /// The relocations of an output section. The number is the row in
        /// [`crate::phase::Arranged::output_relocations`].
        OutputRelocations,
        /// A section group. The number is the row in [`crate::phase::Arranged::output_groups`].
        OutputGroup,
    }
}

/// Flags of a section of the linker's own in memory.
pub const READ_ONLY: u64 = elf::SHF_ALLOC;
/// Flags of one that the program writes to.
pub const WRITABLE: u64 = READ_ONLY | elf::SHF_WRITE;
/// Flags of one with code.
pub const CODE: u64 = READ_ONLY | elf::SHF_EXECINSTR;

/// Flags of one with code that says that it holds no data between the instructions.
pub fn pure_code<T: Target>() -> u64 {
    CODE | T::PURE_CODE.map_or(0, |_| SHF_PURE_CODE)
}

/// The size of an address in bytes. Most tables are aligned to it.
pub const WORD: u64 = 8;

impl Kind {
    /// Whether it is a table of the output's symbols or section names. Its size is known only when all output
    /// sections are known.
    pub fn is_about_file(self) -> bool {
        matches!(self, Kind::SymTab | Kind::SymTabShndx | Kind::StrTab | Kind::ShStrTab)
    }

    /// Whether it is about the output itself, so that scripts do not match it. Default scripts discard
    /// `.gnu_debuglink`, since those of inputs are about other files; and no script knows a name of this
    /// linker's own.
    pub fn is_hidden_from_scripts(self) -> bool {
        self.is_about_file() || matches!(self, Kind::DebugLink | Kind::CodeMark)
    }
}

/// One synthetic section.
#[derive(Clone, Debug)]
pub struct SyntheticSection<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Name, as scripts match it.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Size of an entry in bytes.
    pub entsize: u64,
    /// Size in bytes.
    pub size: u64,
    /// The object from which the section seems to come, for file patterns of scripts; `None` for the file
    /// `<internal>`.
    pub file: Option<FileId>,
    /// The input section whose place in input order it takes; `None` if it stands behind all inputs.
    pub first_input: Option<SectionId>,
    /// Its contents, if they are fixed. Empty if a writer computes them.
    pub bytes: &'a [u8],
}

impl<'a> SyntheticSection<'a> {
    /// An empty section without entries.
    pub fn new(kind: Kind, name: &'a [u8], sh_type: u32, flags: u64, align: u64) -> Self {
        SyntheticSection {
            kind,
            name,
            sh_type,
            flags,
            align,
            entsize: 0,
            size: 0,
            file: None,
            first_input: None,
            bytes: &[],
        }
    }

    /// A section with these contents.
    pub fn of_bytes(
        kind: Kind,
        name: &'a [u8],
        sh_type: u32,
        flags: u64,
        align: u64,
        bytes: &'a [u8],
    ) -> Self {
        let section = SyntheticSection::new(kind, name, sh_type, flags, align);
        SyntheticSection { size: bytes.len() as u64, bytes, ..section }
    }

    /// The section with entries of this size in bytes.
    pub fn entries(self, entsize: u64) -> Self {
        SyntheticSection { entsize, ..self }
    }

    /// Makes room for a common block at the end of the section, and returns the block's offset. Sizes come
    /// from untrusted inputs. The layout reports sections that do not fit the address space.
    pub fn append_block(&mut self, block: &CommonBlock) -> u64 {
        let offset = self.size.checked_next_multiple_of(block.align).unwrap_or(u64::MAX);
        self.align = self.align.max(block.align);
        self.size = offset.saturating_add(block.size);
        offset
    }

    /// Its header fields.
    pub fn info(&self) -> SectionInfo<'a> {
        SectionInfo {
            name: self.name,
            sh_type: self.sh_type,
            flags: self.flags,
            size: self.size,
            align: self.align,
            entsize: self.entsize,
        }
    }
}

/// A local symbol in a synthetic section.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticSymbol<'a> {
    /// Name.
    pub name: &'a [u8],
    /// The section.
    pub section: SectionId,
    /// Offset in that section, in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// `STT_*`.
    pub kind: u8,
}

/// Sections that the linker makes.
#[derive(Clone, Default, Debug)]
pub struct SyntheticSections<'a> {
    /// The rows. Row `n` is section `first_internal + n`.
    pub rows: Vec<SyntheticSection<'a>>,
}

impl<'a> SyntheticSections<'a> {
    /// Row `index`.
    #[inline]
    pub fn section(&self, index: u32) -> &SyntheticSection<'a> {
        &self.rows[index as usize]
    }

    /// If there is a section of a kind, sets its size and raises its alignment, both in bytes. Returns
    /// whether there is one.
    pub fn set_size(&mut self, kind: Kind, size: u64, align: u64) -> bool {
        let Some(row) = self.find(kind) else { return false };
        let section = &mut self.rows[row as usize];
        section.size = size;
        section.align = section.align.max(align);
        true
    }

    /// Whether there is a section of a kind that has less than `size` bytes.
    pub fn is_smaller(&self, kind: Kind, size: u64) -> bool {
        self.find(kind).is_some_and(|row| self.section(row).size < size)
    }

    /// If there is a section of a kind, makes it at least `size` bytes large.
    pub fn grow(&mut self, kind: Kind, size: u64) {
        if let Some(row) = self.find(kind) {
            let section = &mut self.rows[row as usize];
            section.size = section.size.max(size);
        }
    }

    /// The row of the first section of a kind.
    pub fn find(&self, kind: Kind) -> Option<u32> {
        self.rows.iter().position(|section| section.kind == kind).map(|row| row as u32)
    }
}
