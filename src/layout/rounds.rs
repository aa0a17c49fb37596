//! Finds a layout in which every section is large enough for the addresses of all others.
//!
//! Some sections have a size that depends on addresses: `.relr.dyn`, Android's `.rela.dyn`, the SFrame table,
//! and pools of thunks. But addresses depend on the sizes of all sections:
//!
//! ```text
//! round 1   .text at 0x1000, and a call in it does not reach `far`
//!           -> a pool with a thunk gets 12 bytes in .text
//! round 2   everything behind it moves by 12 bytes; now a second call does not reach
//!           -> the pool grows to 28 bytes
//! round 3   everything reaches
//! ```
//!
//! A round carries out the plan until no address changes ([`converge`]), and gives a [`Geometry`]. If a
//! section is too small for this geometry, the section grows, the linker gives up the geometry, and another
//! round begins. If a section could also shrink, two rounds could alternate for ever: it would shrink, then
//! be too small, then grow. So sections only grow, and the rounds end. A section may end up larger than it
//! needs to be.

use super::check::{self, Origin};
use super::converge::{self, Fixed};
use super::lists::Lists;
use super::names::{OutputNames, Symbols};
use super::settings;
use super::spill::{self, Alternatives};
use super::state::{LayoutState, OutputState, Stays};
use super::thunks::{self, Watched};
use super::{finish, kept, values};
use crate::arch::Target;
use crate::cli::Config;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::{OutputId, RuleId, SectionId};
use crate::phase::{Contents, Geometry, Located};
use crate::plan::{Body, LayoutPlan};
use crate::relocs::emit;
use crate::rows::filled;
use crate::script::ast::Assignment;
use crate::sframe::collect::Chosen;
use crate::sframe_output;
use crate::symbols::Definition;
use crate::synth::{android, kinds, relr};
use crate::tables::pools::Thunks;
use crate::tables::section::Kind;
use std::ops::ControlFlow;

/// The most rounds in which sections may change their size because addresses changed. Sections only grow, so
/// few rounds are enough.
const MAX_RESIZES: u32 = 32;

/// What passes from one round to the next.
pub struct Rounds<'p, 'a> {
    layout_state: LayoutState<'p>,
    fixed: Fixed<'a>,
    alternatives: Alternatives,
    /// For each chunk of the last geometry, its output section in the plan.
    outputs: Vec<OutputId>,
    made: RoundResults,
    watched: Option<Watched>,
    resizes: u32,
}

/// What the rounds make, besides the geometry.
pub struct RoundResults {
    /// The rule of each section. `--enable-non-contiguous-regions` changes these rules, and pools of thunks
    /// get theirs here.
    pub rules: Vec<Option<RuleId>>,
    /// Thunks and their pools.
    pub thunks: Thunks,
    /// The functions of the SFrame table, including those of thunks.
    pub chosen: Chosen,
    /// The addresses of symbols in the last round, if sizes depend on them.
    pub values: Option<Vec<u64>>,
}

impl<'p, 'a> Rounds<'p, 'a> {
    /// The state before the first round. `chosen` holds the functions of the SFrame table.
    pub fn new<T: Target>(
        link: &Contents<'a, T>,
        plan: &'p LayoutPlan,
        Lists { lists, rules }: Lists,
        alternatives: Alternatives,
        chosen: Chosen,
    ) -> Self {
        let offsets = filled(0, link.section_count());
        let outputs = plan.outputs.iter().map(|_| OutputState::default()).collect();
        let settings = settings::settings::<T>(link.config);
        let mut layout_state = LayoutState::new(plan, rules, lists, offsets, outputs, settings);
        refresh(&mut layout_state, link.config);
        report_types(link, &layout_state);
        start_outputs(link, &mut layout_state);
        name_outputs(&mut layout_state);
        layout_state.symbols = Symbols::new(link, plan, &layout_state.output_names);
        let fixed = settings::fixed(link, plan);
        layout_state.headers_size = fixed.file_header_size;
        let made = RoundResults { rules: Vec::new(), thunks: Thunks::default(), chosen, values: None };
        Rounds { layout_state, fixed, alternatives, outputs: Vec::new(), made, watched: None, resizes: 0 }
    }

