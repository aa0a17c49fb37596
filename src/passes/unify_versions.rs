//! Unites globals whose names mean one definition.
//!
//! `name@VERSION` and `name@@VERSION` are the same version of a symbol. The second form only says that plain
//! references mean it, too.
//!
//! If an object has `name` and `name@VERSION` at the same place (`.symver name, name@VERSION` leaves both),
//! the directive renames the symbol: references to the plain name mean the versioned one. There are two
//! exceptions. If any object has the plain name as a hidden one (`.symver name, name@VERSION, hidden`), the
//! name is for the module itself, and the versioned name stays visible. And if another definition of the
//! plain name prevails, `name@VERSION` is still the object's own.
//!
//! The pass changes the objects' tables of globals before definitions are selected, so that no later pass
//! sees two symbols. With `-r`, definitions keep their names, and only references to `name@VERSION` become
//! references to `name@@VERSION`.

use super::select_definitions::{key_of, may_define};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::{Inputs, SectionStates};
use crate::symbols::Globals;
use crate::symbols::versions::split;
use hashbrown::{HashMap, HashSet};
use parallel::ParallelSlice;
use zerocopy::byteorder::ByteOrder;

/// Unites the names in the objects that take part. This costs nothing if no object names a version.
pub fn run<'a, T: Target>(mut inputs: Inputs<'a, T>, sections: &SectionStates) -> Inputs<'a, T> {
    if inputs.objects.iter().all(|object| object.versioned.is_empty()) {
        return inputs;
    }
    if inputs.config.is_relocatable() {
        return join_references(inputs, sections);
    }
    let mut defaults: HashSet<(SymbolId, &[u8])> = HashSet::new();
    for object in &inputs.objects {
        let defined = object
            .versioned
            .iter()
            .filter(|versioned| versioned.default && is_defined(object, versioned.symbol as usize, sections));
        defaults.extend(defined.map(|versioned| (object.symbol_id(versioned.symbol), versioned.version)));
    }
    let renamed = renamed(&inputs, sections, &defaults);
    let globals = &inputs.globals;
    let objects = &mut inputs.objects;
    if !defaults.is_empty() {
        objects.par_iter_mut().for_each(|object| join_with_defaults(object, globals, &defaults));
    }
    if !renamed.is_empty() {
        let rename = |ids: &mut [SymbolId]| {
            ids.iter_mut().for_each(|id| *id = renamed.get(id).copied().unwrap_or(*id));
        };
        objects.par_iter_mut().for_each(|object| rename(&mut object.globals));
        inputs.shared.par_iter_mut().for_each(|library| rename(&mut library.globals));
    }
    inputs
}

/// Whether a symbol of an object is a definition.
fn is_defined<E: ByteOrder>(object: &ObjectFile<'_, E>, symbol: usize, sections: &SectionStates) -> bool {
    match object.symbol_place(symbol) {
        SymbolPlace::Undefined => false,
        SymbolPlace::Section(section) => may_define(sections, object.section_id(section)),
        SymbolPlace::Absolute | SymbolPlace::Common => true,
    }
}

/// Replaces an object's `name@VERSION` by the plain name, if some object defines `name@@VERSION`.
fn join_with_defaults<E: ByteOrder>(
    object: &mut ObjectFile<'_, E>,
    globals: &Globals<'_>,
    defaults: &HashSet<(SymbolId, &[u8])>,
) {
    for versioned in object.versioned.iter().filter(|versioned| !versioned.default) {
        let row = (versioned.symbol - object.first_global) as usize;
        let name = globals.names[object.globals[row].index()];
        let plain = split(name).and_then(|(base, _)| globals.lookup(base));
        if let Some(plain) = plain.filter(|&plain| defaults.contains(&(plain, versioned.version))) {
            object.globals[row] = plain;
        }
    }
}

