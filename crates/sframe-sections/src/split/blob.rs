//! Copies some functions of a blob into a new blob.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sframe_format::header::HEADER_SIZE;
use sframe_format::{Blob, Error, ErrorKind, Fde, Flags, Header, Version};

/// Appends a blob with the functions `indices` of another blob to `out`, in this order. Version, ABI and rows
/// stay the same, byte for byte, and functions that share rows still share them. Start fields are copied, and
/// relocations must fill them. Returns the new header.
///
/// The blob is not marked sorted. In V2 and V3, starts count from their fields, because relocations compute
/// them that way. GNU as before 2.45 does not set the flag for that, but this sets it. So the blob is right
/// if a linker only applies relocations.
///
/// # Errors
/// A function's attribute or rows are malformed.
pub fn extract(
    blob: &Blob<'_>,
    indices: impl ExactSizeIterator<Item = u32>,
    out: &mut Vec<u8>,
) -> Result<Header, Error> {
    let old = blob.header();
    let version = old.version;
    let start = out.len();
    let count = indices.len();
    let entries = start + HEADER_SIZE;
    let rows = entries + count * version.fde_size();
    out.resize(rows, 0);
    let mut rows_of =
        RowBytes { blob, placed: HashMap::default(), several: count > 1, fre_count: 0, area: rows };
    for (entry, index) in (entries..).step_by(version.fde_size()).zip(indices) {
        let kind = ErrorKind::FdeIndex { index, count: old.fde_count };
        let fde = blob.fde(index).ok_or(Error { offset: blob.offset(), kind })?;
        let offset = rows_of.copy(&fde, out)?;
        let position = fde.offset - blob.offset();
        let bytes = blob.data().get(position..position + version.fde_size()).unwrap_or_default();
        out[entry..entry + bytes.len()].copy_from_slice(bytes);
        let field = entry + usize::from(version.start_width()) + 4;
        out[field..field + 4].copy_from_slice(&old.endian.u32_bytes(offset));
    }
    let mut flags = old.flags.with(Flags::SORTED, false);
    if version != Version::V1 {
        flags = flags.with(Flags::FIELD_RELATIVE, true);
    }
    let header = Header {
        flags,
        auxiliary_length: 0,
        fde_count: count as u32,
        fre_count: rows_of.fre_count,
        fre_length: (out.len() - rows) as u32,
        fde_offset: 0,
        fre_offset: (rows - entries) as u32,
        ..*old
    };
    out[start..entries].copy_from_slice(&header.to_bytes());
    Ok(header)
}

/// The rows of the functions that were copied.
struct RowBytes<'b, 'data> {
    blob: &'b Blob<'data>,
    /// New offset of rows, by old offset, so that functions still share their rows.
    placed: HashMap<u32, u32, FixedState>,
    /// Whether there is more than one function, so that rows may be shared.
    several: bool,
    fre_count: u32,
    /// Where the new sub-section starts in the output.
    area: usize,
}

impl RowBytes<'_, '_> {
    /// Copies the rows of a function, unless they have been copied. Returns their offset in the new
    /// sub-section.
    fn copy(&mut self, fde: &Fde, out: &mut Vec<u8>) -> Result<u32, Error> {
        let attributes = self.blob.attributes(fde)?;
        self.fre_count = self.fre_count.wrapping_add(attributes.fre_count);
        let mut fres = self.blob.fres(&attributes);
        for fre in fres.by_ref() {
            fre?;
        }
        let bytes = self.blob.fre_bytes().get(fde.fre_offset as usize..fres.position()).unwrap_or_default();
        let offset = (out.len() - self.area) as u32;
        if !self.several {
            out.extend_from_slice(bytes);
            return Ok(offset);
        }
        let placed = *self.placed.entry(fde.fre_offset).or_insert(offset);
        let known = out.get(self.area + placed as usize..).unwrap_or_default();
        if placed != offset && known.starts_with(bytes) {
            return Ok(placed);
        }
        out.extend_from_slice(bytes);
        Ok(offset)
    }
}
