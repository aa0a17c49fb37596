//! Packs debug sections (`--compress-debug-sections`).
//!
//! A packed section's size is known only when its bytes are; so debug sections, which have no
//! addresses, are written here into memory, packed, and given new places in the file.

use crate::arch::Target;
use crate::cli::CompressDebug;
use crate::elf::consts as elf;
use crate::ids::ChunkId;
use crate::layout::file_offsets;
use crate::link::Link;
use crate::output::compress;
use crate::passes::write_output::write_chunk;
use rayon::prelude::*;

/// Packs every debug section that gets smaller by it.
pub fn run<T: Target>(link: &mut Link<'_, T>) {
    let kind = link.config.strip.compress_debug;
    if kind == CompressDebug::None || link.config.is_relocatable() {
        return;
    }
    let shared = &*link;
    let packed: Vec<(ChunkId, Vec<u8>)> = shared
        .layout
        .chunks
        .par_iter()
        .enumerate()
        .filter(|(_, chunk)| chunk.size > 0 && compress::is_compressible(chunk.name, chunk.flags))
        .filter_map(|(index, chunk)| {
            let id = ChunkId::from_index(index);
            let mut contents = vec![0; usize::try_from(chunk.size).ok()?];
            write_chunk(shared, id, &mut contents);
            Some((id, compress::compress::<T::E>(kind, &contents, chunk.align)?))
        })
        .collect();
    if packed.is_empty() {
        return;
    }
    for (id, bytes) in packed {
        let chunk = &mut link.layout.chunks[id.index()];
        chunk.size = bytes.len() as u64;
        chunk.align = compress::alignment(kind);
        if kind == CompressDebug::ZlibGnu {
            chunk.name = link.store.keep(compress::old_name(chunk.name));
        } else {
            chunk.flags |= u64::from(elf::SHF_COMPRESSED);
        }
        // What it was an array of is no longer visible.
        chunk.flags &= !u64::from(elf::SHF_MERGE | elf::SHF_STRINGS);
        chunk.entsize = 0;
        link.compressed.insert(id, bytes);
    }
    crate::synth::settle_tables(link);
    file_offsets::assign(link);
}
