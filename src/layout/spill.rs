//! `--enable-non-contiguous-regions`: sections that do not fit the region of their output section go
//! on to the next statement that matches them (GNU ld's manual, "Command-line Options").
//!
//! The first output section that leaves its region gives up the section that does not fit and all
//! behind it, even where a small one would still fit, so that the order of sections stays that of
//! the script. Then everything is laid out again. A section never goes back, so the loop ends.

use super::machine::Machine;
use super::place;
use super::shuffle::InputOrder;
use super::sort;
use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::ids::{OutputId, RuleId, SectionId};
use crate::phase::Contents;
use crate::plan::memory;
use crate::tables::section::Kind;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// The rules that each section can still go on to, in order.
pub type Alternatives = HashMap<SectionId, VecDeque<RuleId>, foldhash::fast::FixedState>;

/// Moves sections out of the first output section that leaves its region. Gives whether any moved. A section
/// without a further rule is reported and stays.
pub fn run<T: Target>(
    link: &Contents<'_, T>,
    machine: &mut Machine<'_>,
    alternatives: &mut Alternatives,
) -> bool {
    if !link.config.layout.non_contiguous_regions || link.config.is_relocatable() || link.sink.has_errors() {
        return false;
    }
    let plan = machine.plan;
    for output in plan.in_order() {
        let moving = behind_region(link, machine, output);
        if !moving.is_empty() {
            return move_on(link, machine, alternatives, &moving);
        }
    }
    false
}

/// The sections of an output section from the first one on that ends behind its region.
fn behind_region<T: Target>(
    link: &Contents<'_, T>,
    machine: &Machine<'_>,
    output: OutputId,
) -> Vec<SectionId> {
    let state = &machine.outputs[output.index()];
    let plan = &machine.plan.outputs[output.index()];
    if !state.in_output || state.region == memory::DEFAULT || plan.discard || plan.overlay {
        return Vec::new();
    }
    let region = &machine.regions[state.region];
    let mut moving = Vec::new();
    for rule in plan.rules() {
        let list = &machine.lists[rule.index()];
        for (&id, &size) in list.items.iter().zip(&list.sizes) {
            let offset = list.start.wrapping_add(machine.offsets[id.index()]);
            let end = state.address.wrapping_add(offset).wrapping_add(size);
            let over = !moving.is_empty() || region.overflow(end) > 0;
            if size > 0 && over && can_move(link, id) {
                moving.push(id);
            }
        }
    }
    moving
}

/// Whether a section may go on to another rule: input sections and common blocks.
fn can_move<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let row = link.synthetic_row(id);
    row.is_none_or(|row| link.synthetics.section(row).kind == Kind::Common)
}

fn move_on<T: Target>(
    link: &Contents<'_, T>,
    machine: &mut Machine<'_>,
    alternatives: &mut Alternatives,
    moving: &[SectionId],
) -> bool {
    let mut touched = Vec::new();
    for &id in moving {
        let Some(from) = machine.section_rules[id.index()] else { continue };
        let Some(to) = alternatives.get_mut(&id).and_then(VecDeque::pop_front) else {
            report_stuck(link, machine, id, from);
            continue;
        };
        report_move(link, machine, id, from, to);
        machine.section_rules[id.index()] = Some(to);
        machine.lists[from.index()].items.retain(|&item| item != id);
        let target = &mut machine.lists[to.index()];
        target.items.push(id);
        target.has_internal |= id.0 >= link.first_internal();
        touched.extend([from, to]);
    }
    touched.sort_unstable();
    touched.dedup();
    let order = InputOrder::new(link);
    for &rule in &touched {
        let list = &mut machine.lists[rule.index()];
        list.items.sort_by_key(|&id| place::input_position(link, &order, id));
        sort::sort(link, machine.plan.rule(rule), &mut list.items);
        list.gather(link);
    }
    !touched.is_empty()
}

fn output_name(machine: &Machine<'_>, rule: RuleId) -> String {
    let output = machine.plan.rule(rule).output;
    machine.plan.outputs[output.index()].name_text().into_owned()
}

fn report_move<T: Target>(
    link: &Contents<'_, T>,
    machine: &Machine<'_>,
    id: SectionId,
    from: RuleId,
    to: RuleId,
) {
    if !link.config.layout.non_contiguous_regions_warnings {
        return;
    }
    let (from, to) = (output_name(machine, from), output_name(machine, to));
    let message = format!(
        "{} does not fit the region of output section `{from}` and is put into `{to}`",
        link.describe_place(id, 0)
    );
    let diagnostic = Diagnostic::warning(Code::LayoutError, message);
    link.sink.report(diagnostic.ordered(link.rank_of_file(id), id.0, 0));
}

fn report_stuck<T: Target>(link: &Contents<'_, T>, machine: &Machine<'_>, id: SectionId, last: RuleId) {
    let last = output_name(machine, last);
    let size = link.section_size(id);
    let message = format!(
        "{} ({size:#x} bytes) does not fit the region of any output section that matches it",
        link.describe_place(id, 0)
    );
    link.sink.report(
        Diagnostic::error(Code::LayoutError, message)
            .note(format!("the last one that matches is `{last}`"))
            .help("enlarge a region, or add a statement for a region that has room")
            .ordered(link.rank_of_file(id), id.0, 0),
    );
}
