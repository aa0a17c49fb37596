//! Lists the sections of each rule, in input order.
//!
//! A link may have a million sections. They are listed in blocks, and the parts of each list are joined, so
//! this costs one parallel walk over dense arrays. The linker's own sections come after those of all inputs,
//! unless they stand for inputs: commons stand for their object, and merged pieces for the first section that
//! they came from.

use super::output::{self, OutputFacts};
use super::shuffle::InputOrder;
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::ids::{RuleId, SectionId};
use crate::input::SectionInfo;
use crate::phase::Contents;
use crate::phase::SectionState;
use crate::rows::{filled, joined};
use crate::tables::section::Kind;
use parallel::{IntoParallel, ParallelSlice, ParallelSort};

/// Number of sections that one job handles.
pub const BLOCK: usize = 1 << 14;

/// Stands in place of an alignment: the section has no part in the layout, even if `SUBALIGN` gives all
/// sections an alignment.
pub const NO_PART: u8 = u8::MAX;

/// The sections of one rule.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Sections in order of address.
    pub items: Vec<SectionId>,
    /// Size of each, in bytes.
    pub sizes: Vec<u64>,
    /// The alignment of each, as a power of two; [`NO_PART`] for empty tables of the linker.
    pub aligns: Vec<u8>,
    /// Bytes before some of them, sorted by section (`--randomize-section-padding`).
    pub paddings: Vec<(SectionId, u64)>,
    /// Their header fields, joined.
    pub facts: OutputFacts,
    /// Whether it has a section of the linker, whose size may still change.
    pub has_internal: bool,
    /// Whether it is in order already, because the statement's patterns ask for different orders.
    pub mixed: bool,
    /// Whether its order follows the order of other sections.
    pub link_order: bool,
    /// Offset of the first section in the output section, in bytes.
    pub start: u64,
    /// Bytes from `start` to the end of the last section.
    pub length: u64,
    /// Largest alignment, as a power of two.
    pub max_align: u8,
    /// The start (modulo the largest alignment) and the `SUBALIGN` for which the offsets were computed;
    /// `None` if they were not computed yet.
    pub computed_for: Option<(u64, Option<u8>)>,
}

/// Lists the live sections of each rule, and the sections without a rule. Both are in input order.
pub fn list<T: Target>(
    link: &Contents<'_, T>,
    rules: &[Option<RuleId>],
    order: &InputOrder,
) -> (Vec<List>, Vec<SectionId>) {
    let rule_count = link.plan.rules.len();
    let blocks: Vec<Vec<Vec<SectionId>>> = (0..link.section_count().div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            // The last list is for sections without a rule.
            let mut lists = vec![Vec::new(); rule_count + 1];
            let end = link.section_count().min((block + 1) * BLOCK);
            for id in (block * BLOCK..end).map(SectionId::from_index).filter(|&id| is_placed(link, id)) {
                lists[rules[id.index()].map_or(rule_count, RuleId::index)].push(id);
            }
            lists
        })
        .collect();
    let joined = |rule: usize| {
        let parts: Vec<&[SectionId]> = blocks.iter().map(|lists| &lists[rule][..]).collect();
        joined(&parts, 0, SectionId(0))
    };
    let mut left = joined(rule_count);
    let lists = (0..rule_count).into_par_iter().map(|rule| List { items: joined(rule), ..List::default() });
    let mut lists: Vec<List> = lists.collect();
    let first_internal = link.first_internal();
    lists.par_iter_mut().for_each(|list| {
        list.has_internal = list.items.last().is_some_and(|last| last.0 >= first_internal);
        if list.has_internal || order.is_shuffled() {
            list.items.par_sort_by_key(|&id| input_position(link, order, id));
        }
    });
    if left.last().is_some_and(|last| last.0 >= first_internal) || order.is_shuffled() {
        left.par_sort_by_key(|&id| input_position(link, order, id));
    }
    (lists, left)
}

