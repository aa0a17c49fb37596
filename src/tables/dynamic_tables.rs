//! The rows of the dynamic linker's tables before they are bytes: `.dynsym`, `.dynstr`, the hash
//! tables, `.gnu.version*` and `.dynamic`.
//!
//! `passes::size_tables` chooses symbols, names and versions before layout; the modules named after
//! the tables write them and fill in addresses.

use super::dynstr::DynamicStrings;
use super::section::Kind;
use crate::ids::{SharedId, SymbolId};

/// A row of `.dynsym`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynamicSymbol<'a> {
    /// The global.
    pub id: SymbolId,
    /// Its name, without a version.
    pub name: &'a [u8],
    /// Offset of the name in `.dynstr`.
    pub name_offset: u32,
    /// Hash of the name for `.gnu.hash`.
    pub gnu_hash: u32,
}

/// The tables. Those of a static link are empty.
#[derive(Debug, Default)]
pub struct DynamicTables<'a> {
    /// By library: whether the output names it (`DT_NEEDED`).
    pub libraries: Vec<bool>,
    /// Rows of `.dynsym` from row 1 on.
    pub symbols: Vec<DynamicSymbol<'a>>,
    /// Position in `symbols` of the first definition: definitions come last and are in `.gnu.hash`, for other
    /// modules to find.
    pub first_hashed: usize,
    /// Shape of `.gnu.hash`.
    pub gnu_hash: GnuHashShape,
    /// By global: row of `.dynsym` of the symbol or of its representative
    /// ([`crate::synth::dynsym::representative`]), 0 if it has none. Empty in static links.
    pub row_of: Vec<u32>,
    /// Version words of `symbols`.
    pub words: Vec<u16>,
    /// `.dynstr`.
    pub strings: DynamicStrings<'a>,
    /// `.gnu.version_d`.
    pub defined: Vec<DefinedVersion<'a>>,
    /// `.gnu.version_r`.
    pub needed: Vec<NeededLibrary<'a>>,
    /// `.dynamic`, without the null entries at its end.
    pub entries: Vec<DynamicEntry>,
}

impl DynamicTables<'_> {
    /// Whether the output names a library (`DT_NEEDED`).
    #[inline]
    pub fn needs(&self, library: SharedId) -> bool {
        self.libraries.get(library.index()).copied().unwrap_or(false)
    }

    /// Row of a symbol in `.dynsym`; 0 if it has none.
    #[inline]
    pub fn row(&self, id: SymbolId) -> u32 {
        self.row_of.get(id.index()).copied().unwrap_or(0)
    }
}

/// Bytes of the header of `.gnu.hash`.
const HEADER: usize = 16;
/// Bits of the filter for each name, before rounding up: at most about one absent name in forty passes.
const BITS_PER_NAME: usize = 12;

/// Numbers that determine the size of `.gnu.hash`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GnuHashShape {
    /// Buckets, at least one.
    pub buckets: u32,
    /// 64-bit words of the filter, a power of two.
    pub filter: u32,
    /// Rows that are hashed.
    pub hashed: u32,
}

impl GnuHashShape {
    /// The shape for `hashed` names.
    pub fn new(hashed: usize) -> Self {
        GnuHashShape {
            buckets: (hashed as u32 / 4).max(1),
            filter: (hashed * BITS_PER_NAME / 64).next_power_of_two() as u32,
            hashed: hashed as u32,
        }
    }

    /// The bucket of a hash.
    pub fn bucket(self, hash: u32) -> u32 {
        hash % self.buckets
    }

    /// Size of the table in bytes.
    pub fn size(self) -> u64 {
        HEADER as u64 + u64::from(self.filter) * 8 + (u64::from(self.buckets) + u64::from(self.hashed)) * 4
    }
}

/// A version that the output defines, ready to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefinedVersion<'a> {
    /// Name.
    pub name: &'a [u8],
    /// Index in `.gnu.version`.
    pub index: u16,
    /// `VER_FLG_*`.
    pub flags: u16,
    /// Offsets in `.dynstr`: of the name, then of the versions that it follows.
    pub names: Vec<u32>,
}

/// The versions that the output needs of one library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeededLibrary<'a> {
    /// Offset of the library's name in `.dynstr`.
    pub file: u32,
    /// The versions.
    pub versions: Vec<NeededVersion<'a>>,
}

/// A version of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeededVersion<'a> {
    /// Name.
    pub name: &'a [u8],
    /// Offset of the name in `.dynstr`.
    pub name_offset: u32,
    /// Index in `.gnu.version`.
    pub index: u16,
    /// All references to it are weak.
    pub weak: bool,
}

/// An entry of `.dynamic`, whose value may depend on the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynamicEntry {
    /// `DT_*`.
    pub tag: i64,
    /// Its value.
    pub value: EntryValue,
}

/// The value of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryValue {
    /// A number that is known before the layout.
    Number(u64),
    /// Address of a section that the linker makes.
    AddressOf(Kind),
    /// Its size in bytes.
    SizeOf(Kind),
    /// Address of the output section of this name.
    OutputAddress(&'static str),
    /// Its size in bytes.
    OutputSize(&'static str),
    /// Address of the dynamic linker's reserved words (`DT_PLTGOT`).
    ReservedWords,
    /// Address of a symbol.
    Symbol(SymbolId),
}
