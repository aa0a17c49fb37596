//! Finds GOT loads that were relaxed to address their symbol directly, and do not reach it.
//!
//! The linker decides on relocations before it knows addresses. In an output larger than what relative
//! addresses reach, some decisions turn out wrong. Then the link starts again, and these loads keep their GOT
//! slots. In an ordinary output, the first and the last address show that all loads reach.

use crate::arch::{RelocBase, RelocExpr, Target};
use crate::elf::is_alloc;
use crate::ids::{SectionId, SymbolId};
use crate::input::SectionClass;
use crate::phase::{Placed, SectionState};
use crate::relocs::address;
use crate::relocs::walk::{Decided, Undecided, Visitor, Walk};
use parallel::ParallelSlice;

/// The distance that relative addresses reach on every machine, in bytes.
const REACH: u64 = 1 << 31;

/// A margin for the few bytes that a relaxed instruction may add to the value, such as its length.
const SLACK: i64 = 32;

/// The loads, as pairs of the section that holds the load and the symbol of the load. Sorted, each pair once.
pub fn run<T: Target>(link: &Placed<'_, T>) -> Vec<(SectionId, SymbolId)> {
    let loaded = || link.layout.chunks.iter().filter(|chunk| is_alloc(chunk.flags) && chunk.size > 0);
    let start = loaded().map(|chunk| chunk.address).min().unwrap_or(0);
    let end = loaded().map(|chunk| chunk.address.saturating_add(chunk.size)).max().unwrap_or(0);
    // Where addresses are fixed, instructions hold addresses as well as distances, and numbers that scripts
    // compute.
    let extent = if link.mode.position_independent {
        end - start
    } else {
        link.linker_values.iter().map(|symbol| symbol.value).fold(end, u64::max)
    };
    if link.config.is_relocatable() || extent < REACH {
        return Vec::new();
    }
    let mut found: Vec<(SectionId, SymbolId)> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let mut far = Far { link, section: SectionId::NONE, found: Vec::new() };
            for (index, id) in object.section_ids().enumerate() {
                let left_out = SectionState::ABSORBED | SectionState::NOT_CONTENT;
                if link.class_of(id).contains(SectionClass::ALLOC | SectionClass::RELOCATED)
                    && link.sections.is_alive(id)
                    && !link.sections.get(id).intersects(left_out)
                {
                    far.section = id;
                    Walk::new(link, object, index).each(object.relocations(index), &mut far);
                }
            }
            far.found
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

struct Far<'l, 'a, T: Target> {
    link: &'l Placed<'a, T>,
    section: SectionId,
    found: Vec<(SectionId, SymbolId)>,
}

impl<T: Target> Visitor<T> for Far<'_, '_, T> {
    fn decided(&mut self, relocation: Decided<'_, T>) {
        let Decided { info, offset, index, symbol, addend, action, .. } = relocation;
        let (RelocExpr::GotSlot, Some(edit)) = (info.expr, action.edit) else { return };
        if action.expr != RelocExpr::Symbol {
            return;
        }
        let Some((object, _)) = self.link.locate(self.section) else { return };
        let target = address::target(self.link, object, index, symbol, addend);
        let base = match action.base {
            RelocBase::Place => address::place(self.link, self.section, offset),
            _ => 0,
        };
        let value = target.wrapping_sub(base) as i64;
        let (min, max) = T::edit_range(edit);
        if value < min.saturating_add(SLACK) || value > max.saturating_sub(SLACK) {
            self.found.push((self.section, symbol));
        }
    }

    fn undecided(&mut self, _: Undecided<'_, T>) {}
}
