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
    #[inline]
    pub fn first_of(bytes: &[u8], most: u32, endian: Endian) -> Option<Self> {
        let forms = &SHORT[(most as usize).min(SHORT.len() - 1)];
        let (mut at, mut length) = (0, 0);
        loop {
            let mut rest = bytes.get(at..)?;
            while let Some(word) = rest.first_chunk() {
                let word = u32::from_le_bytes(*word);
                let form = forms[(word & 0xff) as usize];
                if form & (word | OTHER) > SHORT_SIZE {
                    break;
                }
                rest = &rest[(form & SHORT_SIZE) as usize..];
            }
            if bytes.len() - rest.len() > at {
                at = bytes.len() - rest.len();
                length = at;
            }
            let Some(&byte) = bytes.get(at) else { return Some(Self { length, moves: None }) };
            let (delta, next) = match KINDS[usize::from(byte)] {
                Kind::Near => (u32::from(byte & 0x3f), at + 1),
                Kind::Alone => (0, at + 1),
                Kind::OneNumber => (0, at + 1 + number(bytes.get(at + 1..)?)?),
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

/// By the farthest that instructions move and by the first byte of one: its bytes, if its numbers have one
/// byte each, and the bits that are set if they have more. [`OTHER`]: it is of another form, or moves
/// farther.
static SHORT: [[u32; 256]; 13] = {
    let mut all = [[OTHER; 256]; 13];
    let mut most = 0;
    while most < all.len() {
        let mut byte = 0;
        while byte < 256 {
            all[most][byte] = match KINDS[byte] {
                Kind::Near if byte & 0x3f <= most => 1,
                Kind::Alone => 1,
                Kind::OneNumber => 2 | 0x8000,
                Kind::TwoNumbers => 3 | 0x80_8000,
                _ => OTHER,
            };
            byte += 1;
        }
        most += 1;
    }
    all
};
const OTHER: u32 = 1 << 31;
/// The bits for bytes.
const SHORT_SIZE: u32 = 3;

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

/// The most bytes that stretches have on average. Compilers write some ten.
const USUAL_BYTES: usize = 1 << 6;

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
pub(super) struct Segments {
    /// Hashes, and places in `known`.
    table: HashTable<(u32, u32)>,
    known: Vec<Known>,
    /// The bytes of all. The inputs have them, too, but each somewhere else.
    bytes: Vec<u8>,
}

/// A stretch that was met.
struct Known {
    point: u32,
    /// Where its bytes are.
    start: u32,
    length: u32,
    segment: Segment,
}

impl Segments {
    /// What is known of a stretch that begins at a point.
    ///
    /// # Errors
    /// Nothing is: the error is for [`Segments::learn`].
    #[inline]
    pub fn find(&self, point: u32, bytes: &[u8]) -> Result<Segment, u32> {
        let hash = hash(point.into(), bytes);
        let is_same = |&(other, place): &(u32, u32)| {
            let Known { point: of, start, length, .. } = self.known[place as usize];
            (other, of, length as usize) == (hash, point, bytes.len())
                && is_equal(&self.bytes[start as usize..][..bytes.len()], bytes)
        };
        let found = self.table.find(spread(hash), is_same);
        found.map(|&(_, place)| self.known[place as usize].segment).ok_or(hash)
    }

    /// Learns what a stretch is, which was not found.
    pub fn learn(&mut self, hash: u32, (point, bytes): (u32, &[u8]), segment: Segment) {
        let place = self.known.len() as u32;
        let (start, length) = (self.bytes.len() as u32, bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
        self.known.push(Known { point, start, length, segment });
        self.table.insert_unique(spread(hash), (hash, place), |&(hash, _)| spread(hash));
    }

    /// Whether there are more than `most`, or their bytes are more than those of the largest usual ones.
    pub fn are_too_many(&self, most: usize) -> bool {
        self.known.len() > most || self.bytes.len() > most * USUAL_BYTES
    }
}

/// The hash of where bytes begin and of the bytes, eight at a time. Stretches have so few bytes that calls
/// would take longer than the hash and the comparison.
#[inline]
pub(super) fn hash(begin: u64, bytes: &[u8]) -> u32 {
    // Odd numbers without a pattern: digits of pi.
    const FIRST: u64 = 0x243f_6a88_85a3_08d3;
    const FACTOR: u64 = 0x1319_8a2e_0370_7345;
    let mix = |sum: u64, word: u64| {
        let product = u128::from(sum ^ word) * u128::from(FACTOR);
        product as u64 ^ (product >> 64) as u64
    };
    let sum = mix(FIRST ^ bytes.len() as u64, begin);
    let sum = bytes.as_chunks().0.iter().fold(sum, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    let sum = mix(sum, last_bytes(bytes));
    (sum ^ sum >> 32) as u32
}

/// The last eight bytes of a list, or all bytes of a shorter one. Some may be there twice.
#[inline]
fn last_bytes(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.last_chunk() {
        return u64::from_le_bytes(*word);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return 0 };
    u64::from(first) << 16 | u64::from(bytes[bytes.len() / 2]) << 8 | u64::from(last)
}

/// Whether two lists have the same bytes.
#[inline]
pub(super) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let words = one.as_chunks().0.iter().zip(other.as_chunks().0);
    one.len() == other.len()
        && words.into_iter().all(|(one, other)| u64::from_le_bytes(*one) == u64::from_le_bytes(*other))
        && last_bytes(one) == last_bytes(other)
}

/// The table takes a bucket from the low bits and a tag from the high bits.
pub(super) fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::{Stretch, hash, is_equal};
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

    /// What the short forms say is what all instructions say that are read one by one.
    #[test]
    fn stretches_may_move_as_far_as_they_are_asked() {
        for most in [0, 1, 4, 12, 13, 40, 70] {
            for near in 1..=0x3f {
                let bytes = [0x40 + near, 0x0e, 16, 0x86, 0x82, 1, 0, 0x0a, 0x0c, 7, 8, 0, 0];
                let stretch = Stretch::first_of(&bytes, most, Endian::Little).unwrap();
                let expected = if u32::from(near) > most { (0, Some((near.into(), 1))) } else { (11, None) };
                assert_eq!((stretch.length, stretch.moves), expected, "{most} {near}");
            }
        }
    }

    #[test]
    fn lists_are_equal_if_all_bytes_are() {
        let all: [u8; 40] = core::array::from_fn(|at| at as u8 * 3);
        for length in 0..all.len() {
            let mut other = all;
            assert!(is_equal(&all[..length], &other[..length]));
            assert!(!is_equal(&all[..length], &other[..=length]));
            for at in 0..length {
                other[at] ^= 1;
                assert!(!is_equal(&all[..length], &other[..length]), "{length} {at}");
                assert!(hash(7, &all[..length]) != hash(7, &other[..length]), "{length} {at}");
                other[at] ^= 1;
            }
        }
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
