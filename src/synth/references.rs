//! Symbols that are in the symbol table, or have a type there, because relocations refer to them: undefined
//! names under `-r`, and local ones that `--emit-relocs` needs.

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::{Placed, SectionState};
use crate::symbols::Definition;
use hashbrown::HashMap;
use rayon::prelude::*;

/// By local symbol of an object: whether a relocation that a final link keeps (`--emit-relocs`) refers to
/// it, and its section is in the output. Empty if no relocations are kept.
pub fn locals<T: Target>(link: &Placed<'_, T>, object: &ObjectFile<'_, T::E>) -> Vec<bool> {
    if !link.config.relocations.emit || link.config.is_relocatable() {
        return Vec::new();
    }
    let mut found = vec![false; object.first_global as usize];
    for (index, id) in object.section_ids().enumerate().filter(|(_, id)| link.sections.is_alive(*id)) {
        if link.sections.is(id, SectionState::NOT_CONTENT) {
            continue;
        }
        for relocation in object.relocations(index) {
            let symbol = relocation.symbol();
            if let Some(found) = found.get_mut(symbol as usize)
                && let Some((section, _)) = object.symbol_section(symbol)
            {
                *found = link.sections.is_alive(section);
            }
        }
    }
    found
}

/// Types (`STT_*`) of undefined names, from the first object that refers to them with a type or defines
/// them in a dropped group. Final links need none.
pub fn kinds<T: Target>(link: &Placed<'_, T>) -> HashMap<SymbolId, u8> {
    let mut kinds = HashMap::new();
    if !link.config.is_relocatable() {
        return kinds;
    }
    let found: Vec<Vec<(SymbolId, u8)>> = link
        .objects
        .par_iter()
        .map(|object| {
            let symbols = object.symbols.iter().skip(object.first_global as usize);
            let typed = symbols.zip(&object.globals).filter(|(symbol, id)| {
                symbol.kind() != elf::STT_NOTYPE && link.definition(**id) == Definition::Undefined
            });
            typed.map(|(symbol, &id)| (id, symbol.kind())).collect()
        })
        .collect();
    for (id, kind) in found.into_iter().flatten() {
        kinds.entry(id).or_insert(kind);
    }
    kinds
}

/// Names that only members of dropped groups define and that no live section refers to; sorted.
pub fn unreferenced<T: Target>(link: &Placed<'_, T>) -> Vec<SymbolId> {
    if !link.config.is_relocatable() {
        return Vec::new();
    }
    let mut dropped: Vec<SymbolId> =
        link.objects.par_iter().flat_map_iter(|object| dropped_by(link, object)).collect();
    if dropped.is_empty() {
        return dropped;
    }
    dropped.sort_unstable();
    dropped.dedup();
    let mut referenced: Vec<SymbolId> =
        link.objects.par_iter().flat_map_iter(|object| referenced_by(link, object, &dropped)).collect();
    referenced.sort_unstable();
    dropped.retain(|id| referenced.binary_search(id).is_err());
    dropped
}

/// The undefined names that an object defines in a group that is dropped.
fn dropped_by<'l, T: Target>(
    link: &'l Placed<'_, T>,
    object: &'l ObjectFile<'_, T::E>,
) -> impl Iterator<Item = SymbolId> + 'l {
    object.globals.iter().enumerate().filter_map(move |(row, &id)| {
        let SymbolPlace::Section(section) = object.symbol_place(object.first_global as usize + row) else {
            return None;
        };
        let dropped = link.sections.is(object.section_id(section), SectionState::DISCARDED_BY_GROUP);
        (dropped && link.definition(id) == Definition::Undefined).then_some(id)
    })
}

/// The symbols of `names` (sorted) that live sections of an object refer to.
fn referenced_by<T: Target>(
    link: &Placed<'_, T>,
    object: &ObjectFile<'_, T::E>,
    names: &[SymbolId],
) -> Vec<SymbolId> {
    let mut found = Vec::new();
    for (index, id) in object.section_ids().enumerate() {
        if !link.sections.is_alive(id) || link.sections.is(id, SectionState::NOT_CONTENT) {
            continue;
        }
        for relocation in object.relocations(index) {
            let symbol = object.symbol_id(relocation.symbol());
            if names.binary_search(&symbol).is_ok() {
                found.push(symbol);
            }
        }
    }
    found
}
