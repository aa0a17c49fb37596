//! Runs the plan again and again until no address changes any more.
//!
//! A script may use a value before it defines it:
//!
//! ```text
//! .text : { *(.text) . = . + SIZEOF(.data); }     the size of .data is not known yet
//! .data : { *(.data) }
//! ```
//!
//! So each round uses the values of the round before where this round has none yet, and the loop ends when
//! two rounds give the same result. A round carries out the plan, lets the relocation-read-only part find its
//! page boundary, and sorts link-ordered sections by the addresses that came out. It drops output sections
//! that stayed empty, and counts segments, whose headers need room themselves. A script whose values keep
//! growing would never come to rest, so the number of rounds has a limit.
//!
//! Sections whose size depends on addresses are not part of this loop: [`super::rounds`] asks them when it
//! has ended.

use super::segments::{self, PhdrValues, SegmentPolicy};
use super::state::{LayoutState, Stays};
use super::{file_offsets, link_order};
use super::{orphan, output};
use crate::arch::Target;
use crate::chunks::{Chunk, Segment, order_of};
use crate::cli::StripOptions;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::{ChunkId, OutputId, SectionId};
use crate::phase::Contents;
use crate::plan::{Body, LayoutPlan};
use crate::script::ast::OutputSectionType;
use crate::script::data_segment::{DataSegment, RelroSection};
use crate::script::eval::eval;
use sframe_format::SHT_GNU_SFRAME;

/// After this many rounds, the linker reports that the layout does not come to rest. A chain of values that
/// depend on one another takes as many rounds as it is long.
const MAX_ROUNDS: u32 = 50;

/// Settings and names that stay the same in all rounds.
pub struct Fixed<'a> {
    /// Names of the plan's output sections.
    pub names: Vec<&'a [u8]>,
    /// `-z relro`, if the output can have it.
    pub relro: bool,
    /// Sections that get a segment of their own.
    pub special: Special,
    /// Which of them go to a file of their own.
    pub strip: &'a StripOptions,
    /// What segments must look like. Each round fills in chunks and ranges.
    pub policy: SegmentPolicy,
    /// Whether the output has segments. Neither an object (`-r`) nor a binary image has any.
    pub segments: bool,
    /// Bytes of the file header; 0 for a binary image.
    pub file_header_size: u64,
}

/// Sections of the linker that get segments of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Special {
    /// `.dynamic`.
    pub dynamic: Option<SectionId>,
    /// `.eh_frame_hdr`.
    pub eh_frame_hdr: Option<SectionId>,
    /// The SFrame index.
    pub sframe_index: Option<SectionId>,
    /// The table that stands for `.eh_frame`.
    pub unwind_table: Option<SectionId>,
}

/// The results of a round that are compared with the next one.
#[derive(Clone, PartialEq, Eq, Default)]
struct Signature {
    outputs: Vec<(u64, u64, u64, bool)>,
    symbols: Vec<Option<u64>>,
    segments: usize,
}

/// The layout of a round.
#[derive(Default)]
pub struct Round<'a> {
    /// The output sections in order, without their lists of input sections.
    pub chunks: Vec<Chunk<'a>>,
    /// For each chunk, its output section in the plan.
    pub outputs: Vec<OutputId>,
    /// The chunks in order of address, as [`crate::chunks::Layout::order`].
    pub order: Vec<ChunkId>,
    /// Program headers, without offsets.
    pub segments: Vec<Segment>,
}

/// Runs rounds until one ends like the round before. Returns that round.
pub fn repeat<'a, T: Target>(
    link: &Contents<'a, T>,
    layout_state: &mut LayoutState<'_>,
    fixed: &Fixed<'a>,
) -> Round<'a> {
    let mut before = Signature::default();
    let mut changed_names = Vec::new();
    let mut judged = vec![false; layout_state.outputs.len()];
    for _ in 0..MAX_ROUNDS {
        run_with_relro(layout_state, fixed.relro);
        let reordered = reorder(link, layout_state);
        let dropped = drop_empty(layout_state, link.config.is_relocatable(), &mut judged);
        let result = finish_round(layout_state, fixed);
        let now = signature(layout_state, result.segments.len());
        if now == before && !reordered && !dropped {
            return result;
        }
        changed_names = changes(layout_state, &before, &now);
        before = now;
        for entry in &mut layout_state.symbols.entries {
            entry.previous = entry.value.or(entry.previous);
        }
    }
    link.sink.report(
        Diagnostic::error(
            Code::LayoutDiverges,
            format!("the layout does not come to rest in {MAX_ROUNDS} rounds"),
        )
        .note(format!("still moving: {}", changed_names.join(", ")))
        .help("look for assignments whose value depends on an address that depends on them"),
    );
    finish_round(layout_state, fixed)
}

