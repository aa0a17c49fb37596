//! Compresses debug sections (`--compress-debug-sections`).
//!
//! Their contents depend on addresses, and how far they shrink decides where things stand in the
//! file; addresses do not depend on that, since debug sections are not loaded. So they are written
//! here, between layout and the output, one after the other to need memory for one at a time.

use super::lay_out;
use super::write_output::write_chunk;
use crate::arch::Target;
use crate::cli::CompressDebug;
use crate::elf::consts as elf;
use crate::ids::ChunkId;
use crate::link::Link;
use crate::output::compress;

/// Fills [`Link::compressed`]. A section that would not shrink stays as it is.
pub fn run<T: Target>(link: &mut Link<'_, T>) {
    let kind = link.config.strip.compress_debug;
    if kind == CompressDebug::None {
        return;
    }
    for index in 0..link.layout.chunks.len() {
        let id = ChunkId::from_index(index);
        let chunk = &link.layout.chunks[index];
        if chunk.size == 0 || !compress::is_compressible(chunk.name, chunk.flags) {
            continue;
        }
        let mut contents = vec![0; chunk.file_size() as usize];
        write_chunk(link, id, &mut contents);
        let Some(packed) = compress::compress::<T::E>(kind, &contents, chunk.align) else { continue };
        let store = link.store;
        let chunk = &mut link.layout.chunks[index];
        chunk.size = packed.len() as u64;
        chunk.align = compress::alignment(kind);
        match kind {
            CompressDebug::ZlibGnu => chunk.name = store.keep(compress::old_name(chunk.name)),
            _ => chunk.flags |= u64::from(elf::SHF_COMPRESSED),
        }
        link.compressed.insert(id, packed);
    }
    if !link.compressed.is_empty() {
        lay_out::assign_file_offsets(link);
    }
}
