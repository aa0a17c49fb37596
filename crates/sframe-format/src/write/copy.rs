//! Recognises functions whose rows can be copied.
//!
//! Most functions that a linker reads have V3 rows of a current assembler, and decoding and encoding these
//! would give the same rows again. Only their starts may be wider than necessary, because an assembler
//! chooses the width by the size of the function instead of its last row. [`Copied::find`] walks the rows of
//! a function without decoding any, which is much cheaper. It accepts only functions for which a copy is
//! certainly right. All others are decoded and encoded.

use super::encode::{Encoded, push_integer};
use super::function::Options;
use crate::abi::Abi;
use crate::blob::Blob;
use crate::endian::Endian;
use crate::fde::Fde;
use crate::fre::{ATTRIBUTE_SIZE, Attributes, FdeType, PauthKey, PcType};
use crate::short::{ShortRow, ShortRows};
use crate::version::Version;
use alloc::vec::Vec;

/// A function that needs no encoding.
pub(super) struct Copied<'data> {
    pub encoded: Encoded,
    /// Attribute and rows as stored.
    bytes: &'data [u8],
    /// The rows, if their starts must become narrower.
    wide: Option<ShortRows<'data>>,
}

impl<'data> Copied<'data> {
    /// The function. `None`: the encoder might write other rows for it.
    pub fn find(options: Options, blob: &Blob<'data>, fde: &Fde, attributes: &Attributes) -> Option<Self> {
        let header = blob.header();
        let same_form = options.version == Version::V3
            && header.version == Version::V3
            && header.abi == options.abi
            && header.fixed_fp_offset == 0
            && header.fixed_ra_offset == options.abi.fixed_ra_offset();
        // On s390x, an RA word of 0 means "not saved", and `walk` does not look at that.
        if !same_form || options.abi == Abi::S390x {
            return None;
        }
        let bytes = blob.fre_bytes().get(fde.fre_offset as usize..)?;
        let stored = info(attributes, attributes.start_width);
        if attributes.fde_type != FdeType::Default
            || attributes.pc_type != PcType::Increment
            || attributes.fre_count == 0
            || bytes.get(2..ATTRIBUTE_SIZE)? != [stored, 0, 0]
            || stored & 0x20 != 0 && !options.abi.is_aarch64()
        {
            return None;
        }
        let rows = blob.fres(attributes).short_rows();
        let (end, width) = walk(options, rows.clone(), fde)?;
        let bytes = bytes.get(..end.checked_sub(fde.fre_offset as usize)?)?;
        let encoded =
            Encoded { fre_count: attributes.fre_count, info: info(attributes, width), repeat_size: 0 };
        Some(Copied { encoded, bytes, wide: (width < attributes.start_width).then_some(rows) })
    }

    /// Attribute and rows. They are put into `memory` if they differ from the blob's bytes.
    pub fn bytes<'b>(self, endian: Endian, memory: &'b mut Vec<u8>) -> &'b [u8]
    where
        'data: 'b,
    {
        let Some(rows) = self.wide else { return self.bytes };
        memory.clear();
        memory.extend_from_slice(&self.bytes[..2]);
        memory.extend_from_slice(&[self.encoded.info, 0, 0]);
        for row in rows.flatten() {
            push_integer(memory, endian, row.start.into(), self.encoded.info & 3);
            // Copies a fixed length, and truncates the result.
            let end = memory.len() + row.length();
            memory.extend_from_slice(&row.content.to_le_bytes());
            memory.truncate(end);
        }
        memory
    }
}

/// The info byte of an attribute for starts of `width` bytes, with the key and signal bits of `attributes`.
fn info(attributes: &Attributes, width: u8) -> u8 {
    let key = u8::from(attributes.pauth_key == PauthKey::B);
    // 0, 1, 2 for 1, 2, 4 bytes.
    width.trailing_zeros() as u8 | key << 5 | u8::from(attributes.signal) << 7
}

/// The end of the rows in the FRE sub-section, and the width in bytes that their starts need. `None`: a row
/// differs from what the encoder would write in more than that width.
fn walk(options: Options, mut rows: ShortRows<'_>, fde: &Fde) -> Option<(usize, u8)> {
    let mut previous: Option<ShortRow> = None;
    for row in rows.by_ref() {
        let row = row?;
        let adds =
            previous.is_none_or(|previous| row.start > previous.start && row.content != previous.content);
        if !adds || row.start >= fde.size || !is_smallest(options.abi, &row) {
            return None;
        }
        previous = Some(row);
    }
    let width = match previous?.start {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    };
    Some((rows.position, width))
}

/// Whether a row of a default FDE has no surplus bits or words, and the smallest words that can hold its
/// values.
fn is_smallest(abi: Abi, row: &ShortRow) -> bool {
    let (info, endian) = (row.info(), abi.endian());
    let most = if abi.fixed_ra_offset() == 0 { 3 } else { 2 };
    let bytes = row.content.to_le_bytes();
    let words = bytes.get(1..row.length()).unwrap_or_default();
    // Number of words, and the code of their size.
    match (info >> 1 & 0xf, info >> 5 & 3) {
        (0, _) => info == 0,
        (count, _) if count > most || info & 0x80 != 0 && !abi.is_aarch64() => false,
        (_, 0) => true,
        (_, 1) => needs::<2>(words, |word| {
            let word = match endian {
                Endian::Little => i16::from_le_bytes(word),
                Endian::Big => i16::from_be_bytes(word),
            };
            i8::try_from(word).is_err()
        }),
        _ => needs::<4>(words, |word| {
            let word = match endian {
                Endian::Little => i32::from_le_bytes(word),
                Endian::Big => i32::from_be_bytes(word),
            };
            i16::try_from(word).is_err()
        }),
    }
}

/// Whether some word needs its `SIZE` bytes.
fn needs<const SIZE: usize>(words: &[u8], is_wide: impl Fn([u8; SIZE]) -> bool) -> bool {
    words.as_chunks::<SIZE>().0.iter().any(|&word| is_wide(word))
}