/// Runs the plan, and runs it a second time if the start of the relocation-read-only part must move, so that
/// its end lies on a page boundary.
fn run_with_relro(layout_state: &mut LayoutState<'_>, relro: bool) {
    layout_state.data_segment = DataSegment::with_relro_page(layout_state.settings.relro_page_size);
    let before: Vec<(bool, u64, u64)> =
        layout_state.outputs.iter().map(|state| (state.placed, state.address, state.load_address)).collect();
    layout_state.run();
    let sections =
        layout_state.data_segment.relro().map_or_else(Vec::new, |range| relro_sections(layout_state, range));
    if layout_state.data_segment.next_round(relro, &sections) {
        // Expressions before a section must see its shifted address of the round before. The first run has no
        // shift, so its addresses do not count.
        for (state, (placed, address, load_address)) in layout_state.outputs.iter_mut().zip(before) {
            if placed {
                (state.address, state.load_address) = (address, load_address);
            }
        }
        layout_state.run();
    }
}

/// The allocated output sections in a range of addresses, in order.
fn relro_sections(layout_state: &LayoutState<'_>, (start, end): (u64, u64)) -> Vec<RelroSection> {
    let states = layout_state.plan.in_order().map(|output| &layout_state.outputs[output.index()]);
    states
        .filter(|state| {
            let alloc = crate::elf::is_alloc(state.attributes.flags);
            state.in_output && alloc && state.address >= start && state.address < end
        })
        .map(|state| RelroSection {
            size: if state.is_tls_zeros() { 0 } else { state.size },
            alignment: state.align.max(1),
        })
        .collect()
}

/// Puts link-ordered sections in the order of this round's addresses.
fn reorder<T: Target>(link: &Contents<'_, T>, layout_state: &mut LayoutState<'_>) -> bool {
    if !layout_state.lists.iter().any(|list| list.link_order) {
        return false;
    }
    let mut lists = std::mem::take(&mut layout_state.lists);
    let starts: Vec<u64> = lists
        .iter()
        .zip(&layout_state.plan.rules)
        .map(|(list, rule)| layout_state.outputs[rule.output.index()].address.wrapping_add(list.start))
        .collect();
    let ranks = list_ranks(layout_state.plan);
    let relocatable = link.config.is_relocatable();
    let changed = link_order::sort(link, &mut lists, &|id| {
        let rule = layout_state.section_rules[id.index()]?.index();
        if !super::place::is_placed(link, id) {
            return None;
        }
        let offset = layout_state.offsets[id.index()];
        // Under `-r` there are no addresses, so the order of output sections decides.
        Some(if relocatable {
            u64::from(ranks[rule]) << 40 | offset & ((1 << 40) - 1)
        } else {
            starts[rule].wrapping_add(offset)
        })
    });
    layout_state.lists = lists;
    changed
}

/// For each rule, its position in the order of the plan.
pub fn list_ranks(plan: &LayoutPlan) -> Vec<u32> {
    let mut ranks = vec![0; plan.rules.len()];
    let rules = plan.in_order().flat_map(|output| plan.outputs[output.index()].rules());
    for (rule, rank) in rules.zip(0..) {
        ranks[rule.index()] = rank;
    }
    ranks
}

/// Drops empty output sections after the first run that gave them a size, and brings back those that got
/// contents. `judged` tells for each output section whether there was such a run. Returns whether any
/// changed.
fn drop_empty(layout_state: &mut LayoutState<'_>, relocatable: bool, judged: &mut [bool]) -> bool {
    let mut changed = false;
    for (state, judged) in layout_state.outputs.iter_mut().zip(judged) {
        let filled = state.size > 0 || state.facts.bytes > 0 || relocatable && state.facts.count > 0;
        let wanted = match state.stays {
            Stays::IfFilled => filled || state.undetermined,
            Stays::Always => true,
            Stays::Never => false,
        };
        if !*judged && state.in_output != wanted || wanted && !state.in_output {
            state.in_output = wanted;
            changed = true;
        }
        *judged |= !state.undetermined;
    }
    changed
}

fn signature(layout_state: &LayoutState<'_>, segments: usize) -> Signature {
    let outputs = &layout_state.outputs;
    Signature {
        outputs: outputs.iter().map(|s| (s.address, s.load_address, s.size, s.in_output)).collect(),
        symbols: layout_state
            .symbols
            .entries
            .iter()
            .map(|entry| entry.value.map(|value| value.address(None, layout_state)))
            .collect(),
        segments,
    }
}

