//! Numbers GOT slots, PLT entries and copy relocations.
//!
//! The pass is serial and goes through symbols in the order in which the files mention them, as other linkers
//! do, so that tables of different linkers can be compared, and neighbours in a file stay neighbours. It
//! numbers only slots and entries that `scan_relocations` found to be needed. A table that stays empty is
//! dropped.

use crate::arch::Target;
use crate::ids::{DynamicRowId, SharedId, Slot, SymbolId};
use crate::phase::{Copies, DynamicRow, Inputs, Numbered, Scanned, Slots};
use crate::rows::filled;
use crate::symbols::{Definition, Needs, SymbolFlags};
use crate::synth::copy;
use parallel::{IntoParallel, ParallelSlice, ParallelSort};

/// Gives each symbol with needs, and each exported one, its row.
pub fn run<T: Target>(mut scanned: Scanned<'_, T>) -> Numbered<'_, T> {
    // This comes first, because all names of a copied variable get rows.
    let (copies, names) = copy::collect(&scanned);
    for id in names {
        scanned.reloc_needs.of_symbols[id.index()] |= Needs::COPY | Needs::DYNSYM;
    }
    let mut numbers = Numbers { got: T::GOT_RESERVED as u32, ..Numbers::default() };
    let (rows, row_of) = number(&scanned, &copies, &mut numbers);
    let module = scanned.reloc_needs.needs.contains(Needs::TLS_MODULE);
    let tls_module = if module { numbers.words(2) } else { None };
    let mut slots = Slots {
        got_words: numbers.got,
        tls_module,
        got_plt_words: 0,
        plt: numbers.plt,
        plt_got: numbers.plt_got,
        resolved: numbers.resolved,
    };
    reserve_words(&scanned, &mut slots);
    Numbered { rows, row_of, slots, copies, variants: variants(&scanned), scanned }
}

fn number<T: Target>(
    link: &Scanned<'_, T>,
    copies: &Copies,
    numbers: &mut Numbers,
) -> (Vec<DynamicRow>, Vec<Option<DynamicRowId>>) {
    let is_wanted =
        |id| !link.symbol_needs(id).is_empty() || link.symbol_flags(id).contains(SymbolFlags::EXPORTED);
    let mut symbols: Vec<SymbolId> = (0..link.symbols.len() as u32)
        .into_par_iter()
        .with_min_len(4096)
        .map(SymbolId)
        .filter(|&id| is_wanted(id))
        .collect();
    symbols.par_sort_by_key(|&id| link.globals.order(id));
    let copies = copies.by_variable();
    let mut rows = Vec::with_capacity(symbols.len());
    let mut row_of = filled(None, link.symbols.len());
    for id in symbols {
        let needs = link.symbol_needs(id);
        let mut row = numbers.row(id, link.symbol_flags(id), needs);
        if needs.contains(Needs::COPY) {
            row.copy = variable(link, id).and_then(|variable| copies.get(&variable).copied());
        }
        row_of[id.index()] = Some(DynamicRowId::from_index(rows.len()));
        rows.push(row);
    }
    (rows, row_of)
}

/// The variable of a library that a symbol names.
fn variable<T: Target>(link: &Scanned<'_, T>, id: SymbolId) -> Option<(SharedId, u64)> {
    let Definition::Shared { library, symbol } = link.definition(id) else { return None };
    let value = link.shared.get(library.index())?.symbols.get(symbol as usize)?.st_value.get();
    Some((library, value))
}

/// The next free number of each table.
#[derive(Default)]
struct Numbers {
    got: u32,
    plt: u32,
    plt_got: u32,
    resolved: u32,
}

impl Numbers {
    fn words(&mut self, count: u32) -> Option<Slot> {
        self.got += count;
        Some(Slot::new(self.got - count))
    }

    fn row(&mut self, id: SymbolId, flags: SymbolFlags, of_symbol: Needs) -> DynamicRow {
        let mut row = DynamicRow::new(id);
        let needs = |need| of_symbol.contains(need);
        let (calls, canonical) = (needs(Needs::PLT), needs(Needs::CANONICAL_PLT));
        let resolved = flags & (SymbolFlags::IFUNC | SymbolFlags::IMPORTED) == SymbolFlags::IFUNC;
        if needs(Needs::GOT) {
            row.got = self.words(1);
        }
        if resolved && (calls || needs(Needs::GOT)) {
            row.resolved = if canonical || row.got.is_none() { self.words(1) } else { row.got };
        }
        // If a function's PLT entry is its address in this program, the entry needs a jump slot: look-ups for
        // other relocations find that address, so an entry that used them would jump to itself.
        let direct = resolved || (needs(Needs::GOT) && !canonical);
        if calls && direct {
            row.plt_got = Some(Slot::new(self.plt_got));
            self.plt_got += 1;
            self.resolved += u32::from(resolved);
        } else if calls {
            row.plt = Some(Slot::new(self.plt));
            self.plt += 1;
        }
        if needs(Needs::GOT_TP) {
            row.got_tp = self.words(1);
        }
        if needs(Needs::TLS_GD) {
            row.tls_gd = self.words(2);
        }
        if needs(Needs::TLS_DESC) {
            row.tls_desc = self.words(2);
        }
        if needs(Needs::SIGNED_GOT) {
            row.signed_got = self.words(1);
        }
        if needs(Needs::SIGNED_TLS_DESC) {
            row.signed_tls_desc = self.words(2);
        }
        row
    }
}

/// Makes room for the reserved words at the head of `.got` or `.got.plt`, if the dynamic linker or references
/// to `_GLOBAL_OFFSET_TABLE_` need them. Where they have a table of their own, they are also there if any
/// slot is, as in other linkers: the symbol then names a place of its own. Otherwise takes back the room that
/// [`Target::GOT_RESERVED`] kept in an empty `.got`.
fn reserve_words<T: Target>(link: &Scanned<'_, T>, slots: &mut Slots) {
    let base_needed = link.reloc_needs.needs.contains(Needs::GOT_BASE) || is_base_in_expressions(link);
    let entries = u64::from(slots.plt);
    // If `.rela.plt` has entries, dynamic linkers fill these words, whether or not there are jump slots.
    let bound = entries > 0 || slots.resolved > 0 && link.is_dynamic();
    let in_got = base_needed && !T::GOT_SYMBOL_IN_GOT_PLT || bound && T::GOT_PLT_RESERVED == 0;
    if in_got {
        slots.got_words = slots.got_words.max(1);
    } else if u64::from(slots.got_words) == T::GOT_RESERVED {
        slots.got_words = 0;
    }
    let has_slots = slots.got_words > 0 || slots.plt_got > 0;
    if bound || has_slots && T::GOT_PLT_RESERVED > 0 || base_needed && T::GOT_SYMBOL_IN_GOT_PLT {
        slots.got_plt_words = T::GOT_PLT_RESERVED + entries;
    }
}

/// The globals that an object or a library marks as functions with a variant calling convention
/// (`STO_AARCH64_VARIANT_PCS`). Sorted.
fn variants<T: Target>(link: &Inputs<'_, T>) -> Vec<SymbolId> {
    let Some((bit, _)) = T::VARIANT_CALLS else { return Vec::new() };
    let mut found: Vec<SymbolId> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let globals = object.symbols.get(object.first_global as usize..).unwrap_or_default();
            let marked =
                globals.iter().zip(&object.globals).filter(move |(symbol, _)| symbol.st_other & bit != 0);
            marked.map(|(_, &id)| id)
        })
        .collect();
    for library in &link.shared {
        let marked = library
            .symbols
            .iter()
            .zip(&library.globals)
            .filter(|(symbol, id)| symbol.st_other & bit != 0 && id.is_some() && !symbol.is_undefined());
        found.extend(marked.map(|(_, &id)| id));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether an expression of the script or `--defsym` names `_GLOBAL_OFFSET_TABLE_`. That objects mention the
/// name proves nothing: assemblers add it wherever code uses the GOT, and the linker may relax all that code.
fn is_base_in_expressions<T: Target>(link: &Scanned<'_, T>) -> bool {
    let name: &[u8] = b"_GLOBAL_OFFSET_TABLE_";
    let made = |id| link.symbol_flags(id).contains(SymbolFlags::GOT_BASE);
    link.globals.lookup(name).is_some_and(made)
        && link.plan.referenced_symbols(&|_| true).iter().any(|found| &*found.bytes == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IFUNC: SymbolFlags = SymbolFlags::IFUNC;
    const IMPORTED: SymbolFlags = SymbolFlags::IMPORTED;

    fn row(numbers: &mut Numbers, flags: SymbolFlags, needs: Needs) -> DynamicRow {
        numbers.row(SymbolId(0), flags, needs)
    }

    fn numbers_of<const N: usize>(slots: [Option<Slot>; N]) -> [Option<u32>; N] {
        slots.map(|slot| slot.map(Slot::number))
    }

    #[test]
    fn symbols_get_the_entries_that_they_need() {
        let mut numbers = Numbers::default();
        let called = row(&mut numbers, IMPORTED | SymbolFlags::FUNCTION, Needs::PLT);
        assert_eq!(numbers_of([called.plt, called.plt_got, called.got]), [Some(0), None, None]);
        let both = row(&mut numbers, IMPORTED, Needs::PLT | Needs::GOT);
        assert_eq!(numbers_of([both.plt, both.plt_got, both.got]), [None, Some(0), Some(0)]);
        let canonical = Needs::PLT | Needs::CANONICAL_PLT | Needs::GOT;
        let canonical = row(&mut numbers, IMPORTED, canonical);
        assert_eq!(numbers_of([canonical.plt, canonical.plt_got, canonical.got]), [Some(1), None, Some(1)]);
        let tls = row(&mut numbers, SymbolFlags::TLS, Needs::TLS_GD | Needs::GOT_TP | Needs::TLS_DESC);
        assert_eq!(numbers_of([tls.got_tp, tls.tls_gd, tls.tls_desc]), [Some(2), Some(3), Some(5)]);
        assert_eq!(numbers.got, 7);
    }

    #[test]
    fn resolved_functions_have_no_jump_slot() {
        let mut numbers = Numbers::default();
        let loaded = row(&mut numbers, IFUNC, Needs::GOT);
        assert_eq!(numbers_of([loaded.got, loaded.resolved, loaded.plt_got]), [Some(0), Some(0), None]);
        let canonical = Needs::PLT | Needs::CANONICAL_PLT | Needs::GOT;
        let canonical = row(&mut numbers, IFUNC, canonical);
        assert_eq!(
            numbers_of([canonical.got, canonical.resolved, canonical.plt_got, canonical.plt]),
            [Some(1), Some(2), Some(0), None]
        );
        let exported = row(&mut numbers, IFUNC | IMPORTED, Needs::PLT);
        assert_eq!(numbers_of([exported.resolved, exported.plt]), [None, Some(0)]);
    }
}
