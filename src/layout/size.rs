//! Computes offsets inside an output section: one exact scan over dense sizes and alignments.
//!
//! The scan is repeated only if one of its inputs changed. Mostly, only the addresses of whole output
//! sections change from one round of the layout to the next.

use super::place::{List, NO_PART};
use crate::chunks::align::align_to;
use crate::ids::SectionId;

/// Lays a list out from address `start`, and writes for each section its offset *in the list*. `subalign`
/// replaces the sections' own alignments, but not that of empty tables. Returns the address of the list's
/// end; `None` if it overflows.
///
/// An output section starts at a multiple of its largest alignment, so offsets alone decide alignment. Two
/// starts that are equal modulo the list's largest alignment give the same offsets.
pub fn lay_out(list: &mut List, start: u64, subalign: Option<u8>, offsets: &mut [u64]) -> Option<u64> {
    let exponent = subalign.unwrap_or(list.max_align);
    let mask = 1u64.checked_shl(exponent.into())?.wrapping_sub(1);
    let key = (start & mask, subalign);
    if list.computed_for != Some(key) {
        list.length = scan(list, start, subalign, offsets)?.checked_sub(start)?;
        list.computed_for = Some(key);
    }
    start.checked_add(list.length)
}

fn scan(list: &List, start: u64, subalign: Option<u8>, offsets: &mut [u64]) -> Option<u64> {
    let mut at = start;
    for ((&id, &size), &align) in list.items.iter().zip(&list.sizes).zip(&list.aligns) {
        let begin = start_of(at.checked_add(list.padding_before(id))?, align, subalign)?;
        write(offsets, id, begin - start);
        at = begin.checked_add(size)?;
    }
    Some(at)
}

/// Where a section begins whose earliest place is `at`; `None` if that overflows.
#[inline]
pub fn start_of(at: u64, align: u8, subalign: Option<u8>) -> Option<u64> {
    if align == NO_PART { Some(at) } else { align_to(at, subalign.unwrap_or(align)) }
}

#[inline]
fn write(offsets: &mut [u64], id: SectionId, offset: u64) {
    offsets[id.index()] = offset;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(sections: &[(u64, u8)]) -> List {
        List {
            items: (0..sections.len() as u32).map(SectionId).collect(),
            sizes: sections.iter().map(|section| section.0).collect(),
            aligns: sections.iter().map(|section| section.1).collect(),
            max_align: sections.iter().map(|section| section.1).max().unwrap_or(0),
            ..List::default()
        }
    }

    #[test]
    fn sections_stand_at_their_alignment() {
        let mut list = list(&[(3, 0), (8, 3), (1, 0), (4, 2)]);
        let mut offsets = [0; 4];
        assert_eq!(lay_out(&mut list, 0, None, &mut offsets), Some(24));
        assert_eq!(offsets, [0, 8, 16, 20]);
        assert_eq!(lay_out(&mut list, 5, None, &mut offsets), Some(24));
        assert_eq!(offsets, [0, 3, 11, 15]);
        assert_eq!(lay_out(&mut list, 13, None, &mut offsets), Some(32));
        assert_eq!(offsets, [0, 3, 11, 15]);
        assert_eq!(lay_out(&mut list, 0, Some(4), &mut offsets), Some(52));
        assert_eq!(offsets, [0, 16, 32, 48]);
    }

    #[test]
    fn empty_tables_move_nothing() {
        let mut list = list(&[(13, 0), (0, NO_PART), (0, NO_PART)]);
        list.max_align = 0;
        let mut offsets = [0; 3];
        assert_eq!(lay_out(&mut list, 0, Some(6), &mut offsets), Some(13));
        assert_eq!(offsets, [0, 13, 13]);
    }

    #[test]
    fn overflowing_offsets_give_none() {
        let mut list = list(&[(u64::MAX - 3, 0), (8, 3)]);
        assert_eq!(lay_out(&mut list, 0, None, &mut [0; 2]), None);
    }
}
