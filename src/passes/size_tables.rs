//! Fills the dynamic linker's tables except for addresses, and sizes all synthetic sections.
//!
//! [`crate::synth::kinds`] says how large each section is. The pass runs before the layout. Some sections may
//! still grow while addresses are found: tables of packed relocations, whose size depends on how close their
//! places lie, and the SFrame table, which describes thunks, and which has pages in its compact form.

use crate::arch::Target;
use crate::debug_index::debug_names::NameIndex;
use crate::debug_index::joined::DebugIndex;
use crate::diag::{Code, Diagnostic};
use crate::ids::{SectionId, SymbolId};
use crate::phase::{Contents, Extent, Numbered, Resolved, Scanned, Tables};
use crate::relocs::dynamic;
use crate::sframe::collect::Chosen;
use crate::symbols::{Definition, MentionedBy, Needs};
use crate::synth::dynamic::entries;
use crate::synth::synthesis::{Size, Sizing};
use crate::synth::{android, dynsym, kinds, symbol_versions};
use crate::tables::dynamic_tables::DynamicTables;
use crate::tables::dynstr::DynamicStrings;
use crate::tables::section::{Kind, SyntheticSections};
use hashbrown::HashSet;
use parallel::IntoParallel;
use std::collections::BTreeSet;

/// Sizes the linker's own sections. `chosen` holds the functions of its SFrame table, `corrupt_sframes` the
/// inputs that pass unchanged, `debug_index` the contents of `.gdb_index`, and `name_index` those of
/// `.debug_names`.
pub fn run<'a, T: Target>(
    numbered: Numbered<'a, T>,
    chosen: Chosen,
    corrupt_sframes: Vec<SectionId>,
    debug_index: DebugIndex<'a>,
    name_index: NameIndex<'a>,
) -> (Contents<'a, T>, Chosen) {
    let counts = dynamic::count(&numbered);
    let tables = if numbered.is_dynamic() {
        dynamic_tables(&numbered, counts.packed > 0)
    } else {
        DynamicTables::default()
    };
    let mut sizing = Sizing {
        numbered: &numbered,
        chosen: &chosen,
        debug_index: &debug_index,
        name_index: &name_index,
        counts,
        dynamic: tables,
    };
    let mut synthetics = numbered.synthetic.clone();
    size(&sizing, &mut synthetics, Kind::EARLY);
    // Android's packed form has no count of relative relocations.
    let counted = numbered.config.relocations.combine && !android::is_wanted(&numbered);
    let relative_count = if counted { counts.relative } else { 0 };
    if numbered.is_dynamic() {
        // These two come last: the entries depend on which other sections have contents, and they add
        // strings.
        sizing.dynamic.entries = entries(&numbered, &synthetics, relative_count, &mut sizing.dynamic);
        size(&sizing, &mut synthetics, &[Kind::Dynamic, Kind::DynStr]);
    }
    let dynamic = sizing.dynamic;
    synthetics.rows.extend(numbered.merged.iter().map(|merged| merged.section.clone()));
    let tables = Tables { numbered, dynamic, relative_count, debug_index, name_index, corrupt_sframes };
    (Contents { tables, synthetics }, chosen)
}

/// Sizes the sections of these kinds.
fn size<T: Target>(link: &Sizing<'_, '_, T>, sections: &mut SyntheticSections<'_>, kinds: &[Kind]) {
    for &kind in kinds {
        let (size, needed) = match kinds::of::<T>(kind).size {
            Size::AtCreation | Size::File => continue,
            Size::Numbered(size) => (size, false),
            Size::Needed(size) => (size, true),
        };
        if !needed && sections.find(kind).is_none() {
            continue;
        }
        let Extent { size, align } = size(link);
        if !sections.set_size(kind, size, align) && size > 0 && !link.config.is_relocatable() {
            let message = format!("{kind:?} needs {size:#x} bytes, but there is no section for it");
            link.sink.report(Diagnostic::error(Code::Internal, message));
        }
    }
}

/// The tables for the dynamic linker, without the entries of `.dynamic`. `packs` tells whether `.relr.dyn`
/// has contents.
fn dynamic_tables<'a, T: Target>(link: &Numbered<'a, T>, packs: bool) -> DynamicTables<'a> {
    let libraries = needed_libraries(link);
    let (symbols, first_hashed, gnu_hash) = dynsym::select(link);
    let strings = DynamicStrings::new(symbols.len() + 64);
    let mut tables =
        DynamicTables { libraries, symbols, first_hashed, gnu_hash, strings, ..Default::default() };
    tables.row_of = rows(link, &tables);
    for symbol in &mut tables.symbols {
        symbol.name_offset = tables.strings.add(symbol.name);
    }
    tables.defined = symbol_versions::defined(link, &mut tables.strings);
    symbol_versions::need(link, packs, &mut tables);
    tables
}

