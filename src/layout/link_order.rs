//! `SHF_LINK_ORDER`: sections that stand in the order of the sections that they describe.
//!
//! The unwinder of 32-bit ARM looks a function up in `.ARM.exidx`, which the compiler wrote in pieces, one
//! section for each function. A binary search works only if the pieces have the order of the functions. So
//! each piece names its function's section in `sh_link`, and the linker sorts the pieces by the addresses of
//! these sections (gABI, "Section Attribute Flags").
//!
//! In each list, plain sections come first, in the list's order. Sections with `SHF_LINK_ORDER` follow,
//! sorted. The linker's own SFrame data comes last, because no input describes its functions. An SFrame
//! overlay stands before all, and inputs that it cannot take stand behind all. The first round has no
//! addresses yet, so the order of lists takes their place. Each round sorts again.

use super::place::{BLOCK, List};
use crate::arch::Target;
use crate::chunks::Layout;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::{ObjectFile, SectionClass};
use crate::phase::{Contents, Inputs, SectionState};
use crate::sframe_output::{discard, overlay};
use crate::tables::section::Kind;
use parallel::{ParallelSlice, ParallelSort};
use zerocopy::byteorder::ByteOrder;

/// Longer chains of `sh_link` count as circles. Compilers make chains of two: the frames or tables of a
/// function.
const MAX_CHAIN: usize = 32;

/// The section that `id` describes, if it has `SHF_LINK_ORDER` and names an existing section.
pub fn target<T: Target>(link: &Inputs<'_, T>, id: SectionId) -> Option<SectionId> {
    if !link.class_of(id).contains(SectionClass::ORDERED) {
        return None;
    }
    let (object, index) = link.locate(id)?;
    target_in(object, index as usize)
}

/// The section of its file that the `SHF_LINK_ORDER` section `index` describes. Assemblers let a section link
/// to itself (`.section .x,"o",@progbits,a_symbol_in_x`), which orders nothing.
pub fn target_in<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> Option<SectionId> {
    let target = object.headers[index].sh_link.get() as usize;
    (target != 0 && target != index && target < object.headers.len())
        .then(|| object.section_id(target as u32))
}

/// Pairs of a section and a dependent section, which lives and dies with it. Sorted.
pub type Dependents = Vec<(SectionId, SectionId)>;

/// The sections that live and die with a section.
pub fn dependents_of(dependents: &Dependents, target: SectionId) -> impl Iterator<Item = SectionId> + '_ {
    let start = dependents.partition_point(|pair| pair.0 < target);
    dependents[start..].iter().take_while(move |pair| pair.0 == target).map(|pair| pair.1)
}

/// The section that `sh_link` names in an output section with these items. There are two reasons for `None`:
/// nothing that they describe is in the output; or they are SFrame data about several sections of relocatable
/// output, which must not live and die with one of these.
pub fn described<T: Target>(
    link: &Contents<'_, T>,
    layout: &Layout<'_>,
    items: &[SectionId],
) -> Option<SectionId> {
    let output_chunk = |id: SectionId| layout.chunk_with(link.final_section(id)?);
    let targets = || items.iter().filter_map(|&item| Some((item, target(link, item)?)));
    let mut placed = targets().filter_map(|(_, target)| Some((target, output_chunk(target)?)));
    let (first, chunk) = placed.next()?;
    let mut several = || {
        placed.any(|(_, other)| other != chunk)
            || targets().any(|(item, target)| discard::describes_others(link, item, target))
    };
    let sframe = link.config.is_relocatable() && items.iter().any(|&item| link.is_sframe_section(item));
    (!(sframe && several())).then_some(first)
}

/// Marks the lists that have such sections. Reports `sh_link`s that name nothing, that form a circle, or that
/// name sections outside the output.
pub fn prepare<T: Target>(link: &Contents<'_, T>, lists: &mut [List]) {
    let flag = elf::SHF_LINK_ORDER;
    let overlay = overlay_of(link);
    lists.iter_mut().filter(|list| overlay.is_some() && list.items.first().copied() == overlay).for_each(
        |list| {
            list.link_order = true;
        },
    );
    lists.par_iter_mut().filter(|list| list.facts.any & flag != 0).for_each(|list| {
        list.link_order = true;
        list.items.par_iter().with_min_len(BLOCK).for_each(|&id| check(link, id));
    });
}

