//! The phase that knows the GOT slots, PLT entries and copy relocations of each symbol.
//!
//! `number_rows` makes it from the needs that `scan_relocations` collected. Addresses come later, so slots
//! and entries are counted from the start of their table.

use super::{Scanned, builds_on};
use crate::arch::Target;
use crate::ids::{DynamicRowId, SharedId, Slot, SymbolId};
use crate::tables::section::Kind;
use hashbrown::HashMap;

/// Symbols with their slots, entries and copies.
pub struct Numbered<'a, T: Target> {
    /// The phase before: needs of relocations.
    pub scanned: Scanned<'a, T>,
    /// Symbols that have slots, entries, copies or a row of `.dynsym`, by [`SymbolId`].
    pub rows: Vec<DynamicRow>,
    /// For each symbol, its place in `rows`, if it has one.
    pub row_of: Vec<Option<DynamicRowId>>,
    /// Sizes of the GOT and PLT sections.
    pub slots: Slots,
    /// Copy relocations, and the sections that hold the copies.
    pub copies: Copies,
    /// Functions that lazy binding must leave alone ([`Target::VARIANT_CALLS`]), in order.
    pub variants: Vec<SymbolId>,
}

builds_on!(['a, T: Target] Numbered<'a, T>, scanned: Scanned<'a, T>);

/// The GOT slots, PLT entries and copy of one symbol. Slot numbers count from 0 in their own table.
#[derive(Clone, Copy, Debug)]
pub struct DynamicRow {
    /// The symbol.
    pub symbol: SymbolId,
    /// Word in `.got` with its address.
    pub got: Option<Slot>,
    /// Word in `.got` with its offset from the thread pointer.
    pub got_tp: Option<Slot>,
    /// The first of two words in `.got` that `__tls_get_addr` takes: module and offset.
    pub tls_gd: Option<Slot>,
    /// First of two words in `.got` of the TLS descriptor.
    pub tls_desc: Option<Slot>,
    /// Word in `.got` with its address as a signed pointer.
    pub signed_got: Option<Slot>,
    /// First of two words in `.got` of the TLS descriptor that is made of signed pointers.
    pub signed_tls_desc: Option<Slot>,
    /// The entry of `.plt`, which is also the word of `.got.plt` behind the reserved ones.
    pub plt: Option<Slot>,
    /// Entry of `.plt.got`.
    pub plt_got: Option<Slot>,
    /// The word in `.got` with the result of the symbol's resolver, for an `STT_GNU_IFUNC` of this output. It
    /// is the same word as `got`, unless `got` is missing or holds the canonical PLT entry.
    pub resolved: Option<Slot>,
    /// Row of [`Copies::all`], for symbols with [`crate::symbols::Needs::COPY`].
    pub copy: Option<Slot>,
}

impl DynamicRow {
    /// A row without slots, entries and copy.
    pub fn new(symbol: SymbolId) -> Self {
        DynamicRow {
            symbol,
            got: None,
            got_tp: None,
            tls_gd: None,
            tls_desc: None,
            signed_got: None,
            signed_tls_desc: None,
            plt: None,
            plt_got: None,
            resolved: None,
            copy: None,
        }
    }
}

/// Sizes of the tables of slots and entries.
#[derive(Default)]
pub struct Slots {
    /// Words of `.got`.
    pub got_words: u32,
    /// The first of two words in `.got` for local-dynamic code: this module's number, and 0.
    pub tls_module: Option<Slot>,
    /// Words of `.got.plt`, including the reserved ones.
    pub got_plt_words: u64,
    /// Entries of `.plt` behind the header.
    pub plt: u32,
    /// Entries of `.plt.got`.
    pub plt_got: u32,
    /// Entries of `.plt.got` for `STT_GNU_IFUNC` functions of this output. Resolvers fill their words.
    pub resolved: u32,
}

/// Room for one copy of a library's variable (`R_*_COPY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copy {
    /// The symbol that the relocation names: the largest of the variable's names.
    pub symbol: SymbolId,
    /// The library that defines the variable.
    pub library: SharedId,
    /// Address in the library.
    pub value: u64,
    /// Size in bytes: the largest `st_size` among the names of the variable.
    pub size: u64,
    /// Whether the library never writes to its own data once the program runs. Then the copy belongs to
    /// RELRO.
    pub relro: bool,
    /// Offset in the section of copies, in bytes.
    pub offset: u64,
}

/// Size and alignment of a section of copies, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Size.
    pub size: u64,
    /// Alignment.
    pub align: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Extent { size: 0, align: 1 }
    }
}

