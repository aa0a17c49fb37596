//! Repeats the search, with machine code in place of the intermediate code that plugins compiled.
//!
//! All files of the first search stay, because symbols were resolved with them. The machine code comes in
//! where the first file of intermediate code stood. Only its references, and those of members that it brings
//! in, are new: a compiler may call functions that no source names. For these, all archives are searched as
//! one group.

use super::{Extracted, Known, Search};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::passes::define_linker_symbols::OutsideNames;
use crate::passes::open_inputs::Step;
use crate::passes::parse_inputs::Parsed;
use crate::symbols::Globals;

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
    search.repeat(before, globals);
    for step in steps {
        if let Step::File(file) = *step
            && file >= before.first_added
        {
            search.take(file);
        }
    }
    search.group(steps);
    let mut found = search.finish();
    let order = link_order(before, &found.objects);
    found.objects = order;
    found
}

impl<T: Target> Search<'_, '_, T> {
    /// Takes all files that the first search took. References that are still open stay open.
    fn repeat(&mut self, before: &Before<'_>, globals: &Globals<'_>) {
        let numbered = |list: &[(u32, &[u8])]| {
            list.iter().filter_map(|&(file, name)| Some((file, globals.lookup(name)?))).collect()
        };
        self.found.reasons = numbered(&before.reasons);
        self.found.needed_for = numbered(&before.needed_for);
        for &file in &before.objects {
            self.take(file);
        }
        let files = self.files;
        for &file in &before.shared {
            self.taken[file as usize] = true;
            self.found.shared.push(file);
            if let Parsed::Shared(shared) = &files[file as usize]
                && (!shared.as_needed || before.needed_for.iter().any(|&(of, _)| of == file))
            {
                self.take_shared(shared);
            }
        }
        for known in &mut self.known {
            *known = match *known {
                Known::Wanted => Known::Nothing,
                Known::Common => Known::Defined,
                other => other,
            };
        }
    }
}

/// The order of the objects: files that plugins added stand where the intermediate code was, and other late
/// members stand where their archives are.
fn link_order(before: &Before<'_>, objects: &[u32]) -> Vec<u32> {
    let (early, late) = objects.split_at(before.objects.len());
    let slot = |file: u32| match early.iter().rposition(|&other| other < file) {
        _ if file >= before.first_added => (before.place, 1),
        Some(last) => (last + 1, 2),
        None => (0, 2),
    };
    let mut order: Vec<((usize, u32), u32)> =
        early.iter().copied().zip(1..).map(|(file, row)| ((row, 0), file)).collect();
    order.extend(late.iter().map(|&file| (slot(file), file)));
    order.sort_by_key(|&(slot, _)| slot);
    order.into_iter().map(|(_, file)| file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_stands_in_the_place_of_intermediate_code() {
        // crt1 0, [intermediate 1], regular 2, archive 3..6 (4 was taken), crtn 6; plugins add 7 and 8.
        let before = Before { objects: vec![0, 2, 4, 6], place: 1, first_added: 7, ..Before::default() };
        assert_eq!(link_order(&before, &[0, 2, 4, 6, 7, 8, 5]), [0, 7, 8, 2, 4, 5, 6]);
        assert_eq!(link_order(&before, &[0, 2, 4, 6, 7, 3]), [0, 7, 2, 3, 4, 6]);
    }
}
