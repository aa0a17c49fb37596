//! Writes a sorted index in front of blobs that stay as they are: one V3 header with an FDE array. Its FRE
//! sub-section is everything that follows, so its FDEs lead to the rows inside the blobs.

use alloc::vec::Vec;

use super::Options;
use crate::blob::{Blob, Piece, Section};
use crate::error::{Error, ErrorKind};
use crate::header::{HEADER_SIZE, Header};
use crate::patch::BlobMut;
use crate::version::{Flags, Version};

/// How much of a section an index covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlaid {
    /// Functions in the index.
    pub functions: u32,
    /// Blobs whose functions are in it.
    pub blobs: u32,
    /// Pieces of the section that it omits: blobs of another form, corrupt blobs, gaps.
    pub others: u32,
}

/// Whether an index can take the functions of a blob: its rows mean the same under the index's header, and a
/// strict reader can read all of them. The index takes a corrupt blob not even in part, because a half-read
/// blob would give two answers. This function reads the whole blob.
pub fn takes(options: Options, blob: &Blob<'_>) -> bool {
    let header = blob.header();
    header.version == Version::V3
        && header.unit_distance == 0
        && header.abi == options.abi
        && (header.fixed_fp_offset, header.fixed_ra_offset) == (0, options.abi.fixed_ra_offset())
        && blob.strict().check().is_ok()
}

/// Size in bytes of an index with this many functions.
pub const fn overlay_size(functions: usize) -> usize {
    HEADER_SIZE + functions * Version::V3.fde_size()
}

/// A function of one of the blobs: address, size, offset of its attribute, number of rows.
type Entry = (u64, u32, usize, u32);

/// Writes an index into the first `room` bytes of a section at `address`, over all later blobs that it
/// [`takes`]. It omits functions without bytes. If several functions start at one address, it takes the
/// largest. Zeros fill the rest of the room.
///
/// # Errors
/// [`ErrorKind::Truncated`]: there is too little room, or the section is shorter than `room`.
/// [`ErrorKind::StartRange`]: rows are more than 4 GiB away. The section is unchanged after an error.
pub fn write_overlay(
    options: Options,
    section: &mut [u8],
    address: u64,
    room: usize,
) -> Result<Overlaid, Error> {
    let truncated = |what: &'static str, needed: usize, available: usize| {
        Error::new(0, ErrorKind::Truncated { what, needed: needed as u64, available: available as u64 })
    };
    let rest =
        section.get(room..).ok_or_else(|| truncated("room for a function index", room, section.len()))?;
    let (entries, end, mut found) = read(options, rest, address.wrapping_add(room as u64));
    let needed = overlay_size(entries.len());
    if needed > room {
        return Err(truncated("function index", needed, room));
    }
    let too_far = Error::new(0, ErrorKind::StartRange { distance: (room + end) as i64, width: 4 });
    let fre_length = u32::try_from(room + end - needed).map_err(|_| too_far)?;
    let (index, _) = section.split_at_mut(room);
    index.fill(0);
    let header = Header {
        version: Version::V3,
        endian: options.abi.endian(),
        flags: Flags::FIELD_RELATIVE.with(Flags::SORTED, true),
        abi: options.abi,
        fixed_fp_offset: 0,
        fixed_ra_offset: options.abi.fixed_ra_offset(),
        auxiliary_length: 0,
        fde_count: entries.len() as u32,
        fre_count: entries.iter().fold(0, |sum: u32, entry| sum.wrapping_add(entry.3)),
        fre_length,
        fde_offset: 0,
        fre_offset: (needed - HEADER_SIZE) as u32,
        unit_distance: 0,
    };
    let endian = options.abi.endian();
    let fdes = index[HEADER_SIZE..needed].chunks_exact_mut(Version::V3.fde_size());
    for (fde, &(_, size, attribute, _)) in fdes.zip(&entries) {
        fde[8..12].copy_from_slice(&endian.u32_bytes(size));
        fde[12..16].copy_from_slice(&endian.u32_bytes((room + attribute - needed) as u32));
    }
    index[..HEADER_SIZE].copy_from_slice(&header.to_bytes());
    let mut blob = BlobMut::parse(section, address)?;
    for (index, &(start, ..)) in (0..).zip(&entries) {
        blob.set_function_start(index, start)?;
    }
    found.functions = entries.len() as u32;
    Ok(found)
}

/// The functions of all blobs that an index can take, by address; the end of the last such blob; and the
/// numbers of blobs and other pieces.
fn read(options: Options, bytes: &[u8], address: u64) -> (Vec<Entry>, usize, Overlaid) {
    let (mut entries, mut end, mut found) = (Vec::new(), 0, Overlaid::default());
    for piece in Section::new(bytes, address).pieces() {
        let Piece::Blob(blob) = piece else {
            found.others += 1;
            continue;
        };
        if !takes(options, &blob) {
            found.others += 1;
            continue;
        }
        found.blobs += 1;
        end = blob.offset() + blob.data().len();
        for fde in blob.fdes().filter(|fde| fde.size > 0) {
            // The blob has been checked, so it has attributes.
            let Ok(attributes) = blob.attributes(&fde) else { continue };
            let attribute = blob.fre_area_offset() + fde.fre_offset as usize;
            entries.push((fde.address, fde.size, attribute, attributes.fre_count));
        }
    }
    entries.sort_by_key(|&(start, size, ..)| (start, core::cmp::Reverse(size)));
    entries.dedup_by_key(|entry| entry.0);
    (entries, end, found)
}
