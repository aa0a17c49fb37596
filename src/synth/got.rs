//! The global offset table: `.got` and `.got.plt`.
//!
//! [`for_each_word`] says for each word what is in it and what the dynamic linker does to it. The
//! contents, the relocations and their number all come from there.

use crate::arch::Target;
use crate::ids::SymbolId;
use crate::link::Link;
use crate::relocs::address::{from_thread_pointer, value};
use crate::symbols::flag;
use crate::synth::{DynamicRow, Kind, plt};
use zerocopy::byteorder::U64;

/// One word of `.got`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its number.
    pub index: u32,
    /// What the file holds.
    pub value: u64,
    /// What the dynamic linker does.
    pub relocation: Option<WordRelocation>,
}

/// A dynamic relocation of a GOT word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordRelocation {
    /// Type.
    pub kind: u32,
    /// The symbol that is looked up; [`SymbolId::NONE`] if none is.
    pub symbol: SymbolId,
    /// Addend.
    pub addend: u64,
}

impl Word {
    fn fixed(index: u32, value: u64) -> Self {
        Word { index, value, relocation: None }
    }

    fn dynamic(index: u32, kind: u32, symbol: SymbolId, addend: u64) -> Self {
        Word { index, value: 0, relocation: Some(WordRelocation { kind, symbol, addend }) }
    }

    /// An address of this output.
    fn local<T: Target>(link: &Link<'_, T>, index: u32, address: u64) -> Self {
        if !link.mode.position_independent {
            return Word::fixed(index, address);
        }
        let apply = link.config.relocations.apply_dynamic.unwrap_or(T::APPLY_DYNAMIC)
            || link.config.relocations.pack_relative;
        Word {
            value: if apply { address } else { 0 },
            ..Word::dynamic(index, T::DYNAMIC.relative, SymbolId::NONE, address)
        }
    }
}

/// Visits the words of a row. Before addresses are known, values are 0; what is relocated and how
/// is already right.
pub fn for_each_word<T: Target>(link: &Link<'_, T>, row: &DynamicRow, mut visit: impl FnMut(Word)) {
    let (dynamic, none) = (&T::DYNAMIC, SymbolId::NONE);
    let shared = link.mode.shared;
    let id = row.symbol;
    let flags = link.symbols.flags(id);
    let imported = flags & flag::IMPORTED != 0;
    let address = value(link, id);
    let in_block = address.wrapping_sub(link.relocations.addresses.tls_start);
    if row.resolved != u32::MAX {
        visit(Word::dynamic(row.resolved, dynamic.irelative, none, address));
    }
    if row.got != u32::MAX && row.got != row.resolved {
        visit(match () {
            () if imported => Word::dynamic(row.got, dynamic.glob_dat, id, 0),
            // The PLT entry is the function's address.
            () if flags & flag::IFUNC != 0 => Word::local(link, row.got, plt::entry_address(link, row)),
            () if flags & flag::ABSOLUTE != 0 => Word::fixed(row.got, address),
            () => Word::local(link, row.got, address),
        });
    }
    if row.got_tp != u32::MAX {
        visit(match () {
            () if imported => Word::dynamic(row.got_tp, dynamic.tpoff, id, 0),
            () if shared => Word::dynamic(row.got_tp, dynamic.tpoff, none, in_block),
            () => Word::fixed(row.got_tp, from_thread_pointer(link, id, address, 0) as u64),
        });
    }
    if row.tls_gd != u32::MAX {
        let (module, offset) = (row.tls_gd, row.tls_gd + 1);
        if imported {
            visit(Word::dynamic(module, dynamic.dtpmod, id, 0));
            visit(Word::dynamic(offset, dynamic.dtpoff, id, 0));
        } else {
            visit(module_word::<T>(module, shared));
            visit(Word::fixed(offset, in_block));
        }
    }
    if row.tls_desc != u32::MAX {
        let (symbol, addend) = if imported { (id, 0) } else { (none, in_block) };
        visit(Word::dynamic(row.tls_desc, dynamic.tlsdesc, symbol, addend));
    }
}

/// The module number: a library learns its own at run time, an executable's is 1.
fn module_word<T: Target>(index: u32, shared: bool) -> Word {
    if shared { Word::dynamic(index, T::DYNAMIC.dtpmod, SymbolId::NONE, 0) } else { Word::fixed(index, 1) }
}

/// Visits the word with the number of this module, if there is one.
pub fn for_module_word<T: Target>(link: &Link<'_, T>, mut visit: impl FnMut(Word)) {
    let slot = link.relocations.tls_module_slot;
    if slot != u32::MAX {
        visit(module_word::<T>(slot, link.mode.shared));
    }
}

/// Writes `.got`.
pub fn write<T: Target>(link: &Link<'_, T>, out: &mut [u8]) {
    if T::GOT_RESERVED > 0 {
        store::<T>(out, 0, crate::relocs::address::of_synthetic(link, Kind::Dynamic));
    }
    let mut store = |word: Word| store::<T>(out, word.index.into(), word.value);
    for row in &link.synthetics.rows {
        for_each_word(link, row, &mut store);
    }
    for_module_word(link, store);
}

/// Writes `.got.plt`: the address of `.dynamic` (if it is not in `.got`) and other words of the
/// dynamic linker, and for each entry of `.plt` where its lazy half begins.
pub fn write_plt<T: Target>(link: &Link<'_, T>, out: &mut [u8]) {
    if T::GOT_PLT_RESERVED > 0 && T::GOT_RESERVED == 0 {
        store::<T>(out, 0, crate::relocs::address::of_synthetic(link, Kind::Dynamic));
    }
    let shape = plt::shape(link);
    for index in 0..link.relocations.plt_count {
        let target = T::lazy_target(plt::entry(link, index), shape);
        store::<T>(out, T::GOT_PLT_RESERVED + u64::from(index), target);
    }
}

fn store<T: Target>(out: &mut [u8], word: u64, value: u64) {
    let start = word as usize * 8;
    if let Some(out) = out.get_mut(start..start + 8) {
        out.copy_from_slice(&U64::<T::E>::new(value).to_bytes());
    }
}
