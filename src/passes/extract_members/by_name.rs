//! Searches archives by the names that became wanted since their last search.
//!
//! In an archive whose members need each other, each round may take only one member and look at all others
//! for nothing: a thousand members in the wrong order cost half a million looks. And in a group of three
//! hundred archives, each would look through its members once more for every member that another one takes.
//! So from some round on, the search turns around: it lists, for all archives at once, which members define a
//! symbol. Each symbol that becomes wanted, or a common block, then opens these members, and an archive looks
//! only at its open ones. A round over all members would take the same members in the same order.

use super::definers::{Definers, OpenMembers};
use super::{Known, ROUNDS, Search};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::passes::parse_inputs::Parsed;
use parallel::ParallelSlice;
use std::ops::Range;

impl<T: Target> Search<'_, '_, T> {
    /// Makes a round over an archive, or all rounds that are left. Returns whether it took a member.
    pub(super) fn members(&mut self, range: Range<u32>) -> bool {
        let archive = self.archives.entry((range.start, range.end)).or_default();
        if archive.rounds > 0 && archive.seen == self.asked.len() {
            // No symbol became wanted since then, so another round would take nothing.
            return false;
        }
        archive.rounds += 1;
        if archive.rounds == 1 || archive.rounds <= ROUNDS && self.open_members.is_none() {
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
        let defined = |(file, parsed): (usize, &Parsed<'_, T>)| match parsed {
            Parsed::Object(object) if !self.taken[file] => {
                let defined =
                    object.globals.iter().zip(&object.usages).filter(|(_, usage)| !usage.is_reference());
                defined.map(|(&id, _)| id).collect()
            }
            _ => Vec::new(),
        };
        let all: Vec<Vec<SymbolId>> = self.files.par_iter().enumerate().map(defined).collect();
        let mut definers = Definers::new(self.known.len(), all.iter().map(Vec::len).sum());
        for (file, ids) in (0..).zip(&all) {
            ids.iter().for_each(|&id| definers.add(id, file));
        }
        let seen = self.archives.values().map(|archive| archive.seen).min().unwrap_or_default();
        OpenMembers::new(definers, seen, self.files.len())
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
