//! Sections of ELF files that may be compressed.

use crate::bytes::Bytes;
use lzma_rust2::XzReader;
use object::{CompressionFormat, Object, ObjectSection};
use std::io::Read;

/// The largest size of an expanded section, as a multiple of its compressed size. zlib shrinks nothing
/// further.
const MAX_EXPANSION: u64 = 1032;
/// What xz may expand to, and what it may use for that, in KiB. Its strongest setting needs 65 MiB.
const MAX_EXPANDED: u64 = 1 << 30;
const MAX_XZ_MEMORY: u32 = 160 << 10;

/// A section of a file, expanded if it is compressed. `None`: there is none, or it is malformed.
pub fn section(bytes: &Bytes, file: &object::File<'_>, name: &str) -> Option<Bytes> {
    let section = file.section_by_name(name)?;
    let compressed = section.compressed_data().ok()?;
    if compressed.format == CompressionFormat::None {
        return bytes.part(compressed.data).filter(|part| !part.is_empty());
    }
    let most = (compressed.data.len() as u64).saturating_mul(MAX_EXPANSION);
    let expanded = (compressed.uncompressed_size <= most).then(|| compressed.decompress().ok())??;
    Some(expanded.into_owned().into())
}

/// The file that is compressed into `.gnu_debugdata`: it has the symbols that the file itself lacks
/// ("MiniDebugInfo", <https://sourceware.org/gdb/current/onlinedocs/gdb.html/MiniDebugInfo.html>).
pub fn mini_debug_file(bytes: &Bytes) -> Option<Bytes> {
    let file = object::File::parse(&**bytes).ok()?;
    let packed = section(bytes, &file, ".gnu_debugdata")?;
    let mut expanded = Vec::new();
    let mut reader = XzReader::new_mem_limit(&*packed, false, MAX_XZ_MEMORY).take(MAX_EXPANDED);
    reader.read_to_end(&mut expanded).ok()?;
    Some(expanded.into())
}
