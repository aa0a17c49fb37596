//! The rows of the dynamic linker's tables before they become bytes: `.dynsym`, `.dynstr`, the hash tables,
//! `.gnu.version*` and `.dynamic`.
//!
//! `passes::size_tables` chooses symbols, names and versions before the layout. The modules named after the
//! tables write them and fill in addresses.

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

/// The tables. In a static link, they are empty.
#[derive(Debug, Default)]
pub struct DynamicTables<'a> {
    /// For each library, whether the output names it (`DT_NEEDED`).
    pub libraries: Vec<bool>,
    /// Rows of `.dynsym` from row 1 on.
    pub symbols: Vec<DynamicSymbol<'a>>,
    /// The position in `symbols` of the first definition that is in `.gnu.hash`, where other modules find it.
    /// These come last.
    pub first_hashed: usize,
    /// Shape of `.gnu.hash`.
    pub gnu_hash: GnuHashShape,
    /// For each global, the row of `.dynsym` that it or its representative has
    /// ([`crate::synth::dynsym::representative`]); 0 if it has none. Empty in static links.
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
/// The filter has so many bits for each name, before rounding up. Then about one absent name in forty passes
/// at most.
const BITS_PER_NAME: usize = 12;

/// The numbers that determine the size of `.gnu.hash`.
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

/// The versions that the output needs from one library.
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
    /// Whether all references to it are weak.
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
    /// The address of a section that the linker makes.
    AddressOf(Kind),
    /// The size of such a section, in bytes.
    SizeOf(Kind),
    /// This size of an entry of such a section, in bytes.
    EntryOf(Kind, u64),
    /// Address of the output section of this name.
    OutputAddress(&'static str),
    /// The size of such an output section, in bytes.
    OutputSize(&'static str),
    /// Address of the dynamic linker's reserved words (`DT_PLTGOT`).
    ReservedWords,
    /// Address of a symbol.
    Symbol(SymbolId),
}