/// By global: its row in `.dynsym`, or the row of its representative.
fn rows<T: Target>(link: &Numbered<'_, T>, tables: &DynamicTables<'_>) -> Vec<u32> {
    let mut row_of = vec![0; link.globals.len()];
    for (row, symbol) in (1..).zip(&tables.symbols) {
        row_of[symbol.id.index()] = row;
    }
    let aliases: Vec<(SymbolId, u32)> = link
        .rows
        .iter()
        .map(|row| row.symbol)
        .filter(|&id| link.globals.contains(id) && row_of[id.index()] == 0)
        .map(|id| (id, row_of[dynsym::representative(link, id).index()]))
        .collect();
    for (id, row) in aliases {
        row_of[id.index()] = row;
    }
    row_of
}

/// By library: whether the output needs it (`DT_NEEDED`). There are four reasons: the library came without
/// `--as-needed`; a live section refers to it, and not only weakly, or by a copy or a canonical PLT entry;
/// `-u` or `--require-defined` names one of its symbols; or a needed library takes symbols from it without
/// naming it.
fn needed_libraries<T: Target>(link: &Scanned<'_, T>) -> Vec<bool> {
    let rows = (0..link.globals.len() as u32).into_par_iter().with_min_len(4096);
    let has_address =
        |id: SymbolId| link.reloc_needs.of_symbols[id.index()].intersects(Needs::COPY | Needs::CANONICAL_PLT);
    let none = || vec![false; link.shared.len()];
    let pieces = rows.fold_pieces(none, |used: &mut Vec<bool>, row| {
        let id = SymbolId(row);
        if let Definition::Shared { library, .. } = link.definition(id)
            && !used[library.index()]
            && link.mentions(id).contains(MentionedBy::IN_OBJECT)
            && (link.mentions(id).contains(MentionedBy::STRONG_REFERENCE) || has_address(id))
            && link.is_name_used(id)
        {
            used[library.index()] = true;
        }
    });
    let mut needed = pieces.into_iter().fold(none(), |mut all, piece| {
        all.iter_mut().zip(piece).for_each(|(all, piece)| *all |= piece);
        all
    });
    for (needed, (library, overridden)) in
        needed.iter_mut().zip(link.shared.iter().zip(&link.definitions.overridden_libraries))
    {
        *needed |= !library.as_needed || *overridden;
    }
    let symbols = &link.config.symbols;
    for name in symbols.require_defined.iter().chain(&symbols.undefined) {
        if let Some(Definition::Shared { library, .. }) =
            link.globals.lookup(name).map(|id| link.definition(id))
        {
            needed[library.index()] = true;
        }
    }
    add_needed_by_libraries(link, &mut needed);
    needed
}

/// Adds libraries from which needed libraries take symbols, if no needed library names them. Looks at each
/// needed library once, in rounds in input order.
fn add_needed_by_libraries<T: Target>(link: &Resolved<'_, T>, needed: &mut [bool]) {
    let is_needed = |row: &usize| needed[*row];
    let mut open: BTreeSet<usize> = (0..link.shared.len()).filter(is_needed).collect();
    let mut named: HashSet<&[u8]> = HashSet::new();
    open.iter().for_each(|&row| named.extend(&link.shared[row].needed));
    let mut next = 0;
    while let Some(row) = open.range(next..).next().or_else(|| open.first()).copied() {
        open.remove(&row);
        next = row;
        let library = &link.shared[row];
        for (index, (symbol, &id)) in library.symbols.iter().zip(&library.globals).enumerate() {
            if !id.is_some() || !symbol.is_undefined() || symbol.is_weak() {
                continue;
            }
            let Definition::Shared { library: definer, symbol } = link.definition(id) else { continue };
            if needed[definer.index()] || !library.takes(index, &link.shared[definer.index()], symbol) {
                continue;
            }
            let definer = &link.shared[definer.index()];
            if !named.contains(definer.soname) {
                needed[definer.id.index()] = true;
                open.insert(definer.id.index());
                named.extend(&definer.needed);
            }
        }
    }
}
