//! Numbers what the dynamic linker gets, and settles the sizes of the tables.
//!
//! Serial and in the order of symbol ids, which depends on nothing but the inputs. What is
//! numbered here is what `scan_relocations` found to be needed; a table nobody needs stays empty
//! and is dropped.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::ids::SymbolId;
use crate::link::Link;
use crate::phase::Inputs;
use crate::phase::Resolved;
use crate::relocs::decide::need;
use crate::relocs::dynamic;
use crate::symbols::{Definition, flag};
use crate::synth::{DynamicRow, Kind, copy, dynamic_tables, plt, reldyn, relr};
use rayon::prelude::*;

const NONE: u32 = u32::MAX;

/// Makes the rows, and the sizes of GOT, PLT, copies and dynamic relocations.
pub fn run<T: Target>(link: &mut Link<'_, T>) {
    link.relocations.plt_shape = T::plt_shape(&link.config.properties, link.synthetic.features);
    let (data, relro) = copy::collect(link);
    set_size(link, Kind::CopyData, data.size, data.align);
    set_size(link, Kind::CopyRelro, relro.size, relro.align);
    number_rows(link);
    size_tables(link);
    link.synthetics.variants = variants(link);
    dynamic_tables::size(link);
}

/// Functions that some object says to have a calling convention of their own.
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
    found.sort_unstable();
    found.dedup();
    found
}

fn number_rows<T: Target>(link: &mut Link<'_, T>) {
    let wanted = flag::NEEDS | flag::EXPORTED;
    let symbols: Vec<SymbolId> = (0..link.symbols.len() as u32)
        .into_par_iter()
        .with_min_len(4096)
        .map(SymbolId)
        .filter(|&id| link.symbols.flags(id) & wanted != 0)
        .collect();
    let mut numbers = Numbers { got: T::GOT_RESERVED as u32, ..Numbers::default() };
    let mut rows = Vec::with_capacity(symbols.len());
    link.rows = vec![NONE; link.symbols.len()];
    for id in symbols {
        let flags = link.symbols.flags(id);
        let mut row = numbers.row(id, flags);
        if flags & flag::NEEDS_COPY != 0 {
            row.copy = copy::find(link, id).unwrap_or(NONE);
        }
        link.rows[id.index()] = rows.len() as u32;
        rows.push(row);
    }
    link.synthetics.rows = rows;
    let tls_module_slot = match link.asked.needs & need::TLS_MODULE {
        0 => NONE,
        _ => numbers.words(2),
    };
    let relocations = &mut link.relocations;
    relocations.tls_module_slot = tls_module_slot;
    relocations.got_words = numbers.got;
    relocations.plt_count = numbers.plt;
    relocations.plt_got_count = numbers.plt_got;
}

/// The next free number of each table.
#[derive(Default)]
struct Numbers {
    got: u32,
    plt: u32,
    plt_got: u32,
}

impl Numbers {
    fn words(&mut self, count: u32) -> u32 {
        self.got += count;
        self.got - count
    }

    fn row(&mut self, id: SymbolId, flags: u32) -> DynamicRow {
        let mut row = DynamicRow::new(id);
        let needs = |bits| flags & bits != 0;
        let (calls, canonical) = (needs(flag::NEEDS_PLT), needs(flag::NEEDS_CANONICAL_PLT));
        let resolved = needs(flag::IFUNC) && !needs(flag::IMPORTED);
        if needs(flag::NEEDS_GOT) {
            row.got = self.words(1);
        }
        if resolved && (calls || needs(flag::NEEDS_GOT)) {
            row.resolved = if canonical || row.got == NONE { self.words(1) } else { row.got };
        }
        // A function whose PLT entry is its address in this program must have a jump slot: lookups
        // for other relocations find that address, and the entry would jump to itself.
        let direct = resolved || (needs(flag::NEEDS_GOT) && !canonical);
        if calls && direct {
            row.plt_got = self.plt_got;
            self.plt_got += 1;
        } else if calls {
            row.plt = self.plt;
            self.plt += 1;
        }
        if needs(flag::NEEDS_GOT_TP) {
            row.got_tp = self.words(1);
        }
        if needs(flag::NEEDS_TLS_GD) {
            row.tls_gd = self.words(2);
        }
        if needs(flag::NEEDS_TLS_DESC) {
            row.tls_desc = self.words(2);
        }
        row
    }
}

