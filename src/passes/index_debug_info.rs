//! Reads debug information for `.gdb_index` (`--gdb-index`).
//!
//! The pass runs once liveness is frozen, because the index leaves out address ranges in dead sections and
//! units of dead groups. The index is then complete except for addresses, so its size is known before layout.

use crate::arch::Target;
use crate::cli::GdbIndexVersion;
use crate::debug_index::joined::{self, DebugIndex};
use crate::debug_index::object::{self, ObjectIndex};
use crate::debug_index::view::View;
use crate::diag::{Code, Diagnostic, Location};
use crate::input::InputSource;
use crate::phase::Live;
use crate::tables::section::Kind;
use parallel::ParallelSlice;

/// Reads the debug information of all objects; nothing if the output has no index.
pub fn run<'a, T: Target>(link: &Live<'a, T>, source: &dyn InputSource) -> DebugIndex<'a> {
    let section = link.synthetic.find(Kind::GdbIndex);
    if !section.is_some_and(|row| link.sections.is_alive(link.synthetic_id(row))) {
        return DebugIndex::default();
    }
    let objects = link.objects.par_iter();
    let objects: Vec<ObjectIndex<'a>> = objects
        .map(|object| {
            object::read(
                &View::<T>::new(object),
                &|section| link.sections.is_in_output(section),
                source,
                link.store,
            )
        })
        .collect();
    for (object, found) in link.objects.iter().zip(&objects) {
        for problem in &found.problems {
            let (finding, help) = if problem.split {
                (
                    "the names of a unit are missing in .gdb_index",
                    "-ggnu-pubnames lets the compiler list them in the object itself",
                )
            } else {
                (
                    "cannot read debug information for .gdb_index",
                    "debuggers will not find all names of this file by the index",
                )
            };
            let message = format!("{finding}: {}", problem.what);
            let section = object.section_name_lossy(problem.section as usize);
            link.sink.report(
                Diagnostic::warning(Code::DebugInfo, message)
                    .at(Location::Section { file: object.name.to_string(), section, offset: problem.offset })
                    .help(help)
                    .ordered(object.id.0, problem.section, problem.offset),
            );
        }
    }
    let with_main = link.config.strip.gdb_index == Some(GdbIndexVersion::Nine);
    joined::join(objects, with_main).unwrap_or_else(|what| {
        let message = format!("cannot make .gdb_index: {what}");
        link.sink.report(Diagnostic::error(Code::DebugInfo, message).help("leave --gdb-index out"));
        DebugIndex::default()
    })
}