/// Under `-r`, turns references to `name@VERSION` into references to an object's `name@@VERSION`.
fn join_references<'a, T: Target>(mut inputs: Inputs<'a, T>, sections: &SectionStates) -> Inputs<'a, T> {
    let mut defaults: HashMap<(&[u8], &[u8]), SymbolId> = HashMap::new();
    for object in &inputs.objects {
        for versioned in object.versioned.iter().filter(|versioned| versioned.default) {
            let symbol = versioned.symbol as usize;
            if is_defined(object, symbol, sections)
                && let Some((base, version)) = split(object.symbol_name(symbol))
            {
                defaults.entry((base, version)).or_insert(object.symbol_id(versioned.symbol));
            }
        }
    }
    if defaults.is_empty() {
        return inputs;
    }
    let names = &inputs.globals.names;
    inputs.objects.par_iter_mut().for_each(|object| {
        for versioned in object.versioned.iter().filter(|versioned| !versioned.default) {
            let row = (versioned.symbol - object.first_global) as usize;
            if object.symbols[versioned.symbol as usize].is_undefined()
                && let Some(named) = split(names[object.globals[row].index()])
                && let Some(&default) = defaults.get(&named)
            {
                object.globals[row] = default;
            }
        }
    });
    inputs
}

/// A plain name that an object defines at the place of its `name@VERSION`.
struct Twin {
    /// The global `name@VERSION`.
    versioned: SymbolId,
    /// The plain definition as a candidate ([`key_of`]).
    key: u64,
}

/// The plain names that an object defines at the place of its `name@VERSION`, each with the global of
/// `name@VERSION`.
fn renamed<T: Target>(
    inputs: &Inputs<'_, T>,
    sections: &SectionStates,
    defaults: &HashSet<(SymbolId, &[u8])>,
) -> HashMap<SymbolId, SymbolId> {
    // This makes a set, so the order of the walk is lost anyway.
    let has_default: HashSet<SymbolId> = defaults.iter().map(|&(plain, _)| plain).collect();
    let mut twins: HashMap<SymbolId, Twin> = HashMap::new();
    for object in &inputs.objects {
        let mut wanted: HashMap<SymbolId, u32> = HashMap::new();
        for versioned in object.versioned.iter().filter(|versioned| !versioned.default) {
            let name = inputs.globals.names[object.symbol_id(versioned.symbol).index()];
            let plain = split(name).and_then(|(base, _)| inputs.globals.lookup(base));
            if let Some(plain) = plain.filter(|plain| !has_default.contains(plain))
                && is_defined(object, versioned.symbol as usize, sections)
            {
                wanted.entry(plain).or_insert(versioned.symbol);
            }
        }
        if wanted.is_empty() {
            continue;
        }
        for (row, id) in object.globals.iter().enumerate() {
            let symbol = object.first_global as usize + row;
            if let Some(&versioned) = wanted.get(id)
                && object.is_same_place(symbol, versioned as usize)
                && let Some(key) = key_of(object, symbol, sections)
            {
                let versioned = object.symbol_id(versioned);
                twins.entry(*id).or_insert(Twin { versioned, key });
            }
        }
    }
    if twins.is_empty() {
        return HashMap::new();
    }
    let apart: Vec<SymbolId> =
        inputs.objects.par_iter().flat_map_iter(|object| kept_apart(object, sections, &twins)).collect();
    for id in apart {
        twins.remove(&id);
    }
    // This makes a map, so the order of the walk does not matter.
    twins.into_iter().map(|(plain, twin)| (plain, twin.versioned)).collect()
}

/// The plain names among `twins` that stay apart, because an object has a definition of the name that
/// prevails, or a mention that makes it hidden.
fn kept_apart<E: ByteOrder>(
    object: &ObjectFile<'_, E>,
    sections: &SectionStates,
    twins: &HashMap<SymbolId, Twin>,
) -> impl Iterator<Item = SymbolId> {
    object.globals.iter().enumerate().filter_map(move |(row, id)| {
        let twin = twins.get(id)?;
        let symbol = object.first_global as usize + row;
        let hidden = matches!(object.symbols[symbol].visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
        let prevails = || key_of(object, symbol, sections).is_some_and(|key| key < twin.key);
        (hidden || prevails()).then_some(*id)
    })
}
