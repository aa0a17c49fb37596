//! Finds the symbols that are in the symbol table, or have a type there, because relocations refer to them:
//! undefined names under `-r`, local symbols that no section symbol can replace, and globals that
//! `--retain-symbols-file` does not list.

use crate::arch::{RelocExpr, Target};
use crate::cli::Discard;
use crate::elf::Sym;
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::{Arranged, Located, OutputGroup, SectionState};
use crate::symbols::Definition;
use crate::synth::groups;
use hashbrown::HashMap;
use parallel::ParallelSlice;

/// By local symbol of an object, whether a relocation of the output must name it. In a final link
/// (`--emit-relocs`), these are all symbols that relocations refer to. Under `-r`, they are the symbols that
/// their section's symbol cannot replace ([`needs_symbol`]). Empty if there are none, or if all symbols with
/// names are kept anyway.
pub fn locals<T: Target>(link: &Arranged<'_, T>, object: &ObjectFile<'_, T::E>) -> Vec<bool> {
    let relocatable = link.config.is_relocatable();
    let wanted = if relocatable { may_drop_locals(link, object) } else { link.config.relocations.emit };
    if !wanted {
        return Vec::new();
    }
    let mut found = vec![false; object.first_global as usize];
    for (index, id) in object.section_ids().enumerate().filter(|(_, id)| link.sections.is_alive(*id)) {
        if link.sections.is(id, SectionState::NOT_CONTENT) {
            continue;
        }
        for relocation in object.relocations(index) {
            let symbol = relocation.symbol();
            let Some(found) = found.get_mut(symbol as usize).filter(|found| !**found) else { continue };
            if relocatable && !needs_symbol::<T>(object, symbol as usize, relocation.kind()) {
                continue;
            }
            *found = match object.symbol_place(symbol as usize) {
                SymbolPlace::Section(section) => link.sections.is_alive(object.section_id(section)),
                SymbolPlace::Absolute => relocatable,
                SymbolPlace::Undefined | SymbolPlace::Common => false,
            };
        }
    }
    found
}

/// Whether local symbols of an object may be missing in the output of `-r` although their sections are there,
/// because options say so or because they have no name.
fn may_drop_locals<T: Target>(link: &Arranged<'_, T>, object: &ObjectFile<'_, T::E>) -> bool {
    let is_nameless = |symbol: &Sym<T::E>| symbol.st_name.get() == 0 && symbol.kind() != elf::STT_SECTION;
    matches!(link.config.strip.discard, Discard::All | Discard::Locals)
        || link.lists.retained.is_some()
        || object.symbols.iter().take(object.first_global as usize).skip(1).any(is_nameless)
}

/// Whether a relocation means the symbol itself and not only its address. A GOT or TLS slot belongs to the
/// symbol, and an addend moves the place in the slot, not in the variable. The size of a symbol, and the
/// resolver of a function, belong to it in the same way. If the relocation named the section's symbol and an
/// addend, the next link could not tell what it means.
fn needs_symbol<T: Target>(object: &ObjectFile<'_, T::E>, symbol: usize, kind: u32) -> bool {
    if matches!(object.symbols[symbol].kind(), elf::STT_TLS | elf::STT_GNU_IFUNC) {
        return true;
    }
    let by_address = |expr| {
        matches!(
            expr,
            RelocExpr::Nothing
                | RelocExpr::Symbol
                | RelocExpr::SignedPointer
                | RelocExpr::Plt
                | RelocExpr::GotBase
                | RelocExpr::TlsBlock
        )
    };
    T::reloc_info(kind).is_none_or(|info| !by_address(info.expr))
}

/// With `--retain-symbols-file`, the globals that relocations of the output name, and those that are
/// signatures of its groups. Ascending. Without its symbol, a relocation would bind to this copy of a
/// definition, which a later link may replace, and a group would have another signature.
pub fn globals<T: Target>(link: &Located<'_, T>, groups: &[OutputGroup]) -> Vec<SymbolId> {
    if link.lists.retained.is_none() || !(link.config.is_relocatable() || link.config.relocations.emit) {
        return Vec::new();
    }
    let of_object = |object: &ObjectFile<'_, T::E>| {
        let written = |(_, id): &(usize, SectionId)| {
            link.sections.is_alive(*id) && !link.sections.is(*id, SectionState::NOT_CONTENT)
        };
        let sections = object.section_ids().enumerate().filter(written);
        let named = sections.flat_map(|(index, _)| object.relocations(index));
        let mut named: Vec<SymbolId> =
            named.map(|relocation| object.symbol_id(relocation.symbol())).collect();
        named.retain(|&id| link.globals.contains(id));
        named.sort_unstable();
        named.dedup();
        named
    };
    let mut named: Vec<SymbolId> = link.objects.par_iter().flat_map_iter(of_object).collect();
    named.extend(groups::global_signatures(link, groups));
    named.sort_unstable();
    named.dedup();
    named
}

/// The types (`STT_*`) of undefined names. They come from the first object that refers to the name with a
/// type or defines it in a dropped group. Final links need none.
pub fn kinds<T: Target>(link: &Arranged<'_, T>) -> HashMap<SymbolId, u8> {
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

/// The names that only members of dropped groups define, and to which no live section refers. Sorted.
pub fn unreferenced<T: Target>(link: &Arranged<'_, T>) -> Vec<SymbolId> {
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

/// The undefined names that an object defines in a group that was dropped.
fn dropped_by<'l, T: Target>(
    link: &'l Arranged<'_, T>,
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

/// Those symbols of `names` (sorted) to which live sections of an object refer.
fn referenced_by<T: Target>(
    link: &Arranged<'_, T>,
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