/// The names of some symbols and sections that differ between two rounds.
fn changes(layout_state: &LayoutState<'_>, before: &Signature, now: &Signature) -> Vec<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut names = Vec::new();
    for (index, output) in now.outputs.iter().enumerate() {
        if before.outputs.get(index) != Some(output) {
            names.push(format!("section {}", text(&layout_state.plan.outputs[index].name)));
        }
    }
    for (index, symbol) in now.symbols.iter().enumerate() {
        if before.symbols.get(index) != Some(symbol) {
            names.push(format!("symbol {}", text(layout_state.symbols.names[index])));
        }
    }
    if before.segments != now.segments {
        names.push("the number of segments".to_owned());
    }
    names.truncate(8);
    names
}

/// Makes the output sections and segments of this round. The room for program headers never shrinks, so it
/// cannot oscillate.
fn finish_round<'a>(layout_state: &mut LayoutState<'_>, fixed: &Fixed<'a>) -> Round<'a> {
    let (chunks, outputs) = chunks(layout_state, fixed);
    let order = order_of(&chunks);
    let segments = if fixed.segments {
        segments_of(layout_state, fixed, &Sorted::new(&chunks, &outputs, &order))
    } else {
        Vec::new()
    };
    let size =
        if segments.is_empty() { fixed.file_header_size } else { file_offsets::headers_size(segments.len()) };
    layout_state.headers_size = layout_state.headers_size.max(size);
    let header = segments.iter().find(|segment| segment.p_type == elf::PT_LOAD && segment.file_header);
    layout_state.headers_address = header.and_then(|load| {
        if load.is_empty() {
            return Some(load.address);
        }
        let offset = file_offsets::congruent(layout_state.headers_size, load.address, load.align)?;
        Some(load.address.wrapping_sub(offset))
    });
    Round { chunks, outputs, order, segments }
}

/// The plan's output sections in the order of their headers: those for a separate debug file stand last, so
/// that all others have the same numbers in both files.
fn in_file_order(layout_state: &LayoutState<'_>, fixed: &Fixed<'_>) -> Vec<OutputId> {
    let goes_apart = |output: &OutputId| {
        let flags = layout_state.outputs[output.index()].attributes.flags;
        orphan::goes_apart(fixed.strip, fixed.names[output.index()], flags)
    };
    let (apart, mut order): (Vec<_>, Vec<_>) = layout_state.plan.in_order().partition(goes_apart);
    order.extend(apart);
    order
}

/// The output sections of this round, each with its row in the plan.
fn chunks<'a>(layout_state: &LayoutState<'_>, fixed: &Fixed<'a>) -> (Vec<Chunk<'a>>, Vec<OutputId>) {
    let mut chunks = Vec::with_capacity(layout_state.outputs.len());
    let mut outputs = Vec::with_capacity(layout_state.outputs.len());
    for output in in_file_order(layout_state, fixed) {
        let state = &layout_state.outputs[output.index()];
        let plan = &layout_state.plan.outputs[output.index()];
        if plan.discard || !state.in_output {
            continue;
        }
        let mut align = state.align.max(1);
        let mut flags = state.attributes.flags;
        if fixed.policy.writable_text && plan.name == b".text" {
            flags |= elf::SHF_WRITE;
        }
        if crate::elf::is_alloc(state.attributes.flags) && state.address != 0 {
            // The script may give an address that is less aligned than the section's items need.
            align = align.min(1 << state.address.trailing_zeros());
        }
        chunks.push(Chunk {
            name: fixed.names[output.index()],
            sh_type: state.attributes.sh_type,
            flags,
            entsize: state.attributes.entsize,
            align,
            address: state.address,
            load_address: state.load_address,
            size: state.size,
            region: state.region,
            ..Chunk::default()
        });
        outputs.push(output);
    }
    (chunks, outputs)
}

/// The chunks of a round in order of address, each with its output section in the plan.
struct Sorted<'r, 'a> {
    chunks: Vec<&'r Chunk<'a>>,
    outputs: Vec<OutputId>,
}

impl<'r, 'a> Sorted<'r, 'a> {
    fn new(chunks: &'r [Chunk<'a>], outputs: &[OutputId], order: &[ChunkId]) -> Self {
        Sorted {
            chunks: order.iter().map(|id| &chunks[id.index()]).collect(),
            outputs: order.iter().map(|id| outputs[id.index()]).collect(),
        }
    }
}