fn check<T: Target>(link: &Contents<'_, T>, id: SectionId) {
    let Some((object, index)) = link.locate(id) else { return };
    let header = &object.headers[index as usize];
    if header.sh_flags.get() & elf::SHF_LINK_ORDER == 0 {
        return;
    }
    let linked = header.sh_link.get();
    let diagnostic = if linked as usize >= object.headers.len() {
        let count = object.headers.len();
        let what = format!(
            "SHF_LINK_ORDER to section {linked}, which does not exist: the file has {count} sections"
        );
        Diagnostic::error(Code::LinkOrder, what)
    } else if linked == 0 || linked == index {
        return;
    } else if root(link, id).is_none() {
        let what =
            format!("SHF_LINK_ORDER goes round in a circle, or through more than {MAX_CHAIN} sections");
        Diagnostic::error(Code::LinkOrder, what)
    } else if !link.sections.is_alive(object.section_id(linked)) && !link.is_sframe_section(id) {
        // For `.sframe`, the relocation is reported, not `sh_link`.
        let name = object.section_name_lossy(linked as usize);
        let what = format!("SHF_LINK_ORDER to section {name}, which is not in the output");
        let diagnostic = Diagnostic::error(Code::LinkOrder, what);
        match header.sh_flags.get() & elf::SHF_GNU_RETAIN {
            0 => diagnostic,
            _ => diagnostic.help(format!("SHF_GNU_RETAIN keeps this section alone: {name} needs it, too")),
        }
    } else {
        return;
    };
    let (file, section) = (object.name.to_string(), object.section_name_lossy(index as usize));
    let place = crate::diag::Location::Section { file, section, offset: 0 };
    link.sink.report(diagnostic.at(place).ordered(object.id.0, index, 0));
}

/// The end of the chain of `sh_link`s; `None` if the chain is a circle.
fn root<T: Target>(link: &Inputs<'_, T>, id: SectionId) -> Option<SectionId> {
    let mut at = id;
    for _ in 0..MAX_CHAIN {
        match target(link, at) {
            Some(next) => at = next,
            None => return Some(at),
        }
    }
    None
}

/// Sorts each list by the `position` of the section that each of its sections describes. `position` returns
/// an address, or a rank in its place; `None` if that section is absorbed or dropped. Returns whether any
/// order changed.
pub fn sort<T: Target>(
    link: &Contents<'_, T>,
    lists: &mut [List],
    position: &(dyn Fn(SectionId) -> Option<u64> + Sync),
) -> bool {
    lists
        .par_iter_mut()
        .filter(|list| list.link_order)
        .map(|list| sort_list(link, list, position))
        .reduce(|| false, |a, b| a | b)
}

/// The SFrame overlay, which stands before all other `.sframe` data.
fn overlay_of<T: Target>(link: &Contents<'_, T>) -> Option<SectionId> {
    link.synthetics.find(Kind::SFrameOverlay).map(|row| link.synthetic_id(row))
}

fn sort_list<T: Target>(
    link: &Contents<'_, T>,
    list: &mut List,
    position: &(dyn Fn(SectionId) -> Option<u64> + Sync),
) -> bool {
    let own_frames = link.synthetics.find(Kind::SFrame).map(|row| link.synthetic_id(row));
    let overlay = overlay_of(link);
    let key = |id: SectionId| match target(link, id) {
        _ if Some(id) == overlay => (0, 0),
        _ if overlay.is_some() && !overlay::takes_input(link, id) => (4, 0),
        Some(target) if !link.sections.is(target, SectionState::ABSORBED) => {
            (2, position(target).unwrap_or(0))
        }
        _ if Some(id) == own_frames => (3, 0),
        _ => (1, 0),
    };
    let items = list.items.par_iter().with_min_len(BLOCK).enumerate();
    let mut order: Vec<((u8, u64), u32)> = items.map(|(at, &id)| (key(id), at as u32)).collect();
    if order.is_sorted() {
        return false;
    }
    // Sections of equal keys keep their order, because the sort key includes the index in the list.
    order.par_sort_unstable();
    let pick = |at: u32| at as usize;
    list.items = order.iter().map(|&(_, at)| list.items[pick(at)]).collect();
    list.sizes = order.iter().map(|&(_, at)| list.sizes[pick(at)]).collect();
    list.aligns = order.iter().map(|&(_, at)| list.aligns[pick(at)]).collect();
    list.computed_for = None;
    true
}

/// Writes positions into `scratch`, by section, for the time before there are addresses: the rank of the
/// list, then the index in it. A section with `SHF_LINK_ORDER` has the position of the end of its chain.
/// Returns whether any list needs them.
pub fn initial_positions<T: Target>(
    link: &Inputs<'_, T>,
    lists: &[List],
    list_order: &[u32],
    scratch: &mut [u64],
) -> bool {
    if !lists.iter().any(|list| list.link_order) {
        return false;
    }
    for (list, &rank) in lists.iter().zip(list_order) {
        for (at, &id) in list.items.iter().enumerate() {
            scratch[id.index()] = u64::from(rank) << 32 | at as u64;
        }
    }
    for list in lists.iter().filter(|list| list.link_order) {
        for &id in &list.items {
            if let Some(root) = root(link, id) {
                scratch[id.index()] = scratch[root.index()];
            }
        }
    }
    true
}
