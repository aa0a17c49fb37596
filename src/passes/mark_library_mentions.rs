//! Marks the globals that shared libraries mention, because a program exports its own definitions of them.
//!
//! A library with `--as-needed` from which no reference takes a symbol is not loaded, so its mentions do not
//! count. `-u` and `--require-defined` take a symbol as a reference does. All references count here, also
//! those of sections that turn out to be garbage, because an exported symbol is a root of the collection.
//!
//! A library's function and a program's data of one name (`int times;`) have nothing to do with each other:
//! the library's symbol does not count, so the program does not export its own, and the library goes on to
//! use what it or another library defines. GNU ld does the same. Nor does a library's definition of a plain
//! name mean the program's `name@VERSION`: exported, that would take the place of the library's own, because
//! the dynamic linker lets a reference without a version bind to it.
//!
//! A weak reference does not make the program load a library. If a definition of such a library prevails,
//! weak references bind to the first loaded library that defines the name, or stay undefined. If they stayed
//! bound to a library that is not loaded, the dynamic linker would find neither the data to copy nor the
//! function for a PLT entry. It would find no version either, and take the oldest.

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::SymbolId;
use crate::input::{ObjectFile, SharedFile};
use crate::passes::select_definitions::is_taken_from;
use crate::phase::Inputs;
use crate::symbols::versions::split;
use crate::symbols::{Definition, Definitions, MentionedBy};
use hashbrown::{HashMap, HashSet};
use std::cell::OnceCell;
use zerocopy::byteorder::ByteOrder;

/// Sets [`MentionedBy::IN_SHARED`] and [`Definitions::loaded_libraries`], and binds weak references to
/// libraries that are loaded.
pub fn run<T: Target>(inputs: &Inputs<'_, T>, definitions: &mut Definitions) {
    let mut takes_part: Vec<bool> =
        inputs.shared.iter().map(|library| is_named(library, definitions)).collect();
    let versioned = |object: &ObjectFile<'_, T::E>| {
        object.versioned.iter().map(|it| object.symbol_id(it.symbol)).collect::<Vec<_>>()
    };
    let required = &inputs.config.symbols.require_defined;
    let required = required.iter().chain(&inputs.config.symbols.undefined);
    let required = required.filter_map(|name| inputs.globals.lookup(name));
    for id in inputs.objects.iter().flat_map(versioned).chain(required) {
        if let Definition::Shared { library, .. } = definitions.definition(id) {
            takes_part[library.index()] = true;
        }
    }
    let mut open: Vec<usize> = (0..takes_part.len()).filter(|&row| takes_part[row]).collect();
    let old = OnceCell::new();
    while let Some(row) = open.pop() {
        let library = &inputs.shared[row];
        let mentioned = library.symbols.iter().zip(&library.globals).enumerate();
        for (index, (symbol, &id)) in mentioned.filter(|(_, (_, id))| id.is_some()) {
            // A library that wants an old version of another library does not mean an object's definition.
            let is_newer = matches!(definitions.definition(id), Definition::Object { .. })
                && library.wanted_version(index).is_some()
                && old.get_or_init(|| OldVersions::of(&inputs.shared)).has(library, index);
            let is_apart = differs_in_kind(inputs, definitions.definition(id), symbol.kind())
                || !symbol.is_undefined() && is_old_version(inputs, definitions.definition(id), id);
            if !is_newer && !is_apart {
                definitions.mentions[id.index()] |= MentionedBy::IN_SHARED;
            }
            if let Definition::Shared { library: definer, symbol: definition } = definitions.definition(id)
                && symbol.is_undefined()
                && !symbol.is_weak()
                && library.takes(index, &inputs.shared[definer.index()], definition)
                && !std::mem::replace(&mut takes_part[definer.index()], true)
            {
                open.push(definer.index());
            }
        }
    }
    mark_versioned(inputs, &takes_part, definitions);
    bind_weak_references(inputs, &takes_part, definitions);
    definitions.loaded_libraries = takes_part;
}