fn segments_of(
    layout_state: &mut LayoutState<'_>,
    fixed: &Fixed<'_>,
    sorted: &Sorted<'_, '_>,
) -> Vec<Segment> {
    let Sorted { chunks, outputs } = sorted;
    let plan = layout_state.plan;
    if !plan.phdrs.is_empty() {
        let values = phdr_values(layout_state);
        let names = segments::names_in_script(plan, chunks, outputs);
        return segments::from_phdrs(
            plan,
            &values,
            chunks,
            &names,
            &fixed.policy,
            &mut layout_state.findings,
        );
    }
    layout_state.findings.extend(segments::unknown_without_phdrs(plan, outputs));
    let chunk_of = |section: Option<SectionId>| {
        let output = plan.rule(layout_state.section_rules[section?.index()]?).output;
        outputs.iter().position(|&other| other == output)
    };
    // Readers of such a segment expect the table at its start. A script may put more into the output section,
    // so the linker makes the segment only if the table comes first.
    let begins = |section: Option<SectionId>| {
        let is_first = |id: &SectionId| {
            let list = layout_state.section_rules[id.index()].map(|rule| &layout_state.lists[rule.index()]);
            list.is_some_and(|list| list.start == 0 && layout_state.offsets[id.index()] == 0)
        };
        chunk_of(section.filter(is_first))
    };
    let plain_sframe =
        || chunks.iter().position(|chunk| chunk.name == b".sframe" && chunk.sh_type == SHT_GNU_SFRAME);
    let policy = SegmentPolicy {
        dynamic: begins(fixed.special.dynamic),
        eh_frame_hdr: begins(fixed.special.eh_frame_hdr),
        unwind_table: begins(fixed.special.unwind_table),
        sframe: chunk_of(fixed.special.sframe_index).or_else(plain_sframe),
        relro: layout_state.data_segment.relro().filter(|_| fixed.relro),
        ..fixed.policy.clone()
    };
    segments::derive(chunks, &policy, layout_state.headers_size.max(fixed.file_header_size))
}

fn phdr_values(layout_state: &mut LayoutState<'_>) -> Vec<PhdrValues> {
    let plan = layout_state.plan;
    let mut number = |expr: &crate::script::expr::Expr| match eval(expr, layout_state) {
        Ok(value) => value.address(None, layout_state),
        Err(error) => {
            layout_state.findings.push(error.diagnostic(&plan.sources));
            0
        }
    };
    plan.phdrs
        .iter()
        .map(|phdr| PhdrValues {
            p_type: number(&phdr.kind) as u32,
            flags: phdr.flags.as_ref().map(|flags| number(flags) as u32),
            load_address: phdr.load_address.as_ref().map(&mut number),
        })
        .collect()
}

/// Updates type and flags of every output section from its lists.
pub fn refresh_outputs(layout_state: &mut LayoutState<'_>, relocatable: bool, sframe_alloc: bool) {
    let keep_groups = relocatable && !layout_state.plan.force_group_allocation;
    let plans = layout_state.plan;
    for index in 0..layout_state.outputs.len() {
        let plan = &plans.outputs[index];
        let facts = super::orphan::facts_of(layout_state.plan, &layout_state.lists, index);
        let writes = plan.body.iter().any(Body::writes);
        let script_type = match plan.kind.as_deref() {
            Some(OutputSectionType::Type { value, .. }) => match eval(value, layout_state) {
                Ok(value) => Some(value.value),
                Err(error) => {
                    layout_state.findings.push(error.diagnostic(&layout_state.plan.sources));
                    None
                }
            },
            _ => None,
        };
        let mut attributes = output::attributes(plan, &facts, writes, script_type, relocatable, sframe_alloc);
        if !keep_groups {
            attributes.flags &= !elf::SHF_GROUP;
        }
        let align = plan.rules().map(|rule| layout_state.lists[rule.index()].max_align).max().unwrap_or(0);
        let state = &mut layout_state.outputs[index];
        state.facts = facts;
        state.attributes = attributes;
        state.input_align = 1 << align.min(63);
        state.align = state.align.max(state.input_align);
        state.in_output |= facts.bytes > 0;
    }
    align_tls(layout_state);
}

/// Gives the first section of the TLS template the alignment of the whole template. Only then offsets from
/// the thread pointer are the same as the dynamic linker computes.
fn align_tls(layout_state: &mut LayoutState<'_>) {
    let tls = elf::SHF_TLS;
    let of_template: Vec<usize> = layout_state
        .plan
        .in_order()
        .map(OutputId::index)
        .filter(|&output| layout_state.outputs[output].facts.any & tls != 0)
        .filter(|&output| layout_state.outputs[output].facts.bytes > 0)
        .collect();
    let align = of_template.iter().map(|&output| layout_state.outputs[output].input_align).max();
    if let (Some(&first), Some(align)) = (of_template.first(), align) {
        let state = &mut layout_state.outputs[first];
        state.input_align = align;
        state.align = state.align.max(align);
    }
}
