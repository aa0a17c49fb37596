//! Rows as stored bytes in a word, for work without decoding: copying rows, and recognising rows that were
//! decoded before.

use crate::endian::Endian;
use crate::info::words_length;

/// The largest number of bytes of a [`ShortRow`] from its info byte on.
const MAX_LENGTH: usize = 8;
/// Bytes that contain a start, an info byte and the data words.
const WINDOW: usize = 16;

/// A stored row with few data words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortRow {
    /// First byte that the row covers.
    pub start: u32,
    /// The info byte, the data words, and zeros. The first byte is the lowest.
    pub content: u64,
}

impl ShortRow {
    /// The info byte.
    #[inline]
    pub fn info(&self) -> u8 {
        self.content as u8
    }

    /// Length of info byte and data words in bytes, at most 8.
    #[inline]
    pub fn length(&self) -> usize {
        1 + words_length(self.info())
    }
}

/// The rows of a function if all are short. `None` stands for a row that is malformed or longer. The starts
/// of later rows are then unknown.
#[derive(Clone, Debug)]
pub(crate) struct ShortRows<'data> {
    /// The FRE sub-section.
    pub area: &'data [u8],
    /// Byte order of the starts.
    pub endian: Endian,
    /// Width of the starts in bytes.
    pub start_width: usize,
    /// Number of remaining rows.
    pub left: u32,
    /// Offset of the next row from the start of the FRE sub-section.
    pub position: usize,
}

impl Iterator for ShortRows<'_> {
    type Item = Option<ShortRow>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.read())
    }
}

impl ShortRows<'_> {
    #[inline]
    fn read(&mut self) -> Option<ShortRow> {
        let rest = self.area.get(self.position..)?;
        let window = rest.first_chunk().copied().unwrap_or_else(|| padded(rest));
        let (all, bits) = (u128::from_le_bytes(window), self.start_width as u32 * 8);
        let start = match self.endian {
            Endian::Little => all as u32 & u32::MAX.checked_shr(32 - bits).unwrap_or(0),
            Endian::Big => (all as u32).swap_bytes() >> (32 - bits),
        };
        let row = ShortRow { start, content: content((all >> bits) as u64)? };
        let length = self.start_width + row.length();
        if length > rest.len() {
            return None;
        }
        self.position += length;
        Some(row)
    }
}

/// The info byte and data words at the start of 8 bytes, followed by zeros. `None`: they are longer.
#[inline]
pub(crate) fn content(bytes: u64) -> Option<u64> {
    let length = 1 + words_length(bytes as u8);
    (length <= MAX_LENGTH).then(|| bytes & u64::MAX >> (64 - 8 * length))
}

/// The last bytes of the sub-section, followed by zeros.
#[cold]
fn padded(rest: &[u8]) -> [u8; WINDOW] {
    let mut window = [0; WINDOW];
    window.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    window
}
