//! Functions whose bytes can stay as they are.
//!
//! Most functions that a linker reads are V3 rows of a current assembler, and encoding what was decoded from them gives
//! the same bytes back. [`canonical`] tells so from a walk over the rows that decodes none of them, which costs a
//! small part of the two. It says yes only where that is certain: the rest is decoded and encoded.

use super::encode::Encoded;
use super::{ATTRIBUTE_SIZE, Options};
use crate::abi::Abi;
use crate::blob::Blob;
use crate::endian::Endian;
use crate::fde::Fde;
use crate::fre::{Attributes, FdeType, Fre, PcType};
use crate::header::Version;

/// The attribute and row bytes of a function, if they are those that the encoder would write for it.
pub(super) fn canonical<'data>(
    options: Options,
    blob: &Blob<'data>,
    fde: &Fde,
) -> Option<(Encoded, &'data [u8])> {
    let header = blob.header();
    let same_form = options.version == Version::V3
        && header.version == Version::V3
        && header.abi == options.abi
        && header.fixed_fp_offset == 0
        && header.fixed_ra_offset == options.abi.fixed_ra_offset();
    // s390x gives some words a meaning of their own.
    if !same_form || options.abi == Abi::S390x {
        return None;
    }
    let attributes = blob.attributes(fde).ok()?;
    let info = info(&attributes);
    let bytes = blob.fre_bytes().get(fde.fre_offset as usize..)?;
    if attributes.fde_type != FdeType::Default
        || attributes.pc_type != PcType::Increment
        || attributes.fre_count == 0
        || bytes.get(2..ATTRIBUTE_SIZE)? != [info, 0, 0]
        || info & 0x20 != 0 && !options.abi.is_aarch64()
    {
        return None;
    }
    let end = rows_end(options, blob, fde, &attributes)?;
    let bytes = bytes.get(..end.checked_sub(fde.fre_offset as usize)?)?;
    Some((Encoded { fre_count: attributes.fre_count, info, repeat_size: 0 }, bytes))
}

/// The info byte of an attribute that says this and nothing else.
fn info(attributes: &Attributes) -> u8 {
    let key = u8::from(attributes.pauth_key == crate::fre::PauthKey::B);
    width_code(attributes.start_width) | key << 5 | u8::from(attributes.signal) << 7
}

/// 0, 1, 2 for 1, 2, 4 bytes.
fn width_code(width: u8) -> u8 {
    width.trailing_zeros() as u8
}

/// Where the rows end in the FRE sub-section, if each of them is as the encoder would write it.
fn rows_end(options: Options, blob: &Blob<'_>, fde: &Fde, attributes: &Attributes) -> Option<usize> {
    let mut rows = blob.fres(attributes);
    let mut previous: Option<Fre<'_>> = None;
    for row in rows.by_ref() {
        let row = row.ok()?;
        let adds = previous.is_none_or(|previous| {
            row.start > previous.start && (row.info, row.words) != (previous.info, previous.words)
        });
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
    (attributes.start_width == width).then(|| rows.position())
}

/// Whether a row of a default FDE has no surplus bits or words, and the smallest words that hold its values.
fn is_smallest(abi: Abi, row: &Fre<'_>) -> bool {
    let endian = abi.endian();
    let most = if abi.fixed_ra_offset() == 0 { 3 } else { 2 };
    match row.word_count() {
        0 => row.info == 0,
        count if count > most || row.info & 0x80 != 0 && !abi.is_aarch64() => false,
        _ => match row.word_size() {
            1 => true,
            2 => needs::<2>(row.words, |word| {
                let word = if endian == Endian::Little {
                    i16::from_le_bytes(word)
                } else {
                    i16::from_be_bytes(word)
                };
                i8::try_from(word).is_err()
            }),
            _ => needs::<4>(row.words, |word| {
                let word = if endian == Endian::Little {
                    i32::from_le_bytes(word)
                } else {
                    i32::from_be_bytes(word)
                };
                i16::try_from(word).is_err()
            }),
        },
    }
}

/// Whether some word needs its size.
fn needs<const SIZE: usize>(words: &[u8], is_wide: impl Fn([u8; SIZE]) -> bool) -> bool {
    words.as_chunks::<SIZE>().0.iter().any(|&word| is_wide(word))
}