/// Marks objects' `name@VERSION` that a loaded library mentions, too. A library's own name for it is the
/// plain one, with the version beside it. Objects that define old versions are rare, so libraries are
/// searched only for these.
fn mark_versioned<T: Target>(inputs: &Inputs<'_, T>, loaded: &[bool], definitions: &mut Definitions) {
    let mut own: HashMap<(&[u8], &[u8]), SymbolId> = HashMap::new();
    for object in &inputs.objects {
        for versioned in &object.versioned {
            let id = object.symbol_id(versioned.symbol);
            if matches!(definitions.definition(id), Definition::Object { .. })
                && let Some((base, version)) = split(inputs.globals.names[id.index()])
            {
                own.insert((base, version), id);
            }
        }
    }
    if own.is_empty() {
        return;
    }
    for (library, _) in inputs.shared.iter().zip(loaded).filter(|(_, loaded)| **loaded) {
        for row in 1..library.symbols.len() {
            let version = library.version_name(library.symbol_version(row).index);
            if let Some(id) = own.get(&(library.symbol_name(row), version)) {
                definitions.mentions[id.index()] |= MentionedBy::IN_SHARED;
            }
        }
    }
}

/// Whether an object defines data and a library a function, or the reverse. `kind` is the library's `STT_*`.
fn differs_in_kind<T: Target>(inputs: &Inputs<'_, T>, definition: Definition, kind: u8) -> bool {
    let Definition::Object { file, symbol } = definition else { return false };
    let own = inputs.objects[file.index()].symbols[symbol as usize].kind();
    let is_function = |kind| matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
    let is_data = |kind| matches!(kind, elf::STT_OBJECT | elf::STT_COMMON);
    is_function(own) && is_data(kind) || is_data(own) && is_function(kind)
}

/// Whether an object defines the name only as `name@VERSION`.
fn is_old_version<T: Target>(inputs: &Inputs<'_, T>, definition: Definition, id: SymbolId) -> bool {
    matches!(definition, Definition::Object { .. }) && split(inputs.globals.names[id.index()]).is_some()
}

/// The names and versions of libraries' hidden definitions, to which plain references do not bind.
struct OldVersions<'a>(HashSet<(&'a [u8], &'a [u8])>);

impl<'a> OldVersions<'a> {
    fn of<E: ByteOrder>(libraries: &[SharedFile<'a, E>]) -> Self {
        let of_library = |library: &SharedFile<'a, E>| {
            let old =
                |&row: &usize| !library.symbols[row].is_undefined() && library.symbol_version(row).hidden;
            let rows = (1..library.symbols.len()).filter(old);
            let named =
                |row| (library.symbol_name(row), library.version_name(library.symbol_version(row).index));
            rows.map(named).collect::<Vec<_>>()
        };
        OldVersions(libraries.iter().flat_map(of_library).collect())
    }

    /// Whether an undefined symbol of a library wants one of these versions.
    fn has<E: ByteOrder>(&self, library: &SharedFile<'_, E>, row: usize) -> bool {
        library
            .wanted_version(row)
            .is_some_and(|version| self.0.contains(&(library.symbol_name(row), version)))
    }
}

/// Binds objects' references that lead to a library which is not loaded. They bind to the first loaded
/// library that defines the name, or to nothing.
fn bind_weak_references<T: Target>(inputs: &Inputs<'_, T>, loaded: &[bool], definitions: &mut Definitions) {
    let is_lost = |definitions: &Definitions, id: SymbolId| {
        matches!(definitions.definition(id), Definition::Shared { library, .. } if !loaded[library.index()])
            && definitions.mentions(id).contains(MentionedBy::IN_OBJECT)
    };
    let of = |wanted: bool| inputs.shared.iter().zip(loaded).filter(move |(_, loaded)| **loaded == wanted);
    let dropped = of(false).flat_map(|(library, _)| &library.globals).filter(|id| id.is_some());
    let lost: Vec<SymbolId> = dropped.copied().filter(|&id| is_lost(definitions, id)).collect();
    if lost.is_empty() {
        return;
    }
    for (library, _) in of(true) {
        for (index, (symbol, &id)) in library.symbols.iter().zip(&library.globals).enumerate() {
            if id.is_some() && !symbol.is_undefined() && is_lost(definitions, id) {
                definitions.of[id.index()] = Definition::Shared { library: library.id, symbol: index as u32 };
            }
        }
    }
    for id in lost {
        if is_lost(definitions, id) {
            definitions.of[id.index()] = Definition::Undefined;
        }
    }
}

/// Whether the command line asks for the library, or an object takes something from it.
fn is_named<E: ByteOrder>(library: &SharedFile<'_, E>, definitions: &Definitions) -> bool {
    !library.as_needed
        || definitions.overridden_libraries[library.id.index()]
        || is_taken_from(library, |id| definitions.definition(id), |id| definitions.mentions(id))
}
