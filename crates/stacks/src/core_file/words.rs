//! The contents of a note of a core file as 64-bit words.

use object::{Endian as _, Endianness};

/// Bytes in a byte order.
pub struct Words<'data> {
    /// The byte order.
    pub endian: Endianness,
    /// The bytes.
    pub bytes: &'data [u8],
}

impl Words<'_> {
    /// The word at an offset.
    pub fn at(&self, offset: usize) -> Option<u64> {
        let bytes = *self.bytes.get(offset..)?.first_chunk()?;
        Some(self.endian.read_u64(bytes))
    }
}
