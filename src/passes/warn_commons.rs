//! `--warn-common`: reports common blocks that meet other declarations of their symbol.
//!
//! A common block is a definition that silently yields to others. This may hide that two files mean different
//! variables. The texts are GNU ld's, with one message for each pair of neighbours in link order.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::ids::SymbolId;
use crate::input::object::{FileName, SymbolPlace};
use crate::phase::{Inputs, SectionState, SectionStates};
use parallel::ParallelSort;
use std::cmp::Ordering;

/// A declaration that allocates memory.
#[derive(Clone, Copy)]
enum Declared {
    Common { size: u64 },
    Definition,
}

/// Reports every pair. Symbols come in the order of their first common block.
pub fn run<T: Target>(inputs: &Inputs<'_, T>, sections: &SectionStates) {
    if !inputs.config.diagnostics.warn_common {
        return;
    }
    let mut seen: indexmap::IndexMap<SymbolId, Vec<(u32, FileName<'_>, Declared)>> =
        indexmap::IndexMap::new();
    for commons_only in [true, false] {
        for object in &inputs.objects {
            for (offset, &id) in object.globals.iter().enumerate() {
                let index = object.first_global as usize + offset;
                let symbol = &object.symbols[index];
                let declared = match object.symbol_place(index) {
                    SymbolPlace::Common => Declared::Common { size: symbol.st_size.get() },
                    SymbolPlace::Section(section) => {
                        let section = object.section_id(section);
                        if symbol.is_weak() || sections.is(section, SectionState::DISCARDED_BY_GROUP) {
                            continue;
                        }
                        Declared::Definition
                    }
                    _ => continue,
                };
                match (commons_only, declared) {
                    (true, Declared::Common { .. }) => seen.entry(id).or_default(),
                    (false, Declared::Definition) if seen.contains_key(&id) => seen.entry(id).or_default(),
                    _ => continue,
                }
                .push((object.id.0, object.name, declared));
            }
        }
    }
    for (id, mut declarations) in seen {
        declarations.par_sort_by_key(|&(file, ..)| file);
        for pair in declarations.windows(2) {
            let [(_, earlier, first), (file, later, second)] = *pair else { continue };
            let name = inputs.name_text(inputs.globals.names[id.index()]);
            if let Some(what) = clash(first, second, &name) {
                inputs.sink.report(
                    Diagnostic::warning(Code::CommonSymbol, what)
                        .at(Location::File(later.to_string()))
                        .note(format!("the other one is in {earlier}"))
                        .ordered(file, id.0, 0),
                );
            }
        }
    }
}

fn clash(first: Declared, second: Declared, name: &str) -> Option<String> {
    Some(match (first, second) {
        (Declared::Common { size: before }, Declared::Common { size }) => match size.cmp(&before) {
            Ordering::Greater => format!("common of `{name}' overriding smaller common"),
            Ordering::Less => format!("common of `{name}' overridden by larger common"),
            Ordering::Equal => format!("multiple common of `{name}'"),
        },
        (Declared::Common { .. }, Declared::Definition) => {
            format!("definition of `{name}' overriding common")
        }
        (Declared::Definition, Declared::Common { .. }) => {
            format!("common of `{name}' overridden by definition")
        }
        (Declared::Definition, Declared::Definition) => return None,
    })
}