fn size_tables<T: Target>(link: &mut Link<'_, T>) {
    let base_needed = link.asked.needs & need::GOT_BASE != 0 || is_got_symbol_used(link);
    let slots = u64::from(link.relocations.plt_count);
    let in_got = base_needed && !T::GOT_SYMBOL_IN_GOT_PLT || slots > 0 && T::GOT_PLT_RESERVED == 0;
    let got_words = &mut link.relocations.got_words;
    if in_got {
        *got_words = (*got_words).max(1);
    } else if u64::from(*got_words) == T::GOT_RESERVED {
        *got_words = 0;
    }
    let has_got_plt = slots > 0 || (base_needed && T::GOT_SYMBOL_IN_GOT_PLT);
    let got_plt = if has_got_plt { T::GOT_PLT_RESERVED + slots } else { 0 };
    let (lazy, sec, direct) = plt::sizes(link);
    let align = plt::shape(link).align;
    set_size(link, Kind::Got, u64::from(link.relocations.got_words) * 8, 8);
    set_size(link, Kind::GotPlt, got_plt * 8, 8);
    set_size(link, Kind::Plt, lazy, align);
    set_size(link, Kind::PltSec, sec, align);
    set_size(link, Kind::PltGot, direct, align);
    let counts = dynamic::count(link);
    let (rela, rela_plt) = reldyn::sizes(link, &counts);
    set_size(link, Kind::RelaDyn, rela, 8);
    set_size(link, Kind::RelaPlt, rela_plt, 8);
    link.relocations.relative_count = if link.config.relocations.combine { counts.relative } else { 0 };
    link.relocations.relr_words = relr::first_guess(counts.packed);
    set_size(link, Kind::RelrDyn, link.relocations.relr_words * 8, 8);
}

/// Whether an object refers to `_GLOBAL_OFFSET_TABLE_` by name.
fn is_got_symbol_used<T: Target>(link: &Resolved<'_, T>) -> bool {
    link.globals
        .lookup(b"_GLOBAL_OFFSET_TABLE_")
        .is_some_and(|id| matches!(link.definition(id), Definition::Linker(_)))
}

/// A section that is needed and was not made would leave its contents nowhere.
fn set_size<T: Target>(link: &mut Link<'_, T>, kind: Kind, size: u64, align: u64) {
    let Some(row) = link.synthetics.find(kind) else {
        if size > 0 && !link.config.is_relocatable() {
            let message = format!("{kind:?} needs {size:#x} bytes, but there is no section for it");
            link.sink.report(Diagnostic::error(Code::Internal, message));
        }
        return;
    };
    let section = &mut link.synthetics.sections[row as usize];
    section.size = size;
    section.align = section.align.max(align);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(numbers: &mut Numbers, flags: u32) -> DynamicRow {
        numbers.row(SymbolId(0), flags)
    }

    #[test]
    fn entries_by_need() {
        let mut numbers = Numbers::default();
        let called = row(&mut numbers, flag::IMPORTED | flag::FUNCTION | flag::NEEDS_PLT);
        assert_eq!((called.plt, called.plt_got, called.got), (0, NONE, NONE));
        let both = row(&mut numbers, flag::IMPORTED | flag::NEEDS_PLT | flag::NEEDS_GOT);
        assert_eq!((both.plt, both.plt_got, both.got), (NONE, 0, 0));
        let canonical = flag::NEEDS_PLT | flag::NEEDS_CANONICAL_PLT | flag::NEEDS_GOT;
        let canonical = row(&mut numbers, flag::IMPORTED | canonical);
        assert_eq!((canonical.plt, canonical.plt_got, canonical.got), (1, NONE, 1));
        let tls =
            row(&mut numbers, flag::TLS | flag::NEEDS_TLS_GD | flag::NEEDS_GOT_TP | flag::NEEDS_TLS_DESC);
        assert_eq!((tls.got_tp, tls.tls_gd, tls.tls_desc, numbers.got), (2, 3, 5, 7));
    }

    #[test]
    fn resolved_functions_have_no_jump_slot() {
        let mut numbers = Numbers::default();
        let loaded = row(&mut numbers, flag::IFUNC | flag::NEEDS_GOT);
        assert_eq!((loaded.got, loaded.resolved, loaded.plt_got), (0, 0, NONE));
        let canonical = flag::NEEDS_PLT | flag::NEEDS_CANONICAL_PLT | flag::NEEDS_GOT;
        let canonical = row(&mut numbers, flag::IFUNC | canonical);
        assert_eq!((canonical.got, canonical.resolved, canonical.plt_got, canonical.plt), (1, 2, 0, NONE));
        let exported = row(&mut numbers, flag::IFUNC | flag::IMPORTED | flag::NEEDS_PLT);
        assert_eq!((exported.resolved, exported.plt), (NONE, 0));
    }
}
