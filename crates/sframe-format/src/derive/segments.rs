//! Stretches of call frame instructions between two far moves, each worked out once.
//!
//! A compiler writes few prologues and epilogues, and many functions with them. What differs from one
//! function to the next is how far they are apart. So an FDE's instructions are taken apart where they move
//! on by more than a row within a run covers, and it is remembered to which run of rows a stretch leads from
//! a state:
//!
//! ```text
//! 41 0e 10 86 02 43 0d 06 | 02 5a | 0c 07 08     push rbp; mov rbp, rsp | 90 bytes | pop rbp
//! ```
//!
//! The bytes of a stretch and the point before it tell all of it. The states themselves are those of
//! [`super::states`].

use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::endian::Endian;

/// A stretch of instructions.
pub(super) struct Stretch {
    /// Bytes of the instructions, without those at the end that do nothing.
    pub length: usize,
    /// How far the instruction behind moves, without the factor, and where the next stretch starts. `None`:
    /// there is no other.
    pub moves: Option<(u32, usize)>,
}

impl Stretch {
    /// The stretch at the start of these instructions, up to one that moves by more than `most`. `None`: an
    /// instruction is rare, or truncated.
    pub fn first_of(bytes: &[u8], most: u32, endian: Endian) -> Option<Self> {
        let (mut at, mut length) = (0, 0);
        while let Some(&byte) = bytes.get(at) {
            let (delta, next) = match KINDS[usize::from(byte)] {
                Kind::Near => (u32::from(byte & 0x3f), at + 1),
                Kind::Alone => (0, at + 1),
                Kind::OneNumber => match bytes.get(at + 1)? {
                    0..=0x7f => (0, at + 2),
                    _ => (0, at + 1 + number(bytes.get(at + 1..)?)?),
                },
                Kind::TwoNumbers => {
                    let second = at + 1 + number(bytes.get(at + 1..)?)?;
                    (0, second + number(bytes.get(second..)?)?)
                }
                Kind::Nothing => {
                    at += 1;
                    continue;
                }
                Kind::Far1 => (u32::from(*bytes.get(at + 1)?), at + 2),
                Kind::Far2 => (endian.read_u16(bytes, at + 1)?.into(), at + 3),
                Kind::Far4 => (endian.read_u32(bytes, at + 1)?, at + 5),
                Kind::Rare => return None,
            };
            if delta > most {
                return Some(Self { length, moves: Some((delta, next)) });
            }
            (at, length) = (next, next);
        }
        Some(Self { length, moves: None })
    }
}

/// What an instruction consists of.
#[derive(Clone, Copy)]
enum Kind {
    /// It moves, and its first byte says how far.
    Near,
    /// It has no operand.
    Alone,
    /// It has a LEB128 number, or two.
    OneNumber,
    TwoNumbers,
    /// It does nothing.
    Nothing,
    /// It moves by a number of so many bytes.
    Far1,
    Far2,
    Far4,
    /// It is rare: only [`super::instructions`] reads it.
    Rare,
}

/// By the first byte of an instruction.
const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Rare; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = kind(byte as u8);
        byte += 1;
    }
    kinds
};

const fn kind(code: u8) -> Kind {
    use gimli::constants as is;
    match code {
        0x40..=0x7f => return Kind::Near,
        0x80..=0xbf => return Kind::OneNumber,
        0xc0..=0xff => return Kind::Alone,
        _ => {}
    }
    match gimli::DwCfa(code) {
        is::DW_CFA_nop => Kind::Nothing,
        is::DW_CFA_advance_loc1 => Kind::Far1,
        is::DW_CFA_advance_loc2 => Kind::Far2,
        is::DW_CFA_advance_loc4 => Kind::Far4,
        is::DW_CFA_remember_state | is::DW_CFA_restore_state | is::DW_CFA_AARCH64_negate_ra_state => {
            Kind::Alone
        }
        is::DW_CFA_def_cfa_offset
        | is::DW_CFA_def_cfa_register
        | is::DW_CFA_def_cfa_offset_sf
        | is::DW_CFA_restore_extended
        | is::DW_CFA_same_value
        | is::DW_CFA_undefined => Kind::OneNumber,
        is::DW_CFA_def_cfa
        | is::DW_CFA_def_cfa_sf
        | is::DW_CFA_register
        | is::DW_CFA_offset_extended
        | is::DW_CFA_offset_extended_sf
        | is::DW_CFA_val_offset
        | is::DW_CFA_val_offset_sf => Kind::TwoNumbers,
        _ => Kind::Rare,
    }
}

