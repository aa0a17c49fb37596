//! Takes members that define what shared libraries leave undefined, wherever their archives stand.
//!
//! A library may call back into the program: `ld main.o libcallbacks.a plugin.so`. Objects have to name an
//! archive behind those that want its members, and scripts and build systems rely on that. But for a library
//! the dynamic linker searches all modules in any order, so nobody counts on a missing definition. lld, mold
//! and wild take such members, too.
//!
//! This comes behind the search, when it is known which `--as-needed` libraries the objects need. Whatever
//! else is still wanted stays undefined, unless the members that are taken here want it as well.

use super::{Known, Search};
use crate::arch::Target;
use crate::passes::open_inputs::Step;
use crate::passes::parse_inputs::Parsed;
use parallel::ParallelSlice;

impl<T: Target> Search<'_, '_, T> {
    /// Searches all archives, as one group, for what the libraries of the link leave undefined.
    pub(super) fn serve_libraries(&mut self, steps: &[Step]) {
        if !steps.iter().any(|step| matches!(step, Step::Members(_) | Step::Group(_))) {
            return;
        }
        loop {
            self.use_deferred();
            let mut left = std::mem::take(&mut self.left_undefined);
            left.retain(|&id| self.known[id.index()] == Known::Wanted);
            if left.is_empty() {
                return;
            }
            let wanted = self.known.iter_mut().filter(|known| **known == Known::Wanted);
            wanted.for_each(|known| *known = Known::Nothing);
            left.into_iter().for_each(|id| self.want(id));
            // Most often no archive defines any of them: the libraries that do are not named in the link.
            if !self.a_member_serves() {
                return;
            }
            self.group(steps);
        }
    }

    /// Whether an object that was not taken defines a wanted symbol.
    fn a_member_serves(&self) -> bool {
        self.files.par_iter().zip(&self.taken).any(|(file, taken)| {
            let Parsed::Object(object) = file else { return false };
            !taken && (0..object.globals.len()).any(|position| self.is_reason(object, position))
        })
    }

    /// Uses the symbols of deferred libraries that the link turns out to need. One of them may need another
    /// one that stands before it.
    fn use_deferred(&mut self) {
        let files = self.files;
        let mut unused = self.deferred.clone();
        loop {
            let before = unused.len();
            unused.retain(|&file| {
                let Parsed::Shared(shared) = &files[file as usize] else { return false };
                let mut defined = shared.symbols.iter().zip(&shared.globals);
                let is_needed = defined.any(|(symbol, &id)| self.is_served(symbol, id));
                if is_needed {
                    self.take_shared(shared);
                }
                !is_needed
            });
            if unused.len() == before {
                return;
            }
        }
    }
}
