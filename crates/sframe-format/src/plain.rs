//! A fast path from the bytes of a usual row to a word of packed rules.
//!
//! Nearly every row is a start, an info byte and up to three small offsets. One load shows a start with its
//! info byte, which says where the next row is. One more load shows all offsets of the row that holds. The
//! decoder handles the rest (flexible rows, signal frames, PLTs, s390x, big-endian sections, the last bytes
//! of a section) and reports what is malformed.

use crate::blob::Blob;
use crate::endian::Endian;
use crate::fre::{Attributes, FdeType, PcType};
use crate::info::{word_count, words_length};
use crate::packed::Packed;

/// Bits of the info byte with the size code of a data word. Code 3 is undefined.
const WORD_SIZE: u64 = 0x60;

impl Blob<'_> {
    /// The rules that hold `offset` bytes from the start of a function. `None`: the function or the row is
    /// not of the usual kind.
    #[inline]
    pub(crate) fn plain_row(&self, attributes: &Attributes, offset: u64) -> Option<Packed> {
        let header = self.header();
        let is_plain = attributes.fde_type == FdeType::Default
            && attributes.pc_type == PcType::Increment
            && !attributes.signal
            && header.endian == Endian::Little
            && !self.is_strict();
        if !is_plain {
            return None;
        }
        let rows = self.fre_bytes();
        let (width, mut next) = (usize::from(attributes.start_width), attributes.rows_offset as usize);
        let bits = 8 * width as u32;
        let starts = (1u64 << bits) - 1;
        let mut found = None;
        for _ in 0..attributes.fre_count {
            let row = eight_bytes(rows, next)?;
            if row & starts > offset {
                break;
            }
            if row >> bits & WORD_SIZE == WORD_SIZE {
                return None;
            }
            found = Some(next);
            next += width + 1 + words_length((row >> bits) as u8);
        }
        let info_at = found? + width;
        let info = *rows.get(info_at)?;
        let count = word_count(info);
        if count == 0 {
            return Some(Packed::outermost(header.abi));
        }
        // All words must be in these eight bytes.
        if words_length(info) > 8 {
            return None;
        }
        let words = eight_bytes(rows, info_at + 1)?;
        let word_bits = 8 << (info >> 5 & 3);
        let word = |index: u8| {
            let above = 64u32.checked_sub(word_bits * (u32::from(index) + 1))?;
            (index < count).then(|| (words << above) as i64 >> (64 - word_bits))
        };
        let fixed = |offset: i8| Some(offset.into());
        let (ra, next) = match header.fixed_ra_offset {
            0 => (word(1), 2),
            offset => (fixed(offset), 1),
        };
        let fp = match header.fixed_fp_offset {
            0 => word(next),
            offset => fixed(offset),
        };
        let mangled = info & 0x80 != 0 && header.abi.is_aarch64();
        Packed::frame(header.abi, info & 1 == 0, word(0)?, ra, fp, mangled)
    }
}

#[inline(always)]
fn eight_bytes(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
