//! The saved memory of a process: pieces of bytes by address.

use crate::bytes::{Bytes, word};
use sframe_format::Endian;

/// Bytes at addresses.
#[derive(Clone, Default)]
pub struct Memory {
    /// Start address and bytes of each piece, ascending. They share the files that they are parts of: any
    /// number of segments of a core file may hold the same bytes.
    pieces: Vec<(u64, Bytes)>,
}

impl Memory {
    /// Memory that holds these pieces; they should not overlap.
    pub fn new(mut pieces: Vec<(u64, Bytes)>) -> Self {
        pieces.retain(|(_, bytes)| !bytes.is_empty());
        pieces.sort_by_key(|(start, _)| *start);
        Self { pieces }
    }

    /// The bytes from an address to the end of its piece.
    pub fn from(&self, address: u64) -> Option<&[u8]> {
        let place = self.pieces.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        let (start, bytes) = self.pieces.get(place)?;
        let rest = bytes.get(usize::try_from(address - start).ok()?..)?;
        (!rest.is_empty()).then_some(rest)
    }

    /// As [`Memory::from`], shared.
    pub fn part(&self, address: u64) -> Option<Bytes> {
        let place = self.pieces.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        self.pieces.get(place)?.1.part(self.from(address)?)
    }

    /// The 8 bytes at an address as a number.
    pub fn word(&self, endian: Endian, address: u64) -> Option<u64> {
        Some(word(*self.from(address)?.first_chunk()?, endian))
    }
}
