//! Some functions of a blob as a blob of their own.

use sframe_format::header::HEADER_SIZE;
use sframe_format::{Blob, Error, ErrorKind, Flags, Header, Version};
use std::collections::HashMap;

/// A blob with the functions `indices` of another one, in this order. Version, ABI and rows stay as they are, byte for
/// byte; functions that share rows go on sharing them. Start fields are copied as they are, for relocations to fill.
///
/// The blob is not marked sorted. In V2 its starts count from their fields, as relocations compute them, whatever GNU
/// as before 2.45 put into the flags: so the blob is right when a linker does no more than apply them.
///
/// # Errors
/// A function's attribute or rows are malformed.
pub fn extract(blob: &Blob<'_>, indices: &[u32]) -> Result<Vec<u8>, Error> {
    let old = blob.header();
    let (endian, version) = (old.endian, old.version);
    let rows_field = usize::from(version.start_width()) + 4;
    let mut entries = Vec::with_capacity(indices.len() * version.fde_size());
    let mut rows: Vec<u8> = Vec::new();
    let mut placed: HashMap<(u32, usize), u32> = HashMap::new();
    let mut fre_count = 0u32;
    for &index in indices {
        let kind = ErrorKind::FdeIndex { index, count: old.fde_count };
        let fde = blob.fde(index).ok_or(Error { offset: blob.offset(), kind })?;
        let attributes = blob.attributes(&fde)?;
        let mut fres = blob.fres(&attributes);
        for fre in fres.by_ref() {
            fre?;
        }
        let (start, end) = (fde.fre_offset as usize, fres.position());
        let bytes = blob.fre_bytes().get(start..end).unwrap_or_default();
        let offset = *placed.entry((fde.fre_offset, end)).or_insert_with(|| {
            let offset = rows.len() as u32;
            rows.extend_from_slice(bytes);
            offset
        });
        fre_count = fre_count.wrapping_add(attributes.fre_count);
        let position = fde.offset - blob.offset();
        let entry = entries.len();
        entries
            .extend_from_slice(blob.data().get(position..position + version.fde_size()).unwrap_or_default());
        let field = entry + rows_field..entry + rows_field + 4;
        if let Some(field) = entries.get_mut(field) {
            field.copy_from_slice(&endian.u32_bytes(offset));
        }
    }
    let mut flags = old.flags.with(Flags::SORTED, false);
    if version != Version::V1 {
        flags = flags.with(Flags::FIELD_RELATIVE, true);
    }
    let header = Header {
        flags,
        auxiliary_length: 0,
        fde_count: indices.len() as u32,
        fre_count,
        fre_length: rows.len() as u32,
        fde_offset: 0,
        fre_offset: entries.len() as u32,
        ..*old
    };
    let mut out = Vec::with_capacity(HEADER_SIZE + entries.len() + rows.len());
    out.extend_from_slice(&header.to_bytes());
    out.append(&mut entries);
    out.append(&mut rows);
    Ok(out)
}
