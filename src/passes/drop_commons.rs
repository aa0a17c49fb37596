//! `--gc-sections` for common blocks: drops those that no live section refers to.
//!
//! A common block is an input section in all but form, so the linker drops each one by itself, as lld and
//! mold do. The blocks that stay move together in the `COMMON` section of their object. If none stays, that
//! section is left out, as every empty section of the linker is. `KEEP(*(COMMON))` keeps all blocks.

use crate::arch::Target;
use crate::phase::{Bound, CommonPlace, SectionState, SectionStates, Synthesized};
use crate::symbols::{CommonBlock, SymbolFlags};
use parallel::ParallelSort;

/// Drops dead blocks. Their symbols become [`SymbolFlags::DISCARDED`], and the other blocks get their final
/// places.
pub fn run<'a, T: Target>(mut bound: Bound<'a, T>, sections: &SectionStates) -> Bound<'a, T> {
    if !bound.config.gc.enabled {
        return bound;
    }
    let blocks = 0..bound.common_places.len();
    let dead: Vec<usize> = blocks.filter(|&row| is_dead(&bound, sections, row)).collect();
    if dead.is_empty() {
        return bound;
    }
    for &row in &dead {
        let symbol = bound.definitions.commons[row].symbol;
        bound.symbols[symbol.index()].insert(SymbolFlags::DISCARDED);
    }
    bound.refine(|matched| matched.refine(|synthesized| without(synthesized, &dead)))
}

/// The link without the blocks of these rows. The blocks that stay, and their sections, get new places and
/// sizes.
fn without<'a, T: Target>(synthesized: Synthesized<'a, T>, dead: &[usize]) -> Synthesized<'a, T> {
    let mut places = synthesized.common_places.clone();
    let mut sections = synthesized.synthetic.clone();
    let mut order: Vec<(CommonPlace, usize)> =
        places.iter().enumerate().filter_map(|(row, place)| Some(((*place)?, row))).collect();
    order.par_sort_by_key(|(place, _)| (place.section, place.offset));
    let mut current = None;
    for (place, row) in order {
        let section = &mut sections.rows[(place.section.0 - synthesized.first_internal()) as usize];
        if current.replace(place.section) != Some(place.section) {
            (section.size, section.align) = (0, 1);
        }
        places[row] = dead.binary_search(&row).is_err().then(|| {
            let offset = section.append_block(&synthesized.definitions.commons[row]);
            CommonPlace { offset, ..place }
        });
    }
    Synthesized { common_places: places, synthetic: sections, ..synthesized }
}

/// The dropped blocks, in the order of their symbols' rows.
pub fn dropped<'l, T: Target>(link: &'l Bound<'_, T>) -> impl Iterator<Item = &'l CommonBlock> {
    let is_dropped = |block: &&CommonBlock| link.symbol_flags(block.symbol).contains(SymbolFlags::DISCARDED);
    link.definitions.commons.iter().filter(move |block| link.config.gc.enabled && is_dropped(block))
}

fn is_dead<T: Target>(bound: &Bound<'_, T>, sections: &SectionStates, row: usize) -> bool {
    let Some(place) = bound.common_places[row] else { return false };
    let symbol = bound.definitions.commons[row].symbol;
    !bound.is_name_used(symbol) && !sections.is(place.section, SectionState::KEEP)
}