/// All copies, and the size of their sections.
#[derive(Default)]
pub struct Copies {
    /// In the order of the symbols that ask for them.
    pub all: Vec<Copy>,
    /// `.dynbss`: copies that the program may write to.
    pub data: Extent,
    /// `.data.rel.ro`: copies that are read-only after relocation.
    pub relro: Extent,
}

impl<T: Target> Numbered<'_, T> {
    /// The row of a symbol; `None` if it needs nothing and is not exported.
    #[inline]
    pub fn row(&self, id: SymbolId) -> Option<&DynamicRow> {
        let row = (*self.row_of.get(id.index())?)?;
        self.rows.get(row.index())
    }

    /// Sizes of `.plt`, `.plt.sec` and `.plt.got` in bytes.
    pub fn plt_sizes(&self) -> (u64, u64, u64) {
        let shape = &self.plt_shape;
        let (lazy, direct) = (u64::from(self.slots.plt), u64::from(self.slots.plt_got));
        let plt = if lazy == 0 { 0 } else { shape.header + lazy * shape.entry };
        let sec = if shape.split { lazy * shape.direct_entry } else { 0 };
        (plt, sec, direct * shape.direct_entry)
    }

    /// The section of a row's PLT entry, and the entry's offset in it, in bytes.
    #[inline]
    pub fn plt_place(&self, row: &DynamicRow) -> Option<(Kind, u64)> {
        let shape = &self.plt_shape;
        let direct = |entry: Slot| u64::from(entry.number()) * shape.direct_entry;
        match (row.plt_got, row.plt) {
            (Some(entry), _) => Some((Kind::PltGot, direct(entry))),
            (None, Some(entry)) if shape.split => Some((Kind::PltSec, direct(entry))),
            (None, Some(entry)) => Some((Kind::Plt, shape.lazy_entry(entry.number()))),
            (None, None) => None,
        }
    }

    /// The section of a row's copy, and the copy's offset in it, in bytes.
    pub fn copy_place(&self, row: &DynamicRow) -> Option<(Kind, u64)> {
        let copy = self.copy(row)?;
        Some((if copy.relro { Kind::CopyRelro } else { Kind::CopyData }, copy.offset))
    }

    /// The copy that a row's symbol names.
    pub fn copy(&self, row: &DynamicRow) -> Option<&Copy> {
        self.copies.of(row)
    }
}

impl Copies {
    /// The copy that a row's symbol names.
    pub fn of(&self, row: &DynamicRow) -> Option<&Copy> {
        self.all.get(row.copy?.number() as usize)
    }

    /// The row of each variable (one address of one library). All names of a variable share its copy.
    pub fn by_variable(&self) -> HashMap<(SharedId, u64), Slot> {
        let rows = self.all.iter().enumerate();
        rows.map(|(row, copy)| ((copy.library, copy.value), Slot::new(row as u32))).collect()
    }
}

#[cfg(test)]
impl<'a, T: Target> Numbered<'a, T> {
    /// For tests of later passes: no symbol has a row.
    pub fn of(scanned: Scanned<'a, T>) -> Self {
        Numbered {
            rows: Vec::new(),
            row_of: Vec::new(),
            slots: Slots::default(),
            copies: Copies::default(),
            variants: Vec::new(),
            scanned,
        }
    }
}
