//! `--copy-dt-needed-entries`: lets objects use libraries that other libraries need.
//!
//! A library after this option brings the libraries of its `DT_NEEDED` into the link, and they bring theirs.
//! They stand behind all other inputs, as if after `--as-needed`: the output records such a library only if
//! an object takes a symbol from it. Which libraries take part is known once the search for definitions is
//! over, so the linker repeats the search, as for [`super::dependents`]. It looks for these libraries in the
//! directories of `-rpath-link` and those that come after it in the search.

use super::Walk;
use crate::arch::Target;
use crate::cli::InputState;
use crate::diag::{Code, Diagnostic, Location};
use crate::input::SharedFile;
use crate::passes::extract_members::Extracted;
use crate::passes::open_needed_libraries::{find, own_directories};
use crate::passes::parse_inputs::Parsed;
use std::collections::HashSet;

/// A `DT_NEEDED` that the link lacks, with the first library that names it.
pub struct Need<'p, 'a, T: Target> {
    library: &'p SharedFile<'a, T::E>,
    name: &'a [u8],
}

/// The `DT_NEEDED`s of extracted libraries that the link lacks. `is_wanted` tells whether the option applies
/// to the library in a row of `files`. `known` holds the names that were looked for before, and gets the
/// names of this round.
pub fn needs<'p, 'a, T: Target>(
    files: &'p [Parsed<'a, T>],
    extracted: &Extracted,
    is_wanted: impl Fn(u32) -> bool,
    known: &mut HashSet<&'a [u8]>,
) -> Vec<Need<'p, 'a, T>> {
    let shared = |&row: &u32| match files.get(row as usize) {
        Some(Parsed::Shared(library)) => Some((row, library)),
        _ => None,
    };
    let wanting: Vec<_> =
        extracted.shared.iter().filter_map(shared).filter(|&(row, _)| is_wanted(row)).collect();
    if wanting.is_empty() {
        return Vec::new();
    }
    known.extend(extracted.shared.iter().filter_map(shared).map(|(_, library)| library.soname));
    let all = wanting
        .iter()
        .flat_map(|&(_, library)| library.needed.iter().map(move |&name| Need { library, name }));
    all.filter(|need| known.insert(need.name)).collect()
}

impl<'a> Walk<'_, 'a> {
    /// Opens the needed library, or warns that it was not found.
    pub fn needed<T: Target>(&mut self, need: &Need<'_, 'a, T>) {
        let own = own_directories(need.library);
        if let Some((path, bytes)) = find::<T>(self.config, self.source, self.store, need.name, &own) {
            let state = InputState { as_needed: true, copies_needs: true, ..InputState::default() };
            let before = self.opened.files.len();
            self.file(&path, bytes.into(), &state, &path.to_string_lossy());
            let added = self.opened.files[before..].iter_mut();
            added.for_each(|file| file.searched = !need.name.contains(&b'/'));
            return;
        }
        let name = String::from_utf8_lossy(need.name);
        self.report(
            Diagnostic::warning(Code::LibraryNotFound, format!("{name}, which it needs, was not found"))
                .about(need.name)
                .at(Location::File(need.library.name.to_string()))
                .help(
                    "name its folder with -rpath-link, or say --no-copy-dt-needed-entries before the library",
                ),
        );
    }
}
