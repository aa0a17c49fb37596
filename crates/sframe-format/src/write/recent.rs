//! The bodies that a batch has taken lately, by which it knows the next ones.

use super::encode::Encoded;
use crate::fre::ATTRIBUTE_SIZE;

/// Number of bodies that [`Sharing::Recent`](super::Sharing::Recent) remembers.
pub(super) const RECENT: usize = 256;

/// Stands for no body.
pub(super) const NO_BODY: u32 = u32::MAX;

/// A body that [`Sharing::Recent`](super::Sharing::Recent) remembers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recent {
    /// Its number, or [`NO_BODY`].
    pub body: u32,
    /// The start of its last row, if its rows need no decoding: functions that are larger, and have these
    /// bytes in a blob, have this body.
    pub last_start: Option<u32>,
}

impl Recent {
    /// No body.
    pub const NONE: Recent = Recent { body: NO_BODY, last_start: None };

    /// The slot of a body. `bytes` begins with its bytes, of whose number nobody need know: so the slot is a
    /// hash of the first eight, and of the eight before where the rows end if each has one data word of one
    /// byte.
    pub fn slot(encoded: Encoded, bytes: &[u8]) -> usize {
        let row = 2 + (1 << (encoded.info & 3));
        let guess = (ATTRIBUTE_SIZE + encoded.fre_count as usize * row).min(bytes.len());
        let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (first, last) = (word(bytes.first_chunk()), word(bytes[..guess].last_chunk()));
        let mixed = first ^ last.rotate_left(29) ^ (guess as u64) << 17;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % RECENT
    }
}
