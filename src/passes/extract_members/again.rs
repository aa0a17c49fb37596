//! Repeats the search, with machine code in place of the intermediate code that plugins compiled.
//!
//! All files of the first search stay, because symbols were resolved with them. The machine code comes in
//! where the first file of intermediate code stood. Only its references, and those of members that it brings
//! in, are new: a compiler may call functions that no source names. For these, all archives are searched as
//! one group.
//!
//! A member goes again if it was taken for a symbol that the machine code turns out to define itself: a
//! plugin does not see what assembly inside a source defines. What other files want of that member stays
//! wanted.

use super::link_order::link_order;
use super::{Extracted, Known, Search};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::input::SymbolUse;
use crate::passes::define_linker_symbols::OutsideNames;
use crate::passes::open_inputs::Step;
use crate::passes::parse_inputs::Parsed;
use crate::symbols::Globals;
use hashbrown::HashSet;

/// The outcome of the first search.
#[derive(Default)]
pub struct Before<'a> {
    /// The objects, except those of intermediate code, as rows of the candidates, in link order.
    pub objects: Vec<u32>,
    /// The number of objects before the first file of intermediate code.
    pub place: usize,
    /// Plugins added the rows from here on.
    pub first_added: u32,
    /// Shared libraries, as rows of the candidates.
    pub shared: Vec<u32>,
    /// [`Extracted::reasons`] by name, because a name has another number in each search.
    pub reasons: Vec<(u32, &'a [u8])>,
    /// [`Extracted::needed_for`] by name.
    pub needed_for: Vec<(u32, &'a [u8])>,
}

impl<'a> Before<'a> {
    /// The outcome, with the names of its globals. `is_intermediate` tells whether a row is a file of
    /// intermediate code. Files that are added later get rows from `first_added` on.
    pub fn new(
        extracted: &Extracted,
        names: &[&'a [u8]],
        is_intermediate: impl Fn(u32) -> bool,
        first_added: u32,
    ) -> Self {
        let named = |list: &[(u32, SymbolId)]| {
            let kept = list.iter().filter(|&&(file, _)| !is_intermediate(file));
            kept.map(|&(file, id)| (file, names[id.index()])).collect()
        };
        let objects = &extracted.objects;
        Before {
            place: objects.iter().take_while(|&&file| !is_intermediate(file)).count(),
            objects: objects.iter().copied().filter(|&file| !is_intermediate(file)).collect(),
            first_added,
            shared: extracted.shared.clone(),
            reasons: named(&extracted.reasons),
            needed_for: named(&extracted.needed_for),
        }
    }
}

/// Runs the search. The other arguments are the same as in [`super::run`].
pub fn run<T: Target>(
    before: &Before<'_>,
    files: &[Parsed<'_, T>],
    steps: &[Step],
    globals: &Globals<'_>,
    named: &OutsideNames,
) -> Extracted {
    let mut search = Search::new(files, globals.len(), named);
    let made: Vec<u32> = added(before, steps).collect();
    let superseded = superseded(before, files, &made, globals);
    search.repeat(before, &superseded, globals);
    made.iter().for_each(|&file| search.take(file));
    search.group(steps);
    search.serve_libraries(steps);
    let mut found = search.finish();
    let kept = |objects: &[u32]| objects.iter().filter(|file| !superseded.contains(file)).count();
    let (early, place) = (kept(&before.objects), kept(&before.objects[..before.place]));
    let order = link_order(found.objects.split_at(early), place, before.first_added);
    found.objects = order;
    found
}

/// The files that plugins added, in order. They may be archives, whose members do not count.
fn added(before: &Before<'_>, steps: &[Step]) -> impl Iterator<Item = u32> {
    let first = before.first_added;
    steps.iter().filter_map(move |step| match *step {
        Step::File(file) if file >= first => Some(file),
        _ => None,
    })
}

/// The members that were taken for a symbol that the machine code in `made` defines, too. The link cannot
/// have both definitions.
fn superseded<T: Target>(
    before: &Before<'_>,
    files: &[Parsed<'_, T>],
    made: &[u32],
    globals: &Globals<'_>,
) -> Vec<u32> {
    let defined: HashSet<SymbolId> =
        made.iter().flat_map(|&file| strong_definitions(&files[file as usize])).collect();
    let clashes = |&(file, name): &(u32, &[u8])| {
        let id = globals.lookup(name).filter(|id| defined.contains(id))?;
        strong_definitions(&files[file as usize]).any(|own| own == id).then_some(file)
    };
    before.reasons.iter().filter_map(clashes).collect()
}

/// The globals that an object defines, other than as weak or common symbols.
fn strong_definitions<T: Target>(file: &Parsed<'_, T>) -> impl Iterator<Item = SymbolId> {
    let object = match file {
        Parsed::Object(object) => Some(object),
        _ => None,
    };
    object.into_iter().flat_map(|object| {
        let rows = object.globals.iter().zip(&object.usages);
        rows.filter(|(_, usage)| **usage == SymbolUse::Definition).map(|(&id, _)| id)
    })
}

impl<T: Target> Search<'_, '_, T> {
    /// Takes all files that the first search took, except the `superseded` ones. References that are still
    /// open stay open, unless a superseded file closed them.
    fn repeat(&mut self, before: &Before<'_>, superseded: &[u32], globals: &Globals<'_>) {
        let numbered = |list: &[(u32, &[u8])]| {
            list.iter().filter_map(|&(file, name)| Some((file, globals.lookup(name)?))).collect()
        };
        self.found.reasons = numbered(&before.reasons);
        self.found.needed_for = numbered(&before.needed_for);
        self.found.reasons.retain(|(file, _)| !superseded.contains(file));
        for file in before.objects.iter().filter(|file| !superseded.contains(file)) {
            self.take(*file);
        }
        let files = self.files;
        let mut closed = HashSet::new();
        for &file in superseded {
            let Parsed::Object(object) = &files[file as usize] else { continue };
            let definitions = object.globals.iter().zip(&object.usages);
            closed.extend(definitions.filter(|(_, usage)| !usage.is_reference()).map(|(&id, _)| id));
        }
        for &file in &before.shared {
            self.taken[file as usize] = true;
            self.found.shared.push(file);
            if let Parsed::Shared(shared) = &files[file as usize]
                && (!shared.as_needed || before.needed_for.iter().any(|&(of, _)| of == file))
            {
                self.take_shared(shared);
            }
        }
        for (id, known) in self.known.iter_mut().enumerate() {
            *known = match *known {
                Known::Wanted if closed.contains(&SymbolId::from_index(id)) => Known::Wanted,
                Known::Wanted => Known::Nothing,
                Known::Common => Known::Defined,
                other => other,
            };
        }
    }
}
