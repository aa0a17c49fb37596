//! Marks the globals that shared libraries mention, because a program exports its own definitions of them.
//!
//! A library with `--as-needed` from which nothing is taken is not loaded, so what it mentions does not count. Whether
//! something is taken is judged by references before garbage is collected: an export keeps its section.
//!
//! Weak references take nothing. What such a library would define for them comes from the first library that is loaded and
//! has it, with its version, or stays undefined: the dynamic linker would find neither data to copy nor a function for a
//! PLT entry, and a reference without a version binds to the oldest one.

use crate::arch::Target;
use crate::ids::SymbolId;
use crate::input::SharedFile;
use crate::phase::Inputs;
use crate::symbols::{Definition, Definitions, Mentions};
use hashbrown::HashSet;
use std::cell::OnceCell;
use zerocopy::byteorder::ByteOrder;

/// Sets [`Mentions::IN_SHARED`] and [`Definitions::loaded_libraries`], and binds weak references to libraries that are loaded.
pub fn run<T: Target>(inputs: &Inputs<'_, T>, definitions: &mut Definitions) {
    let mut takes_part: Vec<bool> =
        inputs.shared.iter().map(|library| is_named(library, definitions)).collect();
    for id in inputs
        .objects
        .iter()
        .flat_map(|object| object.versioned.iter().map(|versioned| object.symbol_id(versioned.symbol)))
    {
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
            // A definition of an object is of the newest interface, and not for users of an old one.
            let is_newer = matches!(definitions.definition(id), Definition::Object { .. })
                && library.wanted_version(index).is_some()
                && old.get_or_init(|| OldVersions::of(&inputs.shared)).has(library, index);
            if !is_newer {
                definitions.mentions[id.index()] |= Mentions::IN_SHARED;
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
    bind_weak_references(inputs, &takes_part, definitions);
    definitions.loaded_libraries = takes_part;
}

/// Names with versions that plain references do not bind to, as the libraries define them.
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

    /// Whether a symbol of a library asks for one of them.
    fn has<E: ByteOrder>(&self, library: &SharedFile<'_, E>, row: usize) -> bool {
        library
            .wanted_version(row)
            .is_some_and(|version| self.0.contains(&(library.symbol_name(row), version)))
    }
}

/// Takes the definitions for references of objects from libraries that are loaded, in link order.
fn bind_weak_references<T: Target>(inputs: &Inputs<'_, T>, loaded: &[bool], definitions: &mut Definitions) {
    let is_lost = |definitions: &Definitions, id: SymbolId| {
        matches!(definitions.definition(id), Definition::Shared { library, .. } if !loaded[library.index()])
            && definitions.mentions(id).contains(Mentions::IN_OBJECT)
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
    let strong = Mentions::IN_OBJECT | Mentions::STRONG_REFERENCE;
    let takes = |id: SymbolId| {
        let is_of_it =
            matches!(definitions.definition(id), Definition::Shared { library: of, .. } if of == library.id);
        is_of_it && definitions.mentions(id).contains(strong)
    };
    !library.as_needed
        || definitions.overridden_libraries[library.id.index()]
        || library.globals.iter().any(|&id| id.is_some() && takes(id))
}
