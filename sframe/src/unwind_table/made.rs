//! Makes the table that a finished file could have instead of its `.eh_frame`.

use super::sections::Sections;
use sframe_format::Endian;
use sframe_format::cfi::CfiFunction;
use sframe_format::compact::{Handler, Personality, write_whole_table};
use sframe_format::derive::{CfiReader, Pointer};
use sframe_format::write::{Inexpressible, LeftOut, Written};
use std::collections::{BTreeMap, HashMap};

/// Bytes of an entry of `.eh_frame_hdr`, and of what stands before them.
const ROW: u64 = 8;
const HEADER: u64 = 12;

/// A table, and what it cannot say.
pub struct Made {
    pub bytes: Vec<u8>,
    pub address: u64,
    /// Frames that stay, by reason.
    pub kept: BTreeMap<String, u64>,
    /// Their bytes, with those of one CIE for each reason, the header and the terminator.
    pub kept_size: u64,
}

/// The table for a file.
///
/// # Errors
/// The functions do not fit a table.
pub fn table(sections: &Sections<'_>) -> Result<Made, String> {
    let (bytes, address) = (&*sections.eh_frame.0, sections.eh_frame.1);
    let endian = sections.abi.endian();
    let mut reader = CfiReader::new(sections.abi, bytes, address);
    let mut functions: Vec<(u64, CfiFunction, Option<Handler>)> = Vec::new();
    let mut offsets: HashMap<u64, usize> = HashMap::new();
    let mut kept: BTreeMap<String, u64> = BTreeMap::new();
    let mut kept_size = 0;
    let mut keep = |offset: usize, reason: String| {
        *kept.entry(reason).or_default() += 1;
        kept_size += ROW + 4 + u64::from(endian.read_u32(bytes, offset).unwrap_or(0));
    };
    for offset in reader.offsets() {
        match reader.read(offset) {
            Ok(None) => {}
            Ok(Some(read)) if read.function.size == 0 => {}
            Ok(Some(read)) => {
                let pointer = |pointer: Pointer| value(endian, bytes, address, &pointer);
                let handler = read.personality.map(|personality| Handler {
                    personality: Personality {
                        address: pointer(personality).unwrap_or(0),
                        indirect: personality.encoding.is_indirect(),
                    },
                    lsda: read.lsda.and_then(pointer),
                });
                offsets.entry(read.start).or_insert(offset);
                functions.push((read.start, encoded(read.function, handler), handler));
            }
            Err(reason) => keep(offset, reason.to_string()),
        }
    }
    // Of two functions at one address, the first counts.
    functions.sort_by_key(|function| function.0);
    functions.dedup_by_key(|function| function.0);
    // Near enough for all distances, whatever the file has there.
    let Written { bytes, left_out } =
        write_whole_table(sections.abi, address, &functions).map_err(|error| error.to_string())?;
    for (place, reason) in left_out {
        let reason = match reason {
            LeftOut::Inexpressible(Inexpressible { reason, .. }) => reason.to_string(),
            other => other.to_string(),
        };
        keep(offsets[&functions[place].0], reason);
    }
    let rest = if kept_size == 0 { 0 } else { HEADER + 4 + 24 * kept.len() as u64 };
    Ok(Made { bytes, address, kept, kept_size: kept_size + rest })
}

/// Only landing pads need the sizes of arguments, and only functions with language-specific data have any.
fn encoded(function: &CfiFunction, handler: Option<Handler>) -> CfiFunction {
    let mut function = function.clone();
    if handler.is_none_or(|handler| handler.lsda.is_none()) {
        function.rows.iter_mut().for_each(|row| row.args_size = 0);
        function.rows.dedup_by(|row, before| row.says_same(before));
    }
    function
}

/// What a pointer of a linked file leads to, or if it is indirect, where the pointer to that is. `None`: it
/// is null.
fn value(endian: Endian, data: &[u8], address: u64, pointer: &Pointer) -> Option<u64> {
    let at = pointer.offset;
    let value = match pointer.encoding.format() {
        gimli::DW_EH_PE_absptr | gimli::DW_EH_PE_udata8 | gimli::DW_EH_PE_sdata8 => {
            endian.read_i64(data, at)? as u64
        }
        gimli::DW_EH_PE_udata4 => endian.read_u32(data, at)?.into(),
        gimli::DW_EH_PE_sdata4 => i64::from(endian.read_i32(data, at)?) as u64,
        _ => return None,
    };
    if value == 0 {
        return None;
    }
    let place = address.wrapping_add(at as u64);
    let base = if pointer.encoding.application() == gimli::DW_EH_PE_pcrel { place } else { 0 };
    Some(base.wrapping_add(value))
}
