//! Searches archives by the names that became wanted since their last search.
//!
//! In an archive whose members need each other, each round may take only one member and look at all others
//! for nothing: a thousand members in the wrong order cost half a million looks. And in a group of three
//! hundred archives, each would look through its members once more for every member that another one takes.
//! So from some round on, or from the start if there are many files, the search turns around: it lists, for
//! all archives at once, which members define a symbol. Each symbol that becomes wanted, or a common block,
//! then opens these members, and an archive looks only at its open ones. A round over all members would take
//! the same members in the same order.

use super::definers::{Defined, Definers, OpenMembers};
use super::{Known, ROUNDS, Search};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::passes::parse_inputs::Parsed;
use parallel::ParallelSlice;
use std::ops::Range;

/// Files whose symbols one job lists.
const FILES: usize = 64;

/// With so many files, rounds take one thread longer than the list takes, which all threads make. So no round
/// is made.
const MANY: usize = 2500;

impl<T: Target> Search<'_, '_, T> {
    /// Makes a round over an archive, or all rounds that are left. Returns whether it took a member.
    pub(super) fn members(&mut self, range: Range<u32>) -> bool {
        let archive = self.archives.entry((range.start, range.end)).or_default();
        if archive.rounds > 0 && archive.seen == self.asked.len() {
            // No symbol became wanted since then, so another round would take nothing.
            return false;
        }
        archive.rounds += 1;
        let is_listed = archive.rounds > 1 && self.open_members.is_some();
        if self.files.len() < MANY && archive.rounds <= ROUNDS && !is_listed {
            // The next round looks at members that stand before the one that wants them.
            archive.seen = self.asked.len();
            return self.round(range);
        }
        let any = self.search_by_name(&range);
        let archive = self.archives.entry((range.start, range.end)).or_default();
        archive.seen = self.asked.len();
        any
    }

    /// Makes all rounds over an archive that are left.
    fn search_by_name(&mut self, range: &Range<u32>) -> bool {
        let mut open = self.open_members.take().unwrap_or_else(|| self.list_definers());
        let (mut next, mut any) = (range.start, false);
        loop {
            open.add(&self.asked, |id| matches!(self.known[id.index()], Known::Wanted | Known::Common));
            let Some(file) = open.close_one(range, next) else { break };
            next = file + 1;
            any |= self.look_at(file);
        }
        self.open_members = Some(open);
        any
    }

    /// Lists the definers of all symbols among the files that were not taken. Symbols that became wanted
    /// since the last round over some archive have not opened their definers yet.
    fn list_definers(&self) -> OpenMembers {
        let globals = self.known.len();
        let lists = self.files.par_chunks(FILES).zip(self.taken.par_chunks(FILES)).enumerate();
        let list = |(number, (files, taken)): (usize, (&[Parsed<'_, T>], &[bool]))| {
            let mut list = Defined::new(globals);
            for (place, (parsed, taken)) in files.iter().zip(taken).enumerate() {
                let Parsed::Object(object) = parsed else { continue };
                let file = (number * FILES + place) as u32;
                let symbols = object.globals.iter().zip(&object.usages).filter(|_| !taken);
                symbols.filter(|(_, usage)| !usage.is_reference()).for_each(|(&id, _)| list.add(id, file));
            }
            list
        };
        let lists: Vec<Defined> = lists.map(list).collect();
        let seen = self.archives.values().map(|archive| archive.seen).min().unwrap_or_default();
        OpenMembers::new(Definers::new(globals, &lists), seen, self.files.len())
    }

    /// Notes the new state of a symbol.
    pub(super) fn set(&mut self, id: SymbolId, kind: Known) {
        let known = &mut self.known[id.index()];
        if *known != kind {
            *known = kind;
            if matches!(kind, Known::Wanted | Known::Common) {
                self.asked.push(id);
            }
        }
    }
}
