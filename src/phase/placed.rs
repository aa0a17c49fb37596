//! The phase that knows all addresses: of sections, symbols and tables.
//!
//! `lay_out` makes it in a loop, and gives it away once no address changes any more. Writing passes
//! ask the methods here for addresses.

use super::tables::Growing;
use super::{Tables, builds_on};
use crate::arch::Target;
use crate::chunks::Layout;
use crate::elf::consts as elf;
use crate::ids::{ChunkId, FileId, RuleId, SectionId, SymbolId};
use crate::input::SectionInfo;
use crate::sframe::collect::{Chosen, Ordered};
use crate::tables::pools::Thunks;
use crate::tables::section::{Kind, SyntheticSection, SyntheticSections, SyntheticSymbol};
use crate::tables::symtab_plan::SymtabPlan;

/// Output sections and segments, and the addresses of sections, symbols and tables.
pub struct Placed<'a, T: Target> {
    /// The phase before: tables for the dynamic linker.
    pub tables: Tables<'a, T>,
    /// The linker's own sections: those of [`super::Made::synthetic`], the merged ones, pools of
    /// thunks, and the relocation and group sections of `-r`.
    pub synthetics: SyntheticSections<'a>,
    /// Rule, output section and offset of each section.
    pub places: Places,
    /// Output sections and segments.
    pub layout: Layout<'a>,
    /// Thunks between branches and targets out of their reach.
    pub thunks: Thunks,
    /// Addresses of the tables.
    pub addresses: Addresses,
    /// Addresses of globals and locals, by [`crate::ids::SymbolId`]; for TLS symbols the address in the
    /// initialisation image. A library's symbol has the address of its copy or canonical PLT entry, else 0,
    /// as have undefined symbols; an `STT_GNU_IFUNC` of this output has the address of its resolver.
    pub values: Vec<u64>,
    /// The functions of the SFrame table, thunks included.
    pub chosen: Chosen,
    /// The order of those functions in the table.
    pub frame_order: Ordered,
    /// Local symbols in the linker's own sections.
    pub local_symbols: Vec<SyntheticSymbol<'a>>,
    /// The relocation tables of the output (`-r`, `--emit-relocs`), one for each output section that needs
    /// it.
    pub output_relocations: Vec<OutputRelocations>,
    /// The section groups of the output, in link order (`-r`).
    pub output_groups: Vec<OutputGroup>,
    /// The part of each file in the output's symbol table.
    pub symtab: SymtabPlan,
    /// Globals that relocations or groups of the output name, ascending, where `--retain-symbols-file` does
    /// not list all that stay: [`crate::synth::references::globals`].
    pub named_globals: Vec<SymbolId>,
}

