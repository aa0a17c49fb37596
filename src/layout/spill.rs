//! Moves sections that do not fit the region of their output section on to the next statement that matches
//! them: all sections with `--enable-non-contiguous-regions` (GNU ld's manual, "Command-line Options"), and
//! otherwise those of section classes that several output sections name (lld's page about linker scripts).
//!
//! With the option, the first output section that leaves its region gives up the section that does not fit
//! and all sections behind it. It does so even if a small one would still fit, so that sections stay in the
//! order of the script. Of a region that classes have filled, the last output section gives up the last
//! sections that can go on, as few as will do. Then everything is laid out again. A section never goes back,
//! so the loop ends.

use super::place;
use super::shuffle::InputOrder;
use super::sort;
use super::state::LayoutState;
use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::ids::{OutputId, RegionId, RuleId, SectionId};
use crate::phase::Contents;
use crate::tables::section::Kind;
use hashbrown::HashMap;
use parallel::ParallelSort;
use std::collections::VecDeque;

/// The rules to which each section can still go on, in order.
pub type Alternatives = HashMap<SectionId, VecDeque<RuleId>, foldhash::fast::FixedState>;

/// Moves sections out of the first output section that leaves its region. Returns whether it moved any. A
/// section without a further rule is reported and stays.
pub fn run<T: Target>(
    link: &Contents<'_, T>,
    layout_state: &mut LayoutState<'_>,
    alternatives: &mut Alternatives,
) -> bool {
    if link.config.is_relocatable() || link.sink.has_errors() {
        return false;
    }
    let plan = layout_state.plan;
    if !link.config.layout.non_contiguous_regions {
        let moving = if plan.classes_spill { last_members(layout_state, alternatives) } else { Vec::new() };
        return !moving.is_empty() && move_on(link, layout_state, alternatives, &moving);
    }
    for output in plan.in_order() {
        let moving = behind_region(link, layout_state, output);
        if !moving.is_empty() {
            return move_on(link, layout_state, alternatives, &moving);
        }
    }
    false
}

/// The last sections of classes in a region that is too full, in the last output section there that has any
/// with a further rule: as few as make the rest fit.
fn last_members(layout_state: &LayoutState<'_>, alternatives: &Alternatives) -> Vec<SectionId> {
    let plan = layout_state.plan;
    let is_there = |output: &OutputId| {
        let state = &layout_state.outputs[output.index()];
        state.in_output && state.region != RegionId::DEFAULT && !plan.outputs[output.index()].overlay
    };
    let outputs: Vec<OutputId> = plan.in_order().filter(is_there).collect();
    let mut excess = vec![0u64; layout_state.regions.len()];
    for output in &outputs {
        let state = &layout_state.outputs[output.index()];
        let over =
            layout_state.regions[state.region.index()].overflow(state.address.wrapping_add(state.size));
        let most = &mut excess[state.region.index()];
        *most = over.max(*most);
    }
    let can_go_on = |id: &SectionId| alternatives.get(id).is_some_and(|rules| !rules.is_empty());
    for output in outputs.iter().rev() {
        let mut over = excess[layout_state.outputs[output.index()].region.index()];
        let rules: Vec<RuleId> = plan.outputs[output.index()].rules().collect();
        let mut moving = Vec::new();
        for rule in rules.into_iter().rev() {
            let list = &layout_state.lists[rule.index()];
            for (&id, &size) in list.items.iter().zip(&list.sizes).rev() {
                if over > 0 && size > 0 && can_go_on(&id) {
                    moving.push(id);
                    over = over.saturating_sub(size);
                }
            }
        }
        if !moving.is_empty() {
            return moving;
        }
    }
    Vec::new()
}

/// The sections of an output section that lie behind its region: the first one that ends behind it, and all
/// that follow.
fn behind_region<T: Target>(
    link: &Contents<'_, T>,
    layout_state: &LayoutState<'_>,
    output: OutputId,
) -> Vec<SectionId> {
    let state = &layout_state.outputs[output.index()];
    let plan = &layout_state.plan.outputs[output.index()];
    if !state.in_output || state.region == RegionId::DEFAULT || plan.discard || plan.overlay {
        return Vec::new();
    }
    let region = &layout_state.regions[state.region.index()];
    let mut moving = Vec::new();
    for rule in plan.rules() {
        let list = &layout_state.lists[rule.index()];
        for (&id, &size) in list.items.iter().zip(&list.sizes) {
            let offset = list.start.wrapping_add(layout_state.offsets[id.index()]);
            let end = state.address.wrapping_add(offset).wrapping_add(size);
            let over = !moving.is_empty() || region.overflow(end) > 0;
            if size > 0 && over && can_move(link, id) {
                moving.push(id);
            }
        }
    }
    moving
}

/// Whether a section may go on to another rule. Input sections and common blocks may.
fn can_move<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let row = link.synthetic_row(id);
    row.is_none_or(|row| link.synthetics.section(row).kind == Kind::Common)
}

fn move_on<T: Target>(
    link: &Contents<'_, T>,
    layout_state: &mut LayoutState<'_>,
    alternatives: &mut Alternatives,
    moving: &[SectionId],
) -> bool {
    let mut touched = Vec::new();
    for &id in moving {
        let Some(from) = layout_state.section_rules[id.index()] else { continue };
        let Some(to) = alternatives.get_mut(&id).and_then(VecDeque::pop_front) else {
            report_stuck(link, layout_state, id, from);
            continue;
        };
        report_move(link, layout_state, id, from, to);
        layout_state.section_rules[id.index()] = Some(to);
        layout_state.lists[from.index()].items.retain(|&item| item != id);
        let target = &mut layout_state.lists[to.index()];
        target.items.push(id);
        target.has_internal |= id.0 >= link.first_internal();
        touched.extend([from, to]);
    }
    touched.sort_unstable();
    touched.dedup();
    let order = InputOrder::new(link);
    for &rule in &touched {
        let list = &mut layout_state.lists[rule.index()];
        list.items.par_sort_by_key(|&id| place::input_position(link, &order, id));
        sort::sort(link, layout_state.plan.rule(rule), &mut list.items);
        list.gather(link);
    }
    !touched.is_empty()
}

fn output_name(layout_state: &LayoutState<'_>, rule: RuleId) -> String {
    let output = layout_state.plan.rule(rule).output;
    layout_state.plan.outputs[output.index()].name_text().into_owned()
}

fn report_move<T: Target>(
    link: &Contents<'_, T>,
    layout_state: &LayoutState<'_>,
    id: SectionId,
    from: RuleId,
    to: RuleId,
) {
    if !link.config.layout.non_contiguous_regions_warnings {
        return;
    }
    let (from, to) = (output_name(layout_state, from), output_name(layout_state, to));
    let message = format!(
        "{} does not fit the region of output section `{from}` and is put into `{to}`",
        link.describe_place(id, 0)
    );
    let diagnostic = Diagnostic::warning(Code::LayoutError, message);
    link.sink.report(diagnostic.ordered(link.rank_of_file(id), id.0, 0));
}

fn report_stuck<T: Target>(
    link: &Contents<'_, T>,
    layout_state: &LayoutState<'_>,
    id: SectionId,
    last: RuleId,
) {
    let last = output_name(layout_state, last);
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
