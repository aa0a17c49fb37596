//! `--randomize-section-padding`: bytes before some sections, so that code and data get other addresses.
//!
//! How fast a program is depends on where its functions and loops happen to lie. A change is better by itself
//! only if the program is also faster in other layouts, and seeds give as many of those as one likes. As in
//! lld, one section in sixteen moves by its alignment, and all sections of a segment by less than a page.
//!
//! Some sections are pieces of one thing: the parts of `.init`, the entries of an array that code runs
//! through from its beginning to its end, records. They stay together.

use super::converge::list_ranks;
use super::output;
use super::place::List;
use super::shuffle::{is_one_function, next};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{RuleId, SectionId};
use crate::input::SectionClass;
use crate::phase::Contents;
use crate::plan::LayoutPlan;
use crate::symbols::is_identifier;
use parallel::ParallelSort;

/// One of so many sections moves.
const ODDS: u64 = 16;

/// Chooses the sections that move ([`List::paddings`]). Relocatable output leaves that to the final link.
pub fn choose<T: Target>(link: &Contents<'_, T>, plan: &LayoutPlan, lists: &mut [List], page: u64) {
    let Some(seed) = link.config.layout.padding_seed.filter(|_| !link.config.is_relocatable()) else {
        return;
    };
    let mut random = seed;
    let mut draw = |below: u64| ((u128::from(next(&mut random)) * u128::from(below)) >> 64) as u64;
    let ranks = list_ranks(plan);
    let mut order: Vec<usize> = (0..lists.len()).collect();
    order.par_sort_by_key(|&list| ranks[list]);
    let mut segment = None;
    for index in order {
        let list = &mut lists[index];
        let flags = list.facts.any;
        if list.link_order
            || !is_alloc(flags)
            || plan.outputs[plan.rule(RuleId::from_index(index)).output.index()].discard
        {
            continue;
        }
        let mut paddings = Vec::new();
        for &id in list.items.iter().filter(|&&id| may_move(link, id)) {
            let mut padding = 0;
            // The sections of one segment have the same permissions.
            let permissions = flags & (elf::SHF_WRITE | elf::SHF_EXECINSTR | elf::SHF_TLS);
            if segment.replace(permissions) != Some(permissions) && permissions & elf::SHF_TLS == 0 {
                padding += draw(page);
            }
            if draw(ODDS) == 0 {
                padding += output::alignment(&link.section_info(id));
            }
            if padding > 0 {
                paddings.push((id, padding));
            }
        }
        paddings.sort_unstable();
        list.paddings = paddings;
    }
}

/// Whether a section may stand apart from the one before it.
fn may_move<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let pieces = SectionClass::EH_FRAME | SectionClass::SFRAME | SectionClass::MERGE | SectionClass::ORDERED;
    if id.0 >= link.first_internal() || link.class_of(id).intersects(pieces) {
        return false;
    }
    let info = link.section_info(id);
    let is_array = |name: &[u8]| {
        is_identifier(name)
            || [&b".ctors"[..], b".dtors", b".jcr"].iter().any(|array| name.starts_with(array))
    };
    matches!(info.sh_type, elf::SHT_PROGBITS | elf::SHT_NOBITS)
        && info.size > 0
        && !is_one_function(info.name)
        && !is_array(info.name)
}