builds_on!(['a, T: Target] Placed<'a, T>, tables: Tables<'a, T>);

/// The places of sections, in parallel vectors indexed by [`SectionId`].
pub struct Places {
    /// The rule of [`Layout::plan`] that takes the section; `None` for sections outside the layout.
    pub rule: Vec<Option<RuleId>>,
    /// The output section; `None` for sections outside the output.
    pub chunk: Vec<Option<ChunkId>>,
    /// Offset in the output section, in bytes. Absorbed sections have none.
    pub offset: Vec<u64>,
}

/// Addresses of the tables, and of the TLS segment. 0 for a table that the output does not have.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// `.got`.
    pub got: u64,
    /// `.got.plt`.
    pub got_plt: u64,
    /// Address of `_GLOBAL_OFFSET_TABLE_`, from which GOT-relative offsets count.
    pub got_base: u64,
    /// The words reserved for the dynamic linker at the head of `.got.plt` or `.got` (`DT_PLTGOT`).
    pub reserved: u64,
    /// `.plt`.
    pub plt: u64,
    /// `.plt.got`.
    pub plt_got: u64,
    /// `.plt.sec`.
    pub plt_sec: u64,
    /// Copies of libraries' data.
    pub copy_data: u64,
    /// Copies of libraries' read-only data.
    pub copy_relro: u64,
    /// Start of the TLS segment.
    pub tls_start: u64,
    /// The thread pointer, as an address in the initialisation image.
    pub thread_pointer: u64,
}

/// The relocations of one output section.
#[derive(Clone, Debug)]
pub struct OutputRelocations {
    /// The output section that they apply to.
    pub target: ChunkId,
    /// Number of relocations of each section in `target` ([`crate::chunks::Chunk::items`]), in their order.
    pub counts: Vec<u32>,
    /// The output table is `SHT_REL`, because all relocations come from `SHT_REL` sections.
    pub implicit: bool,
}

impl OutputRelocations {
    /// Number of relocations in the table.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }
}

/// A group of the output.
#[derive(Clone, Debug)]
pub struct OutputGroup {
    /// The object that it comes from.
    pub file: FileId,
    /// Section header index of the group in that object.
    pub section: u32,
    /// Index of the signature in that object's symbol table.
    pub signature: u32,
    /// Its first word: `GRP_COMDAT` or 0.
    pub flags: u32,
    /// The output sections of its members, each once.
    pub members: Vec<ChunkId>,
}

impl OutputGroup {
    /// Size in bytes: the flag word and a word for each member.
    pub fn size(&self) -> u64 {
        4 + 4 * self.members.len() as u64
    }
}

impl<'a, T: Target> Placed<'a, T> {
    /// The state that `lay_out` begins with: every section known, none placed.
    pub fn new(tables: Tables<'a, T>, growing: Growing<'a>) -> Self {
        let count = tables.section_count();
        Placed {
            synthetics: growing.synthetics,
            places: Places { rule: Vec::new(), chunk: vec![None; count], offset: vec![0; count] },
            layout: Layout::default(),
            thunks: Thunks::default(),
            addresses: Addresses::default(),
            values: Vec::new(),
            chosen: growing.chosen,
            frame_order: Ordered::default(),
            local_symbols: Vec::new(),
            output_relocations: Vec::new(),
            output_groups: Vec::new(),
            symtab: SymtabPlan::default(),
            named_globals: Vec::new(),
            tables,
        }
    }

    /// Number of sections: input, synthetic and merged ones, and those added during layout.
    pub fn section_count(&self) -> usize {
        self.places.chunk.len()
    }

    /// The output section that holds the synthetic section of a kind, if it is in the output.
    pub fn chunk_of(&self, kind: Kind) -> Option<ChunkId> {
        let row = self.synthetics.find(kind)?;
        self.places.chunk[self.synthetic_id(row).index()]
    }

    /// Size of a section in memory, in bytes.
    #[inline]
    pub fn section_size(&self, id: SectionId) -> u64 {
        match self.locate(id) {
            Some((object, index)) => object.headers[index as usize].sh_size.get(),
            None => self.synthetics.section(id.0 - self.first_internal()).size,
        }
    }

    /// Whether the output uses extensions of `ELFOSABI_GNU`: indirect functions, unique symbols and,
    /// under `-r`, retained sections.
    pub fn uses_gnu_extensions(&self) -> bool {
        self.symtab.has_gnu_symbols
            || (self.config.is_relocatable()
                && self.layout.chunks.iter().any(|chunk| chunk.flags & u64::from(elf::SHF_GNU_RETAIN) != 0))
    }

    /// The output section with a section's contents. All contents of an absorbed section are in one
    /// output section.
    pub fn output_chunk(&self, id: SectionId) -> Option<ChunkId> {
        let (section, _) = self.final_place(id, 0)?;
        self.places.chunk[section.index()]
    }

    /// Whether a global that has a place in the symbol table stays there: `--retain-symbols-file` keeps those
    /// that it lists, and those that the output's relocations and groups name.
    pub fn keeps_name(&self, id: SymbolId) -> bool {
        self.retains(self.globals.names[id.index()]) || self.named_globals.binary_search(&id).is_ok()
    }

    /// Whether `--retain-symbols-file` is not given, or lists the name.
    pub fn retains(&self, name: &[u8]) -> bool {
        self.lists.retained.as_ref().is_none_or(|names| names.contains(name))
    }

    /// Address of the piece or record at an offset of an absorbed section; 0 if it is not in the
    /// output.
    pub fn absorbed_address(&self, id: SectionId, offset: u64) -> u64 {
        match self.absorbed_place(id, offset) {
            Some((section, offset)) if self.places.chunk[section.index()].is_some() => {
                self.section_address(section).wrapping_add(offset)
            }
            _ => 0,
        }
    }

    /// Adds a synthetic section that has no place yet; gives its id.
    pub fn add_synthetic(&mut self, section: SyntheticSection<'a>) -> SectionId {
        let id = SectionId::from_index(self.section_count());
        self.synthetics.rows.push(section);
        self.places.chunk.push(None);
        self.places.offset.push(0);
        id
    }

    /// Header fields of a section: of an object, synthetic, or merged.
    pub fn section_info(&self, id: SectionId) -> SectionInfo<'a> {
        match self.locate(id) {
            Some((object, index)) => SectionInfo::of(object, index as usize, self.config.is_relocatable()),
            None => self.synthetics.section(id.0 - self.first_internal()).info(),
        }
    }

    /// `file:(section+offset)` for messages.
    pub fn describe_place(&self, id: SectionId, offset: u64) -> String {
        self.describe_place_in(id, || self.section_info(id).name, offset)
    }

    /// Address of a section; 0 if it is not in the output.
    #[inline]
    pub fn section_address(&self, id: SectionId) -> u64 {
        let Some(chunk) = self.places.chunk[id.index()] else { return 0 };
        self.layout.chunks[chunk.index()].address.wrapping_add(self.places.offset[id.index()])
    }
}
