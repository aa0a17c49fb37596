//! Gives input sections an order that no script asks for: that of a profile or of an ordering file.
//!
//! Sections with a priority move inside the list of their rule, so that the order of a script's input
//! statements stays valid, and so do the symbols assigned between them. The built-in scripts have several
//! statements for code and data only to keep cold and hot parts together. An order from a file counts more
//! than that. So under a built-in script, these sections move through the whole output section, as in lld and
//! gold, which lay out without a script.

use super::place::{self, List};
use super::shuffle::InputOrder;
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::{RuleId, SectionId};
use crate::phase::{Contents, Scanned, SectionState};
use crate::plan::LayoutPlan;
use parallel::ParallelSort;

/// The priorities of sections. Sections with a priority below 0 stand before sections without one, and
/// sections with a priority above 0 stand behind them.
#[derive(Clone, Debug, Default)]
pub struct Priorities {
    rows: Vec<(SectionId, i32)>,
    /// If somebody asked for an order by a file or an option of its own, it holds across the statements of
    /// built-in scripts: for sections with a priority up to this one, and above 0.
    firm: Option<i32>,
}

impl Priorities {
    /// Takes priorities. If a section has several, the smallest counts. Those up to `firm` and above 0 hold
    /// across the statements of built-in scripts; with `None`, none does.
    pub fn new(mut rows: Vec<(SectionId, i32)>, firm: Option<i32>) -> Self {
        rows.sort_unstable();
        rows.dedup_by_key(|row| row.0);
        Priorities { rows, firm }
    }

    /// Whether a section has a priority that holds across the statements of built-in scripts.
    fn is_firm(&self, id: SectionId) -> bool {
        let priority = self.of(id);
        self.firm.is_some_and(|bound| priority > 0 || priority < 0 && priority <= bound)
    }

    /// Whether no section has a priority.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The priority of a section, 0 if it has none.
    pub fn of(&self, id: SectionId) -> i32 {
        self.rows.binary_search_by_key(&id, |row| row.0).map_or(0, |row| self.rows[row].1)
    }

    /// The sections that have a priority, in the order of their priorities.
    pub fn in_order(&self) -> Vec<SectionId> {
        let mut rows = self.rows.clone();
        rows.par_sort_by_key(|&(id, priority)| (priority, id));
        rows.into_iter().map(|(id, _)| id).collect()
    }

    /// Orders the sections of a list. The sort is stable, so sections of equal priority stay in their order.
    pub fn sort(&self, items: &mut [SectionId]) {
        if !self.is_empty() && items.iter().any(|&id| self.of(id) != 0) {
            items.par_sort_by_key(|&id| self.of(id));
        }
    }
}

/// Whether a section may leave its place in input order. It must be laid out. It must not be a part of
/// `.init` or `.fini`, which make up one function, nor of an array of constructors or destructors, which has
/// an order of its own.
pub fn may_move<T: Target>(link: &Scanned<'_, T>, id: SectionId) -> bool {
    let sections = &link.sections;
    if !sections.is_alive(id)
        || sections.is(id, SectionState::ABSORBED)
        || sections.is(id, SectionState::NOT_CONTENT)
    {
        return false;
    }
    let info = link.section_info(id);
    let fixed: [&[u8]; 5] = [b".init", b".fini", b".ctors", b".dtors", b".preinit"];
    let is_fixed = |prefix: &&[u8]| {
        let rest = info.name.strip_prefix(*prefix);
        rest.is_some_and(|rest| rest.is_empty() || matches!(rest[0], b'.' | b'_'))
    };
    !matches!(info.sh_type, elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY)
        && !fixed.iter().any(is_fixed)
}

/// Applies a firm order under a built-in script: moves the sections that it names to the first
/// or the last statement of their output sections, across input statements.
pub fn gather<T: Target>(
    link: &Contents<'_, T>,
    rules: &mut [Option<RuleId>],
    priorities: &Priorities,
    order: &InputOrder,
    lists: &mut [List],
) {
    if priorities.is_empty() || priorities.firm.is_none() || link.plan.replaces_default {
        return;
    }
    for output in 0..link.plan.outputs.len() {
        let own = rules_of(&link.plan, output);
        let [first, .., last] = own[..] else { continue };
        let mut moved: Vec<SectionId> = Vec::new();
        for &rule in &own {
            let list = &mut lists[rule.index()];
            let ordered = |id: &SectionId| priorities.is_firm(*id);
            if list.items.iter().any(ordered) {
                moved.extend(list.items.iter().copied().filter(ordered));
                list.items.retain(|id| !ordered(id));
            }
        }
        if moved.is_empty() {
            continue;
        }
        moved.par_sort_by_key(|&id| (priorities.of(id), place::input_position(link, order, id)));
        let (front, back): (Vec<_>, Vec<_>) = moved.into_iter().partition(|&id| priorities.of(id) < 0);
        for (rule, items) in [(first, front), (last, back)] {
            let list = &mut lists[rule.index()];
            items.iter().for_each(|id| rules[id.index()] = Some(rule));
            list.items.splice(0..0, items);
        }
        for rule in own {
            let list = &mut lists[rule.index()];
            list.has_internal = list.items.iter().any(|id| id.0 >= link.first_internal());
        }
    }
}

/// The rules of an output section in the order of its body.
fn rules_of(plan: &LayoutPlan, output: usize) -> Vec<RuleId> {
    let output = &plan.outputs[output];
    if output.discard { Vec::new() } else { output.rules().collect() }
}
