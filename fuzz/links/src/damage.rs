//! Damages a valid file: numbers are overwritten with others, and ends are cut off.
//!
//! The damage is chosen before the file has its final form. So the choice says at which place it strikes, not
//! at which byte.

use arbitrary::{Result, Unstructured};

/// Numbers at which arithmetic with offsets and sizes goes wrong.
pub const EDGES: [u64; 12] =
    [0, 1, 7, 0x7f, 0xff, 0xfff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

/// A place in a file.
#[derive(Clone, Copy)]
enum Place {
    FromStart(usize),
    FromEnd(usize),
}

/// A number that is overwritten.
pub struct Damage {
    place: Place,
    value: u64,
    /// Size of the number in bytes.
    size: usize,
    /// Whether the file ends before the number.
    cuts: bool,
}

impl Damage {
    /// Chooses damage to a file of about `length` bytes. It is more often near the ends, because headers are
    /// there.
    pub fn described(from: &mut Unstructured<'_>, length: usize) -> Result<Damage> {
        let place = match from.int_in_range(0..=3)? {
            0 => Place::FromStart(from.int_in_range(0..=63)?),
            1 => Place::FromEnd(from.int_in_range(0..=1023)?),
            _ => Place::FromStart(from.int_in_range(0..=length)?),
        };
        let value = if from.ratio(1, 2)? { *from.choose(&EDGES)? } else { from.arbitrary()? };
        let size = 1 << from.int_in_range(0..=3)?;
        Ok(Damage { place, value, size, cuts: from.ratio(1, 16)? })
    }

    /// The length of a file of `length` bytes after the damage.
    pub fn length_after(&self, length: usize) -> usize {
        if self.cuts { self.start(length).min(length) } else { length }
    }

    /// Damages a file.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let at = self.start(bytes.len());
        for (byte, new) in bytes.iter_mut().skip(at).zip(&self.value.to_le_bytes()[..self.size]) {
            *byte = *new;
        }
        bytes.truncate(self.length_after(bytes.len()));
    }

    fn start(&self, length: usize) -> usize {
        match self.place {
            Place::FromStart(at) => at,
            Place::FromEnd(before) => length.saturating_sub(before),
        }
    }
}
