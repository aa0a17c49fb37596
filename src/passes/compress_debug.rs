//! Compresses sections that are not loaded (`--compress-debug-sections`, `--compress-sections`).
//!
//! Their contents depend on addresses, and their compressed sizes decide file offsets. No address depends on
//! these sizes, because the sections are not loaded. So this pass writes their contents between layout and
//! output. It takes one section after the other, so that memory holds only one uncompressed section at a
//! time.

use super::write_output::write_chunk;
use crate::arch::Target;
use crate::cli::CompressDebug;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::ChunkId;
use crate::output::compress;
use crate::phase::{FileSection, Inputs, Placed};
use crate::region::Region;
use memmap2::MmapMut;
use std::io::{self, ErrorKind};

/// Returns the compressed contents of the sections that shrink, by [`ChunkId`], and changes their headers in
/// `sections`. A section that would not shrink stays uncompressed.
pub fn run<'a, T: Target>(link: &Placed<'a, T>, sections: &mut [FileSection<'a>]) -> Vec<Option<Vec<u8>>> {
    let options = &link.config.strip;
    if options.compress_debug.format == CompressDebug::None && options.compress_sections.is_empty() {
        return vec![None; sections.len()];
    }
    let compress = |(index, section)| compress_section(link, ChunkId::from_index(index), section);
    sections.iter_mut().enumerate().map(compress).collect()
}

fn compress_section<'a, T: Target>(
    link: &Placed<'a, T>,
    id: ChunkId,
    section: &mut FileSection<'a>,
) -> Option<Vec<u8>> {
    let method = compress::method(&link.config.strip, section.name, section.flags);
    if method.format == CompressDebug::None {
        return None;
    }
    if is_alloc(section.flags) {
        report_loaded(link, section.name);
        return None;
    }
    if is_table(section.sh_type) || section.file_size() == 0 {
        return None;
    }
    let mut contents = memory(link, section)?;
    write_chunk(link, id, Region::of_memory(&mut contents));
    let packed = compress::compress::<T::E>(method, &contents, section.align)?;
    section.size = packed.len() as u64;
    section.align = compress::alignment(method.format);
    match method.format {
        CompressDebug::ZlibGnu => section.name = link.store.keep(compress::old_name(section.name)),
        _ => section.flags |= elf::SHF_COMPRESSED,
    }
    Some(packed)
}

/// Zeros of a section's size, which take no memory before something is written to them; `None` after an
/// error. Nothing bounds the size: zeros of an input (`SHT_NOBITS`) that stand beside contents are contents,
/// too.
fn memory<T: Target>(link: &Inputs<'_, T>, section: &FileSection<'_>) -> Option<MmapMut> {
    let size = section.file_size();
    let mapped = usize::try_from(size).map_err(|_| ErrorKind::OutOfMemory.into()).and_then(MmapMut::map_anon);
    let report = |error: io::Error| {
        let name = String::from_utf8_lossy(section.name);
        let message =
            format!("no memory for section '{name}' of {size} bytes, which is to be compressed: {error}");
        let help = format!("--compress-sections={name}=none writes it to the file as it is");
        link.sink.report(Diagnostic::error(Code::LayoutError, message).help(help));
    };
    mapped.map_err(report).ok()
}

/// Whether a section is a table of the file format. Readers expect these tables uncompressed, and those of
/// symbols and names get their sizes only after this pass.
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

/// Reports a loaded section. By the gABI, a section never has both `SHF_COMPRESSED` and `SHF_ALLOC`. Only
/// `--compress-sections` can name a loaded section.
fn report_loaded<T: Target>(link: &Inputs<'_, T>, name: &[u8]) {
    let name = String::from_utf8_lossy(name);
    let message =
        format!("--compress-sections: section '{name}' is loaded (SHF_ALLOC), so it cannot be compressed");
    link.sink.report(Diagnostic::error(Code::BadOption, message).help(format!(
        "add --compress-sections={name}=none behind it, or name only sections that are not loaded"
    )));
}
