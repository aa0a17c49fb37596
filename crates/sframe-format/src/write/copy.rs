//! Recognises functions whose rows can be copied.
//!
//! Most functions that a linker reads have V3 rows of a current assembler, and decoding and encoding these
//! would give the same rows again. Only their starts may be wider than necessary, because an assembler
//! chooses the width by the size of the function instead of its last row. [`Stored::walk`] walks the rows of
//! a function without decoding any, which is much cheaper. It accepts only functions for which a copy is
//! certainly right. All others are decoded and encoded. Where the bytes of a function are those of one before
//! it, even the walk is not needed.

use super::encode::{Encoded, push_integer, width_code_for};
use super::function::Options;
use crate::abi::Abi;
use crate::blob::Blob;
use crate::endian::Endian;
use crate::fde::Fde;
use crate::fre::{ATTRIBUTE_SIZE, Attributes, FdeType, PauthKey, PcType};
use crate::short::{ShortRow, ShortRows};
use crate::version::Version;
use alloc::vec::Vec;

/// A function as a blob stores it, whose rows may be in the form that the encoder writes.
pub(super) struct Stored<'data> {
    /// What the encoder writes for it, if the starts of its rows are no wider than necessary.
    pub encoded: Encoded,
    /// The FRE sub-section from its attribute on.
    pub bytes: &'data [u8],
    rows: ShortRows<'data>,
}

/// A function that needs no encoding.
pub(super) struct Copied<'data> {
    pub encoded: Encoded,
    /// Attribute and rows as stored.
    bytes: &'data [u8],
    last_start: u32,
    /// The rows, if their starts must become narrower.
    wide: Option<ShortRows<'data>>,
}

impl<'data> Stored<'data> {
    /// The function. `None`: the encoder might write other rows for it.
    pub fn of(options: Options, blob: &Blob<'data>, fde: &Fde, attributes: &Attributes) -> Option<Self> {
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
        let stored = info(attributes);
        if attributes.fde_type != FdeType::Default
            || attributes.pc_type != PcType::Increment
            || attributes.fre_count == 0
            || bytes.get(2..ATTRIBUTE_SIZE)? != [stored, 0, 0]
            || stored & 0x20 != 0 && !options.abi.is_aarch64()
        {
            return None;
        }
        let rows = blob.fres(attributes).short_rows();
        Some(Stored {
            encoded: Encoded { fre_count: attributes.fre_count, info: stored, repeat_size: 0 },
            bytes,
            rows,
        })
    }

    /// The same after a walk over its rows. `size` is that of the function. `None`: the encoder might write
    /// other rows for it.
    pub fn walk(self, options: Options, size: u32) -> Option<Copied<'data>> {
        let Stored { encoded, bytes, rows } = self;
        let (end, last_start) = walk(options, rows.clone(), size)?;
        let bytes = bytes.get(..ATTRIBUTE_SIZE + end.checked_sub(rows.position)?)?;
        let width_code = width_code_for(last_start);
        let is_wide = width_code < encoded.info & 3;
        let encoded = Encoded { info: encoded.info & !3 | width_code, ..encoded };
        Some(Copied { encoded, bytes, last_start, wide: is_wide.then_some(rows) })
    }
}

impl<'data> Copied<'data> {
    /// The start of its last row, if the encoder writes its bytes as they are stored.
    pub fn last_start_as_stored(&self) -> Option<u32> {
        self.wide.is_none().then_some(self.last_start)
    }

    /// Attribute and rows. They are put into `memory` if they differ from the blob's bytes.
    pub fn bytes<'b>(&self, endian: Endian, memory: &'b mut Vec<u8>) -> &'b [u8]
    where
        'data: 'b,
    {
        let Some(rows) = self.wide.clone() else { return self.bytes };
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

/// The info byte of a V3 attribute.
fn info(attributes: &Attributes) -> u8 {
    let key = u8::from(attributes.pauth_key == PauthKey::B);
    // 0, 1, 2 for 1, 2, 4 bytes.
    attributes.start_width.trailing_zeros() as u8 | key << 5 | u8::from(attributes.signal) << 7
}

/// The end of the rows in the FRE sub-section, and the start of the last row. `None`: a row differs from what
/// the encoder would write in more than the width of its start, or it is not inside a function of `size`
/// bytes.
fn walk(options: Options, mut rows: ShortRows<'_>, size: u32) -> Option<(usize, u32)> {
    let mut previous: Option<ShortRow> = None;
    for row in rows.by_ref() {
        let row = row?;
        let adds =
            previous.is_none_or(|previous| row.start > previous.start && row.content != previous.content);
        if !adds || row.start >= size || !is_smallest(options.abi, &row) {
            return None;
        }
        previous = Some(row);
    }
    Some((rows.position, previous?.start))
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
