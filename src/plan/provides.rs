//! Removes each `PROVIDE` that has no effect because an ordinary assignment defines its symbol. Then its
//! expression is not evaluated.
//!
//! Behind the first ordinary assignment, `PROVIDE` never has an effect. In front of it, it has the effect
//! that GNU ld gives it: if something refers to the symbol, it makes a value for the expressions in between.
//! References in objects, from options and by `EXTERN` count wherever they stand. References from other
//! assignments count only in front of the `PROVIDE`.

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

    /// Removes each `PROVIDE` in front of an ordinary assignment to its symbol, if nothing asks for the
    /// symbol: neither `is_wanted`, which knows objects and options, nor `EXTERN`, nor an assignment in front
    /// of it. The `PROVIDE` stays if the ordinary assignment changes its value (`PROVIDE(s = 8); s -= 4;`).
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

    /// Keeps the assignments for which `stays` is true, in the order in which
    /// [`LayoutPlan::for_each_placed_assignment`] visits them.
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