    /// Runs the plan until no address changes.
    pub fn settle<T: Target>(&mut self, link: Contents<'a, T>) -> Geometry<'a, T> {
        let layout_state = &mut self.layout_state;
        let mut round = converge::repeat(&link, layout_state, &self.fixed);
        while spill::run(&link, layout_state, &mut self.alternatives) {
            refresh(layout_state, link.config);
            name_outputs(layout_state);
            round = converge::repeat(&link, layout_state, &self.fixed);
        }
        self.outputs.clone_from(&round.outputs);
        finish::geometry(link, layout_state, round)
    }

    /// Enlarges the sections that are too small for these addresses, for another round. If all fit, breaks
    /// with the geometry.
    pub fn grow<T: Target>(
        &mut self,
        link: Geometry<'a, T>,
    ) -> ControlFlow<Geometry<'a, T>, Contents<'a, T>> {
        let (link, mut sizes) = self.needed_by_symbols(link);
        if link.sink.has_errors() || self.resizes == MAX_RESIZES {
            return ControlFlow::Break(link);
        }
        let RoundResults { thunks, chosen, .. } = &mut self.made;
        let described = sframe_output::thunks::describe(&link, thunks, chosen);
        sizes.extend(kinds::needed_sizes(&link, chosen, described));
        let inserted = thunks::insert(&link, thunks, &mut self.watched, &mut self.layout_state);
        let grows = sizes.iter().any(|&(kind, size)| link.synthetics.is_smaller(kind, size));
        if !grows && !inserted {
            return ControlFlow::Break(link);
        }
        let mut link = link.contents;
        for (kind, size) in sizes {
            link.synthetics.grow(kind, size);
        }
        let first_internal = link.first_internal();
        thunks::size_pools::<T>(&mut link.synthetics, first_internal, thunks);
        for list in self.layout_state.lists.iter_mut().filter(|list| list.has_internal) {
            list.gather(&link);
        }
        refresh(&mut self.layout_state, link.config);
        self.resizes += 1;
        ControlFlow::Continue(link)
    }

    /// The sizes of Android's packed relocations and of signed pointers' tables, which depend on addends, of
    /// the unwind table, which depends on distances to language-specific data, and of the table of tagged
    /// globals: so on the addresses of symbols, which are kept for those who need them after the last round.
    fn needed_by_symbols<T: Target>(&mut self, link: Geometry<'a, T>) -> (Geometry<'a, T>, Vec<(Kind, u64)>) {
        let is_signed = relr::is_used(&link, Kind::SignedRelrDyn);
        let is_tagged = !link.tagged.is_empty();
        if !android::is_wanted(&link) && link.unwind_table.is_none() && !is_signed && !is_tagged {
            return (link, Vec::new());
        }
        let values = values::all(&link);
        let located = Located { geometry: link, values };
        let needed = kinds::needed_by_symbols(&located);
        self.made.values = Some(located.values);
        (located.geometry, needed)
    }

    /// Reports the findings of the last round. `link` is its geometry.
    pub fn finish<T: Target>(self, link: &Geometry<'_, T>) -> RoundResults {
        let LayoutState { plan, findings, section_rules, .. } = self.layout_state;
        for finding in findings {
            link.sink.report_recoverable(finding);
        }
        if link.config.layout.check_sections && !link.config.is_relocatable() {
            let outputs = self.outputs.iter().map(|&output| &plan.outputs[output.index()]);
            let origins: Vec<Origin> =
                outputs.map(|output| Origin { span: output.span, overlay: output.overlay }).collect();
            for finding in check::overlaps(plan, &link.layout.chunks, &origins) {
                link.sink.report_recoverable(finding);
            }
        }
        RoundResults { rules: section_rules, ..self.made }
    }
}

/// Updates type and flags of every output section from its lists.
fn refresh(layout_state: &mut LayoutState<'_>, config: &Config) {
    converge::refresh_outputs(layout_state, config.is_relocatable(), config.sframe.alloc);
}

fn name_outputs(layout_state: &mut LayoutState<'_>) {
    let outputs = &layout_state.outputs;
    layout_state.output_names =
        OutputNames::new(layout_state.plan, &|output| outputs[output.index()].facts.count > 0);
}

/// Whether the output makes the symbol of an assignment on demand (`PROVIDE`).
fn is_made<T: Target>(link: &Contents<'_, T>, assignment: &Assignment) -> bool {
    let id = link.globals.lookup(&assignment.target.bytes);
    id.is_some_and(|id| matches!(link.definition(id), Definition::Linker(_)))
}

/// Decides which output sections exist in the first round: those with input sections, with data, or with an
/// assignment to the location counter.
fn start_outputs<T: Target>(link: &Contents<'_, T>, layout_state: &mut LayoutState<'_>) {
    for (index, output) in layout_state.plan.outputs.iter().enumerate() {
        let mut lists = output.rules().map(|rule| &layout_state.lists[rule.index()]);
        // Tables about the file get their sizes after layout, so they look empty here.
        let is_table = |id: &SectionId| {
            link.synthetic_row(*id).is_some_and(|row| link.synthetics.section(row).kind.is_about_file())
        };
        let keep = lists.any(|list| list.items.first().is_some_and(is_table));
        let writes = |item: &Body| match item {
            Body::Data(..) | Body::Text(_) => true,
            Body::Assignment(assignment) => assignment.is_to_dot(),
            _ => false,
        };
        let assigns = |item: &Body| match item {
            Body::Assignment(assignment) if assignment.is_to_dot() => false,
            Body::Assignment(assignment) => !assignment.kind.is_provide() || is_made(link, assignment),
            _ => false,
        };
        let state = &mut layout_state.outputs[index];
        if keep {
            state.keep();
        }
        state.in_output = keep || state.facts.count > 0 || output.body.iter().any(writes);
        state.assigns = output.body.iter().any(assigns);
    }
    if !link.config.is_relocatable() {
        kept::keep_those_with_symbols(link, layout_state);
    }
    // Only an output with very many sections needs a table of long section numbers.
    let count = layout_state.outputs.iter().filter(|state| state.in_output).count();
    if count < usize::from(elf::SHN_LORESERVE) - MARGIN
        && !emit::is_wanted(link)
        && let Some(row) = link.synthetics.find(Kind::SymTabShndx)
    {
        let id = link.synthetic_id(row);
        if let Some(rule) = layout_state.section_rules[id.index()] {
            let state = &mut layout_state.outputs[layout_state.plan.rule(rule).output.index()];
            (state.in_output, state.stays) = (false, Stays::Never);
        }
    }
}

/// The number of output sections that may still be added: empty ones that get contents in a later round.
const MARGIN: usize = 256;

/// Warns of output sections whose input sections have types that do not go together.
fn report_types<T: Target>(link: &Contents<'_, T>, layout_state: &LayoutState<'_>) {
    for (plan, state) in layout_state.plan.outputs.iter().zip(&layout_state.outputs) {
        let Some((first, other)) = state.facts.mismatch.filter(|_| !plan.discard) else { continue };
        let described = |id: SectionId| {
            format!("{} has type {:#x}", link.describe_place(id, 0), link.section_info(id).sh_type)
        };
        link.sink.report(
            Diagnostic::warning(
                Code::LayoutError,
                format!(
                    "sections of different types are put into output section {}, which gets type {:#x}",
                    plan.name_text(),
                    state.attributes.sh_type
                ),
            )
            .note(described(first))
            .note(described(other))
            .ordered(link.rank_of_file(other), other.0, 0),
        );
    }
}
