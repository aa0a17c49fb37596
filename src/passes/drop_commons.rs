//! `--gc-sections` for common blocks: drops those that no live section refers to.
//!
//! A common block is an input section in all but form, so each one is dropped for itself, as in lld and mold.
//! The blocks that stay move together in their object's `COMMON` section; without any, that section is left
//! out like every empty section of the linker. `KEEP(*(COMMON))` keeps all blocks.

use crate::arch::Target;
use crate::phase::{Bound, CommonPlace, SectionState};
use crate::symbols::{CommonBlock, SymbolFlags};

/// Drops dead blocks: their symbols become [`SymbolFlags::DISCARDED`], and the others get their final places.
pub fn run<'a, T: Target>(mut bound: Bound<'a, T>) -> Bound<'a, T> {
    if bound.config.gc.enabled {
        drop_dead(&mut bound);
    }
    bound
}

fn drop_dead<T: Target>(bound: &mut Bound<'_, T>) {
    let mut order: Vec<usize> = (0..bound.common_places.len()).collect();
    order.retain(|&row| bound.common_places[row].is_some());
    let dead: Vec<bool> = (0..bound.common_places.len()).map(|row| is_dead(bound, row)).collect();
    if !dead.contains(&true) {
        return;
    }
    order.sort_by_key(|&row| bound.common_places[row].map(|place| (place.section, place.offset)));
    let first_internal = bound.first_internal();
    let Bound { matched, symbols } = bound;
    let made = &mut matched.made;
    let mut current = None;
    for row in order {
        let Some(place) = made.common_places[row] else { continue };
        let block = &made.resolved.definitions.commons[row];
        let section = &mut made.synthetic.rows[(place.section.0 - first_internal) as usize];
        if current.replace(place.section) != Some(place.section) {
            (section.size, section.align) = (0, 1);
        }
        if dead[row] {
            symbols[block.symbol.index()].insert(SymbolFlags::DISCARDED);
            made.common_places[row] = None;
        } else {
            let offset = section.append_block(block);
            made.common_places[row] = Some(CommonPlace { offset, ..place });
        }
    }
}

/// The blocks that were dropped, in the order of their symbols' rows.
pub fn dropped<'l, T: Target>(link: &'l Bound<'_, T>) -> impl Iterator<Item = &'l CommonBlock> {
    let is_dropped = |block: &&CommonBlock| link.symbol_flags(block.symbol).contains(SymbolFlags::DISCARDED);
    link.definitions.commons.iter().filter(move |block| link.config.gc.enabled && is_dropped(block))
}

fn is_dead<T: Target>(bound: &Bound<'_, T>, row: usize) -> bool {
    let Some(place) = bound.common_places[row] else { return false };
    let symbol = bound.definitions.commons[row].symbol;
    !bound.is_name_used(symbol) && !bound.sections.is(place.section, SectionState::KEEP)
}
