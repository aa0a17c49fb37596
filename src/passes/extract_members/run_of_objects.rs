//! Takes the objects at the start of the command line with all threads.
//!
//! They always take part, so there is nothing to decide. What the search knows of a symbol behind them is the
//! most that one of them says: it is defined, or else a common block, or else defined weakly, or else wanted.
//! For "the most", no order counts. Behind a library it would: a reference that must not bind to the library
//! makes a symbol wanted that was not wanted before.

use super::{Known, Search};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::input::{ObjectFile, SymbolUse};
use crate::passes::open_inputs::Step;
use crate::passes::parse_inputs::Parsed;
use parallel::ParallelSlice;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Fewer objects are taken one by one.
const FEW: usize = 64;

impl Known {
    /// All of them, by rank.
    const RANKS: [Known; 6] = [
        Known::Nothing,
        Known::Wanted,
        Known::DefinedWeakly,
        Known::Common,
        Known::Defined,
        Known::InLibrary,
    ];

    fn rank(self) -> u8 {
        self as u8
    }
}

/// What objects say of symbols.
struct Said {
    /// By global, the rank of a [`Known`].
    known: Vec<AtomicU8>,
    constrained: Vec<AtomicBool>,
}

impl Said {
    fn note<E: zerocopy::byteorder::ByteOrder>(&self, object: &ObjectFile<'_, E>) {
        for (&id, usage) in object.globals.iter().zip(&object.usages) {
            let known = match usage {
                SymbolUse::Definition => Known::Defined,
                SymbolUse::WeakDefinition => Known::DefinedWeakly,
                SymbolUse::Common => Known::Common,
                SymbolUse::Reference | SymbolUse::ConstrainedReference => Known::Wanted,
                SymbolUse::WeakReference | SymbolUse::WeakConstrainedReference => Known::Nothing,
            };
            // Most symbols were mentioned before. To look is cheap, and to write would take the line from the
            // other processors.
            let row = &self.known[id.index()];
            if row.load(Ordering::Relaxed) < known.rank() {
                row.fetch_max(known.rank(), Ordering::Relaxed);
            }
            if matches!(usage, SymbolUse::ConstrainedReference | SymbolUse::WeakConstrainedReference) {
                self.constrained[id.index()].store(true, Ordering::Relaxed);
            }
        }
    }
}

impl<T: Target> Search<'_, '_, T> {
    /// Takes the objects that the first steps name, if there are many and nothing was taken before. Returns
    /// the number of these steps.
    pub(super) fn take_run(&mut self, steps: &[Step]) -> usize {
        if !self.found.objects.is_empty() || !self.found.shared.is_empty() {
            return 0;
        }
        let files = self.files;
        let object = |step: &Step| match step {
            Step::File(file) => match &files[*file as usize] {
                Parsed::Object(object) => Some((*file, object)),
                _ => None,
            },
            _ => None,
        };
        let run: Vec<_> = steps.iter().map_while(object).collect();
        if run.len() < FEW {
            return 0;
        }
        let said = Said {
            known: self.known.par_iter().map(|known| AtomicU8::new(known.rank())).collect(),
            constrained: self.constrained.par_iter().map(|&constrained| constrained.into()).collect(),
        };
        run.par_iter().for_each(|(_, object)| said.note(object));
        for (file, _) in &run {
            self.taken[*file as usize] = true;
            self.found.objects.push(*file);
        }
        let of_rank = |rank: &AtomicU8| Known::RANKS[usize::from(rank.load(Ordering::Relaxed))];
        let known: Vec<Known> = said.known.par_iter().map(of_rank).collect();
        let became = |(row, (now, before)): (usize, (&Known, &Known))| {
            let is_news = now != before && matches!(now, Known::Wanted | Known::Common);
            is_news.then(|| SymbolId::from_index(row))
        };
        self.asked.extend(known.par_iter().zip(&self.known).enumerate().filter_map(became).collect());
        self.known = known;
        self.constrained = said.constrained.par_iter().map(|flag| flag.load(Ordering::Relaxed)).collect();
        run.len()
    }
}