/// The sort key of a section in input order.
pub fn input_position<T: Target>(link: &Contents<'_, T>, order: &InputOrder, id: SectionId) -> (u32, u32) {
    let Some(row) = link.synthetic_row(id) else { return (order.rank(id.0), 0) };
    let section = link.synthetics.section(row);
    if section.kind == Kind::SFrameOverlay {
        (0, 0)
    } else if let Some(first) = section.first_input {
        (order.rank(first.0), 1 + row)
    } else if let Some(object) = section.file.and_then(|file| link.objects.get(file.index())) {
        let end = object.first_section + object.headers.len() as u32;
        (order.rank(end.saturating_sub(1)), 1 + row)
    } else {
        (u32::MAX, row)
    }
}

impl List {
    /// How far a section moves from its place. Mostly no list has any such section.
    #[inline]
    pub fn padding_before(&self, id: SectionId) -> u64 {
        if self.paddings.is_empty() {
            return 0;
        }
        self.paddings.binary_search_by_key(&id, |padding| padding.0).map_or(0, |row| self.paddings[row].1)
    }

    /// Reads sizes, alignments and header fields of the sections.
    pub fn gather<T: Target>(&mut self, link: &Contents<'_, T>) {
        let count = self.items.len();
        if self.sizes.len() != count {
            (self.sizes, self.aligns) = (filled(0, count), filled(0, count));
        }
        let gather = |((items, sizes), aligns): ((&[SectionId], &mut [u64]), &mut [u8])| {
            let (mut facts, mut max_align) = (OutputFacts::default(), 0);
            for ((&id, size), align) in items.iter().zip(sizes).zip(aligns) {
                let info = brief_info(link, id);
                *size = info.size;
                if info.size == 0 && is_dropped_if_empty(link, id) {
                    *align = NO_PART;
                    facts = facts.join(OutputFacts::of_unused(&info));
                    continue;
                }
                *align = output::alignment(&info).trailing_zeros() as u8;
                max_align = max_align.max(*align);
                facts = facts.join(OutputFacts::of(id, &info));
            }
            (facts, max_align)
        };
        (self.facts, self.max_align) = if count <= BLOCK {
            gather(((&self.items, &mut self.sizes), &mut self.aligns))
        } else {
            self.items
                .par_chunks(BLOCK)
                .zip(self.sizes.par_chunks_mut(BLOCK))
                .zip(self.aligns.par_chunks_mut(BLOCK))
                .map(gather)
                .reduce(Default::default, |a, b| (a.0.join(b.0), a.1.max(b.1)))
        };
        self.computed_for = None;
    }
}

/// Whether a section of the linker is left out while it is empty, so that its type, flags and alignment do
/// not count. The symbol table and other tables about the file get their sizes only after the layout.
fn is_dropped_if_empty<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    link.synthetic_row(id).is_some_and(|row| !link.synthetics.section(row).kind.is_about_file())
}

/// The header fields of a section. The name is left out, because it takes time to find the end of every name.
/// Only SFrame data has its name, because the name may decide its type.
fn brief_info<'a, T: Target>(link: &Contents<'a, T>, id: SectionId) -> SectionInfo<'a> {
    let Some((object, index)) = link.locate(id) else { return link.section_info(id) };
    let Some(header) = object.headers.get(index as usize) else { return link.section_info(id) };
    if link.is_sframe_section(id) {
        return link.section_info(id);
    }
    let flags = header.sh_flags.get();
    let sh_type = header.sh_type.get();
    let (align, size, entsize) = (header.sh_addralign.get(), header.sh_size.get(), header.sh_entsize.get());
    SectionInfo {
        name: b"",
        sh_type,
        // `sh_info` names a section of the object, which has another number in the output.
        flags: flags & !elf::SHF_INFO_LINK,
        size,
        align: if align.is_power_of_two() { align } else { 1 },
        // An entry size larger than the section is nonsense.
        entsize: if entsize <= size.max(MAX_ENTRY) { entsize } else { 0 },
    }
}

/// An entry size up to this one counts even if the section is smaller (empty).
const MAX_ENTRY: u64 = 256;

/// Calls [`List::gather`] for all lists.
pub fn gather<T: Target>(link: &Contents<'_, T>, lists: &mut [List]) {
    lists.par_iter_mut().for_each(|list| list.gather(link));
}

/// Whether a section is laid out: alive, with content, and not absorbed.
#[inline]
pub fn is_placed<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let elsewhere = SectionState::ABSORBED | SectionState::NOT_CONTENT;
    link.sections.get(id) & (SectionState::ALIVE | elsewhere) == SectionState::ALIVE
}