/// The bytes of a LEB128 number.
#[inline]
fn number(rest: &[u8]) -> Option<usize> {
    match *rest {
        [0..=0x7f, ..] => Some(1),
        _ => Some(rest.iter().position(|&byte| byte < 0x80)? + 1),
    }
}

/// What is known of a stretch that begins at a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The number of its run of rows.
    pub run: u32,
    /// The numbers of the first and the last row.
    pub ends: (u32, u32),
    /// The bytes that all rows but the last cover.
    pub bytes: u32,
    /// The point behind it.
    pub point: u32,
    /// How many of its instructions change the state.
    pub changes: u32,
}

/// All stretches that were met, by their points and bytes.
#[derive(Default)]
pub(super) struct Segments<'data> {
    /// Hashes, and places in `known`.
    table: HashTable<(u32, u32)>,
    known: Vec<(u32, &'data [u8], Segment)>,
}

impl<'data> Segments<'data> {
    /// What is known of a stretch that begins at a point.
    ///
    /// # Errors
    /// Nothing is: the error is for [`Segments::learn`].
    #[inline]
    pub fn find(&self, point: u32, bytes: &[u8]) -> Result<Segment, u32> {
        let hash = FixedState::with_seed(0).hash_one((point, bytes)) as u32;
        let is_same = |&(other, place): &(u32, u32)| {
            let (of, known, _) = &self.known[place as usize];
            (other, *of) == (hash, point) && *known == bytes
        };
        let found = self.table.find(spread(hash), is_same);
        found.map(|&(_, place)| self.known[place as usize].2).ok_or(hash)
    }

    /// Learns what a stretch is, which was not found.
    pub fn learn(&mut self, hash: u32, (point, bytes): (u32, &'data [u8]), segment: Segment) {
        let place = self.known.len() as u32;
        self.known.push((point, bytes, segment));
        self.table.insert_unique(spread(hash), (hash, place), |&(hash, _)| spread(hash));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

/// The table takes a bucket from the low bits and a tag from the high bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::Stretch;
    use crate::endian::Endian;

    fn first_of(bytes: &[u8]) -> Option<(usize, Option<(u32, usize)>)> {
        Stretch::first_of(bytes, 4, Endian::Little).map(|stretch| (stretch.length, stretch.moves))
    }

    #[test]
    fn stretches_end_at_far_moves() {
        assert_eq!(
            first_of(&[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 90, 0x0c, 7, 8]),
            Some((8, Some((90, 10))))
        );
        assert_eq!(first_of(&[0x0c, 7, 8, 0, 0, 0]), Some((3, None)));
        assert_eq!(first_of(&[0, 0x0a, 0, 0, 0x45]), Some((2, Some((5, 5)))));
        assert_eq!(first_of(&[0x44, 0x02, 4, 0x03, 4, 0, 0x04, 4, 0, 0, 0]), Some((11, None)));
        assert_eq!(first_of(&[0x03, 4, 1]), Some((0, Some((260, 3)))));
        assert_eq!(first_of(&[0x04, 4, 0, 0, 1]), Some((0, Some((0x0100_0004, 5)))));
        assert_eq!(first_of(&[0x0e, 0x80, 1, 0x05, 0x90, 1, 0x80, 1]), Some((8, None)));
        assert_eq!(first_of(&[]), Some((0, None)));
    }

    #[test]
    fn rare_and_truncated_instructions_have_no_stretch() {
        for bytes in [&[0x02][..], &[0x03, 1], &[0x04, 1, 2, 3], &[0x0e], &[0x0e, 0x80], &[0x0c, 7], &[0x86]]
        {
            assert_eq!(first_of(bytes), None, "{bytes:x?}");
        }
        for code in [0x01, 0x0f, 0x10, 0x16, 0x2e, 0x2f, 0x3f] {
            assert_eq!(first_of(&[0x41, code, 1, 1, 1]), None, "{code:#x}");
        }
    }
}
