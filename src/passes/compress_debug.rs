//! Compresses sections that are not loaded (`--compress-debug-sections`, `--compress-sections`).
//!
//! Their contents depend on addresses, and how far they shrink decides where things stand in the
//! file; addresses do not depend on that, since these sections are not loaded. So they are written
//! here, between layout and the output, one after the other to need memory for one at a time.

use super::lay_out;
use super::write_output::write_chunk;
use crate::arch::Target;
use crate::cli::CompressDebug;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::ChunkId;
use crate::link::Link;
use crate::output::compress;

/// Fills [`Link::compressed`]. A section that would not shrink stays as it is.
pub fn run<T: Target>(link: &mut Link<'_, T>) {
    let options = &link.config.strip;
    if options.compress_debug == CompressDebug::None && options.compress_sections.is_empty() {
        return;
    }
    for index in 0..link.layout.chunks.len() {
        let id = ChunkId::from_index(index);
        let chunk = &link.layout.chunks[index];
        let method = compress::method(options, chunk.name, chunk.flags);
        let kind = method.kind;
        if kind == CompressDebug::None {
            continue;
        }
        if is_alloc(chunk.flags) {
            report_loaded(link, chunk.name);
            continue;
        }
        if is_table(chunk.sh_type) || chunk.file_size() == 0 {
            continue;
        }
        let mut contents = vec![0; chunk.file_size() as usize];
        write_chunk(link, id, &mut contents);
        let Some(packed) = compress::compress::<T::E>(method, &contents, chunk.align) else { continue };
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

/// Tables that readers look for as they are, and that are settled again after this pass.
fn is_table(sh_type: u32) -> bool {
    matches!(
        sh_type,
        elf::SHT_SYMTAB
            | elf::SHT_STRTAB
            | elf::SHT_SYMTAB_SHNDX
            | elf::SHT_RELA
            | elf::SHT_REL
            | elf::SHT_GROUP
    )
}

/// gABI, `SHF_COMPRESSED`: never together with `SHF_ALLOC`. Only `--compress-sections` can ask.
fn report_loaded<T: Target>(link: &Link<'_, T>, name: &[u8]) {
    let name = String::from_utf8_lossy(name);
    let message =
        format!("--compress-sections: section '{name}' is loaded (SHF_ALLOC), so it cannot be compressed");
    link.sink.report(Diagnostic::error(Code::BadOption, message).help(format!(
        "add --compress-sections={name}=none behind it, or name only sections that are not loaded"
    )));
}
