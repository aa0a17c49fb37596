//! The prevailing definition of each global symbol, and the files that refer to it.

use super::CommonBlock;
use crate::elf::consts as elf;
use crate::ids::{FileId, SharedId, SymbolId};
use bitflags::bitflags;

/// The prevailing definition of a global.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Definition {
    /// Nothing defines it.
    #[default]
    Undefined,
    /// Symbol number `symbol` of an object defines it. That symbol may be a common block.
    Object {
        /// The object whose definition prevails.
        file: FileId,
        /// Index in its symbol table.
        symbol: u32,
    },
    /// A shared library defines it.
    Shared {
        /// The library whose definition prevails.
        library: SharedId,
        /// Index in its dynamic symbol table.
        symbol: u32,
    },
    /// The linker defines it: by an assignment of the script, by `--defsym`, or because it is a name such as
    /// `_DYNAMIC`. The number is a row of [`crate::phase::Resolved::linker_symbols`].
    Linker(u32),
}

bitflags! {
    /// The kinds of files that refer to a global or define it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct MentionedBy: u8 {
        /// An object that takes part refers to it or defines it.
        const IN_OBJECT = 1 << 0;
        /// Some reference from an object is not weak.
        const STRONG_REFERENCE = 1 << 1;
        /// A shared library that the program loads refers to it or defines it.
        const IN_SHARED = 1 << 2;
        /// Some reference from an object says that it is thread-local, so the definition must be thread-local
        /// too.
        const TLS = 1 << 3;
        /// Some reference from an object says that it is a function.
        const FUNCTION = 1 << 4;
        /// Some reference from an object says that it is data.
        const OBJECT = 1 << 5;
        /// Some object refers to it. An object may only have a definition that was discarded with its group.
        const REFERENCE = 1 << 6;
    }
}

impl MentionedBy {
    /// The flag for a reference of type `kind` (`STT_*`).
    pub fn of_kind(kind: u8) -> Self {
        match kind {
            elf::STT_TLS => MentionedBy::TLS,
            elf::STT_FUNC | elf::STT_GNU_IFUNC => MentionedBy::FUNCTION,
            elf::STT_OBJECT | elf::STT_COMMON => MentionedBy::OBJECT,
            _ => MentionedBy::empty(),
        }
    }

    /// The type (`STT_*`) that references give. If they disagree, thread-local comes first, then function.
    pub fn kind(self) -> u8 {
        let kinds = [
            (MentionedBy::TLS, elf::STT_TLS),
            (MentionedBy::FUNCTION, elf::STT_FUNC),
            (MentionedBy::OBJECT, elf::STT_OBJECT),
        ];
        kinds.into_iter().find(|&(said, _)| self.contains(said)).map_or(elf::STT_NOTYPE, |(_, kind)| kind)
    }
}

/// The definitions of all globals, by [`SymbolId`].
#[derive(Default)]
pub struct Definitions {
    /// The prevailing definition of each global.
    pub of: Vec<Definition>,
    /// Visibility (`STV_*`) of each global: the most constraining one that any object gives it.
    pub visibility: Vec<u8>,
    /// The kinds of files that refer to each global or define it.
    pub mentions: Vec<MentionedBy>,
    /// The common blocks that prevail, sorted by symbol.
    pub commons: Vec<CommonBlock>,
    /// The common blocks that a library's data replaced, sorted by symbol.
    pub replaced_commons: Vec<CommonBlock>,
    /// By [`SharedId`]: whether a file before the library referred to a symbol that the library defines, and
    /// an object prevails over that definition. Such a library stays needed.
    pub overridden_libraries: Vec<bool>,
    /// By [`SharedId`]: whether the program loads the library. With `--as-needed` it does so only if
    /// references bind to the library's definitions.
    pub loaded_libraries: Vec<bool>,
}

impl Definitions {
    /// Definition of a global; [`Definition::Undefined`] for local symbols.
    #[inline]
    pub fn definition(&self, id: SymbolId) -> Definition {
        self.of.get(id.index()).copied().unwrap_or_default()
    }

    /// Whether it is a global that nothing defines.
    #[inline]
    pub fn is_undefined(&self, id: SymbolId) -> bool {
        matches!(self.of.get(id.index()), Some(Definition::Undefined))
    }

    /// The kinds of files that refer to a symbol or define it; none for a local symbol.
    #[inline]
    pub fn mentions(&self, id: SymbolId) -> MentionedBy {
        self.mentions.get(id.index()).copied().unwrap_or_default()
    }
}

/// A symbol that the linker itself defines.
#[derive(Clone, Copy, Debug)]
pub struct LinkerSymbol {
    /// The global that it defines.
    pub symbol: SymbolId,
    /// Where its value comes from.
    pub origin: LinkerSymbolOrigin,
    /// Whether it is `STV_HIDDEN`, so that it is not exported.
    pub hidden: bool,
    /// Whether its value is a number that does not move with the program.
    pub fixed: bool,
    /// Its type (`STT_*`). An alias has its target's type.
    pub kind: u8,
    /// The definition that this one replaced.
    pub overridden: Definition,
}

/// Where a linker-defined symbol's value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkerSymbolOrigin {
    /// An assignment in the script or a `--defsym`; the layout plan knows which.
    Assignment,
    /// A name that programs expect the linker to define, such as `_DYNAMIC`. Its value is the start of a
    /// section, a header or a segment.
    Reserved(Reserved),
    /// `__start_NAME`: the start of output section NAME.
    Start,
    /// `__stop_NAME`: the end of output section NAME.
    Stop,
    /// The name of a version that the output defines: an absolute symbol of value 0 and type `STT_OBJECT`.
    Version,
}

/// Reserved names that the linker itself defines, because no built-in script does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reserved {
    /// `_DYNAMIC`: the start of `.dynamic`.
    Dynamic,
    /// `_GLOBAL_OFFSET_TABLE_`: the start of `.got.plt` or of `.got`, by the machine's convention.
    GlobalOffsetTable,
    /// `__ehdr_start`: the ELF header, if it is loaded.
    EhdrStart,
    /// `__dso_handle`: the start of the image, by which a module names itself (Itanium C++ ABI, 3.3.6).
    DsoHandle,
    /// `__GNU_EH_FRAME_HDR`: the start of `.eh_frame_hdr`.
    EhFrameHdr,
    /// `_TLS_MODULE_BASE_`: the start of the TLS segment.
    TlsModuleBase,
    /// `_PROCEDURE_LINKAGE_TABLE_`: the start of `.plt`.
    ProcedureLinkageTable,
}
