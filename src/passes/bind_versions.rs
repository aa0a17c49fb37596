//! Binds references that name a version.
//!
//! `name@VERSION` is a global of its own. If no object defines it under that name, it means the default
//! definition `name@@VERSION` of an object, or the symbol of that name and version in a shared library. That
//! symbol may be hidden, so that plain references cannot see it. Such names are rare, so libraries are
//! searched only for them. A reference that no library satisfies stays undefined. It is an error even where
//! plain names may be left to the dynamic linker ([`crate::relocs::undefined`]).

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::input::SharedFile;
use crate::phase::Inputs;
use crate::symbols::versions::split;
use crate::symbols::{Definition, Definitions};
use hashbrown::HashMap;

/// Binds every undefined `name@VERSION`. If it names a library's default version, the plain name means the
/// same definition, so objects' references to `name@VERSION` become references to the plain name.
pub fn run<'a, T: Target>(mut inputs: Inputs<'a, T>, definitions: &mut Definitions) -> Inputs<'a, T> {
    if inputs.config.is_relocatable() {
        // The next link binds these references. References to an object's default definition name it already
        // (`unify_versions`).
        return inputs;
    }
    let bound = bind(&inputs, definitions);
    let names = &inputs.globals;
    let mut plain_of: HashMap<SymbolId, SymbolId> = HashMap::new();
    for id in bound {
        let plain = split(names.names[id.index()]).and_then(|(base, _)| names.lookup(base));
        if let Some(plain) = plain
            && matches!(definitions.definition(plain), Definition::Shared { .. })
            && definitions.definition(plain) == definitions.definition(id)
        {
            plain_of.insert(id, plain);
            let mentions = std::mem::take(&mut definitions.mentions[id.index()]);
            definitions.mentions[plain.index()] |= mentions;
            definitions.of[id.index()] = Definition::Undefined;
        }
    }
    if plain_of.is_empty() {
        return inputs;
    }
    for object in &mut inputs.objects {
        for versioned in &object.versioned {
            let row = (versioned.symbol - object.first_global) as usize;
            if let Some(&plain) = plain_of.get(&object.globals[row]) {
                object.globals[row] = plain;
            }
        }
    }
    inputs
}

/// Binds the undefined `name@VERSION`. Returns their ids, sorted.
fn bind<'a, T: Target>(inputs: &Inputs<'a, T>, definitions: &mut Definitions) -> Vec<SymbolId> {
    let names = &inputs.globals.names;
    let mut wanted: Vec<SymbolId> = inputs
        .objects
        .iter()
        .flat_map(|object| object.versioned.iter().map(|versioned| object.symbol_id(versioned.symbol)))
        .filter(|&id| {
            definitions.definition(id) == Definition::Undefined && names[id.index()].contains(&b'@')
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut open = HashMap::new();
    for &id in &wanted {
        let Some((base, version)) = split(names[id.index()]) else { continue };
        if let Some(definition) = default_definition(inputs, definitions, base, version) {
            definitions.of[id.index()] = definition;
        } else {
            open.insert((base, version), id);
        }
    }
    bind_to_libraries(&inputs.shared, definitions, open);
    wanted
}

fn default_definition<T: Target>(
    inputs: &Inputs<'_, T>,
    definitions: &Definitions,
    base: &[u8],
    version: &[u8],
) -> Option<Definition> {
    let plain = inputs.globals.lookup(base)?;
    let definition = definitions.definition(plain);
    let Definition::Object { file, symbol } = definition else { return None };
    let versioned = &inputs.objects[file.index()].versioned;
    let row = versioned.binary_search_by_key(&symbol, |versioned| versioned.symbol).ok()?;
    (versioned[row].default && versioned[row].version == version).then_some(definition)
}

/// Binds references, given by name and version, to the first library that defines them. Each library is read
/// once, however many references there are.
fn bind_to_libraries<'a, E: zerocopy::byteorder::ByteOrder>(
    shared: &[SharedFile<'a, E>],
    definitions: &mut Definitions,
    mut open: HashMap<(&'a [u8], &'a [u8]), SymbolId>,
) {
    for library in shared {
        for row in 1..library.symbols.len() {
            if open.is_empty() {
                return;
            }
            let index = library.symbol_version(row).index;
            if library.symbols[row].is_undefined() || index == elf::VER_NDX_LOCAL {
                continue;
            }
            // `name@` is the base version, which has no name.
            let version = if index == elf::VER_NDX_GLOBAL { b"" } else { library.version_name(index) };
            if let Some(id) = open.remove(&(library.symbol_name(row), version)) {
                definitions.of[id.index()] = Definition::Shared { library: library.id, symbol: row as u32 };
            }
        }
    }
}
