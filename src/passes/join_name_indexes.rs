//! Joins the name indexes of objects, `.debug_names`, into one (`--debug-names`).
//!
//! The pass runs once liveness is frozen, because the index leaves out units of dead groups, and before the
//! layout, which needs the size. If a compiler made no index for an object, the linker makes none, as in lld:
//! debuggers read the units of that object themselves.

use crate::arch::Target;
use crate::debug_index::debug_names::{self, NameIndex};
use crate::debug_index::name_tables::{self, ObjectNames};
use crate::debug_index::view::View;
use crate::diag::{Code, Diagnostic, Location};
use crate::phase::Live;
use crate::tables::section::Kind;
use parallel::ParallelSlice;

/// Reads and joins the indexes; nothing if the output has none.
pub fn run<'a, T: Target>(link: &Live<'a, T>) -> NameIndex<'a> {
    let section = link.synthetic.find(Kind::DebugNames);
    if !section.is_some_and(|row| link.sections.is_alive(link.synthetic_id(row))) {
        return NameIndex::default();
    }
    let is_in_output = |section| link.sections.is_in_output(section);
    let read = |object| name_tables::read(&View::<T>::new(object), &is_in_output);
    let objects: Vec<ObjectNames<'a>> = link.objects.par_iter().map(read).collect();
    for (object, found) in link.objects.iter().zip(&objects) {
        for problem in &found.problems {
            let section = object.section_name_lossy(problem.section as usize);
            link.sink.report(
                Diagnostic::warning(Code::DebugInfo, format!("cannot read the name index: {}", problem.what))
                    .at(Location::Section { file: object.name.to_string(), section, offset: problem.offset })
                    .help("debuggers will not find all names of this file by the index")
                    .ordered(object.id.0, problem.section, problem.offset),
            );
        }
    }
    debug_names::join(objects).unwrap_or_else(|what| {
        let message = format!("cannot make .debug_names: {what}");
        link.sink.report(Diagnostic::error(Code::DebugInfo, message).help("leave --debug-names out"));
        NameIndex::default()
    })
}
