//! The search of an archive by the names that became wanted since it was searched before.
//!
//! An archive whose members need each other is searched again and again: each round may take one member, and
//! look at all others for nothing. So from the third round on, only members are looked at that define a
//! symbol which became wanted, or a common block, since the round before. They are those, and in the order,
//! that a round over all members would take.

use super::{Archive, Known, ROUNDS, Search};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::passes::parse_inputs::Parsed;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;

impl<T: Target> Search<'_, '_, T> {
    /// A round over an archive, or all rounds that are left; whether a member was taken.
    pub(super) fn members(&mut self, range: Range<u32>) -> bool {
        let archive = self.archives.entry((range.start, range.end)).or_default();
        if archive.rounds < ROUNDS {
            archive.rounds += 1;
            // Members before the one that asks are looked at for it in the next round.
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

    /// Takes a member if one of these of its symbols is a reason.
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

    /// Notes that a symbol is of another kind now.
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
