//! Keeps empty output sections because of symbols.
//!
//! A symbol in an empty section has that section's address. Without the output section, the symbol would have
//! to move into a neighbour of another kind, or become an absolute number, which no loader relocates. Hidden
//! symbols keep nothing, because no other module sees them (`__TMC_END__`). Under `--emit-relocs`, every
//! symbol keeps its section: a relocation may name it, and the number that it would become says nothing of
//! the place.

use super::state::{LayoutState, Stays};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::object::SymbolPlace;
use crate::phase::Contents;
use crate::symbols::Definition;
use parallel::ParallelSlice;

/// Marks the empty output sections in which objects define symbols that others can see, or any that
/// relocations of the output may name.
pub fn keep_those_with_symbols<T: Target>(link: &Contents<'_, T>, layout_state: &mut LayoutState<'_>) {
    let sections = empty_sections(link.first_internal(), layout_state);
    if sections.is_empty() {
        return;
    }
    let found: Vec<SectionId> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let start = sections.partition_point(|id| id.0 < object.first_section);
            let end = sections
                .partition_point(|id| id.index() < object.first_section as usize + object.headers.len());
            let of_object = sections.get(start..end).unwrap_or_default();
            let globals = if of_object.is_empty() { &[][..] } else { &object.globals[..] };
            let wants_locals = link.config.relocations.emit && !of_object.is_empty();
            let locals = if wants_locals { 1..object.first_global as usize } else { 0..0 };
            let local = locals.filter_map(move |symbol| {
                let SymbolPlace::Section(section) = object.symbol_place(symbol) else { return None };
                let section = object.section_id(section);
                of_object.binary_search(&section).is_ok().then_some(section)
            });
            let visible = globals.iter().enumerate().filter_map(move |(row, &id)| {
                let symbol = object.first_global as usize + row;
                let SymbolPlace::Section(section) = object.symbol_place(symbol) else { return None };
                let section = object.section_id(section);
                let visibility = link.definitions.visibility[id.index()];
                let visible = matches!(visibility, elf::STV_DEFAULT | elf::STV_PROTECTED);
                let own = Definition::Object { file: object.id, symbol: symbol as u32 };
                (visible && of_object.binary_search(&section).is_ok() && link.definition(id) == own)
                    .then_some(section)
            });
            local.chain(visible)
        })
        .collect();
    for section in found {
        if let Some(rule) = layout_state.section_rules[section.index()] {
            layout_state.outputs[layout_state.plan.rule(rule).output.index()].keep();
        }
    }
}

/// The input sections of output sections without bytes, sorted. Ids from `first_internal` on are the
/// linker's own sections.
fn empty_sections(first_internal: u32, layout_state: &LayoutState<'_>) -> Vec<SectionId> {
    let empty = layout_state.plan.outputs.iter().zip(&layout_state.outputs).filter(|(plan, state)| {
        !plan.discard && state.stays == Stays::IfFilled && state.facts.count > 0 && state.facts.bytes == 0
    });
    let lists = empty.flat_map(|(plan, _)| plan.rules()).map(|rule| &layout_state.lists[rule.index()]);
    let inputs = lists.flat_map(|list| &list.items).copied().filter(|id| id.0 < first_internal);
    let mut sections: Vec<SectionId> = inputs.collect();
    sections.sort_unstable();
    sections
}
