//! Searches an archive by the names that became wanted since its last search.
//!
//! In an archive whose members need each other, each round may take only one member and look at all others
//! for nothing: a thousand members in the wrong order cost half a million looks. So from the fourth round on,
//! the search looks only at members that define a symbol which became wanted, or a common block, since the
//! round before. A round over all members would take the same members in the same order.

use super::{Archive, Known, ROUNDS, Search};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::passes::parse_inputs::Parsed;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;

impl<T: Target> Search<'_, '_, T> {
    /// Makes a round over an archive, or all rounds that are left. Returns whether it took a member.
    pub(super) fn members(&mut self, range: Range<u32>) -> bool {
        let archive = self.archives.entry((range.start, range.end)).or_default();
        if archive.rounds < ROUNDS {
            archive.rounds += 1;
            // The next round looks at members that stand before the one that wants them.
            archive.seen = self.asked.len();
            return self.round(range);
        }
        let (mut seen, definers) = (archive.seen, archive.definers.take());
        let definers = definers.unwrap_or_else(|| self.definers(range.clone()));
        let mut open: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let (mut next, mut any) = (range.start, false);
        loop {
            for id in &self.asked[seen..] {
                for &(file, position) in definers.get(id).into_iter().flatten() {
                    open.entry(file).or_default().push(position);
                }
            }
            seen = self.asked.len();
            let Some((&file, _)) = open.range(next..).next().or_else(|| open.first_key_value()) else {
                break;
            };
            next = file + 1;
            let positions = open.remove(&file).unwrap_or_default();
            any |= !self.taken[file as usize] && self.take_for(file, &positions);
        }
        self.archives
            .insert((range.start, range.end), Archive { rounds: ROUNDS, seen, definers: Some(definers) });
        any
    }

    /// Takes a member if a symbol at one of these positions is a reason.
    fn take_for(&mut self, file: u32, positions: &[u32]) -> bool {
        let files = self.files;
        let Parsed::Object(object) = &files[file as usize] else { return false };
        let is_reason = positions.iter().any(|&position| self.is_reason(object, position as usize));
        is_reason && self.take_member(file, object)
    }

    fn definers(&self, range: Range<u32>) -> HashMap<SymbolId, Vec<(u32, u32)>> {
        let mut definers: HashMap<SymbolId, Vec<(u32, u32)>> = HashMap::new();
        for file in range {
            let Parsed::Object(object) = &self.files[file as usize] else { continue };
            if self.taken[file as usize] {
                continue;
            }
            for (position, (&id, usage)) in (0..).zip(object.globals.iter().zip(&object.usages)) {
                if !usage.is_reference() {
                    definers.entry(id).or_default().push((file, position));
                }
            }
        }
        definers
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
