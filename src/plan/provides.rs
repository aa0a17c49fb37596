//! Removes each `PROVIDE` whose symbol an ordinary assignment defines and that has no effect, so that its
//! expression is not evaluated.
//!
//! Behind the first ordinary assignment, `PROVIDE` never has an effect. In front of it, it has the one that
//! GNU ld gives it: if something refers to the symbol, it makes a value for the expressions in between.
//! References in objects, from options and by `EXTERN` count wherever they stand, those of other assignments
//! only in front of the `PROVIDE`.

use super::{Body, Command, LayoutPlan};
use std::collections::{HashMap, HashSet};

impl LayoutPlan {
    /// Removes each `PROVIDE` that stands behind an ordinary assignment to its symbol.
    pub(super) fn drop_late_provides(&mut self) {
        let mut assigned: HashSet<&[u8]> = HashSet::new();
        let mut stays = Vec::new();
        self.for_each_placed_assignment(&mut |assignment, _| {
            let name = &assignment.target.bytes[..];
            let is_late = assignment.kind.is_provide() && assigned.contains(name);
            if !assignment.kind.is_provide() {
                assigned.insert(name);
            }
            stays.push(!is_late);
        });
        self.retain_assignments(stays);
    }

    /// Removes each `PROVIDE` in front of an ordinary assignment to its symbol that nothing asks for: neither
    /// `is_wanted`, which knows objects and options, nor `EXTERN`, nor an assignment in front of it. It stays
    /// if the ordinary one changes its value (`PROVIDE(s = 8); s -= 4;`).
    pub fn drop_unwanted_provides(&mut self, is_wanted: &dyn Fn(&[u8]) -> bool) {
        let mut changes: HashMap<&[u8], bool> = HashMap::new();
        self.for_each_placed_assignment(&mut |assignment, _| {
            if !assignment.kind.is_provide() {
                let name = &assignment.target.bytes[..];
                changes.entry(name).or_insert_with(|| assignment.changes_its_symbol());
            }
        });
        let mut asked_for: HashSet<&[u8]> = self.undefined.iter().map(|name| &name.bytes[..]).collect();
        let mut stays = Vec::new();
        self.for_each_placed_assignment(&mut |assignment, _| {
            let name = &assignment.target.bytes[..];
            let is_evaluated = !assignment.kind.is_provide() || asked_for.contains(name) || is_wanted(name);
            if is_evaluated {
                assignment.value.for_each_symbol(&mut |name| _ = asked_for.insert(&name.bytes));
            }
            stays.push(is_evaluated || changes.get(name) != Some(&false));
        });
        self.retain_assignments(stays);
    }

    /// Keeps some of the assignments, as [`LayoutPlan::for_each_placed_assignment`] visits them.
    fn retain_assignments(&mut self, stays: Vec<bool>) {
        if !stays.contains(&false) {
            return;
        }
        let LayoutPlan { commands, outputs, .. } = self;
        let mut stays = stays.into_iter();
        let mut stays_there = || stays.next().unwrap_or(true);
        commands.retain(|command| match command {
            Command::Assignment(_) => stays_there(),
            Command::Output(output) => {
                outputs[output.index()].body.retain(|item| match item {
                    Body::Assignment(_) => stays_there(),
                    _ => true,
                });
                true
            }
            _ => true,
        });
    }
}
