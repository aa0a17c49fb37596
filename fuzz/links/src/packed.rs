//! Compressed sections (gABI, "Section Compression"; `.zdebug_*` as old GNU tools wrote them).

use crate::damage::EDGES;
use crate::sections::Bytes;
use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;
use ld_compare::model::Section;
use object::elf;
use std::io::Write;

/// Compresses some of the sections, mostly those that compilers' tools compress.
pub fn some(from: &mut Unstructured<'_>, machine: Machine, sections: &mut [Section]) -> Result<()> {
    for section in sections {
        let is_fit = section.flags & u64::from(elf::SHF_ALLOC) == 0 && !section.data.is_empty();
        // Contents that are loaded may not be compressed.
        let chosen = if is_fit { from.int_in_range(0..=3)? != 0 } else { from.int_in_range(0..=31)? == 31 };
        if chosen {
            pack(from, machine, section)?;
        }
    }
    Ok(())
}

fn pack(from: &mut Unstructured<'_>, machine: Machine, section: &mut Section) -> Result<()> {
    let mut size = section.data.len() as u64;
    let style = from.int_in_range(0..=4)?;
    let data = if style < 3 {
        zlib(&section.data)
    } else {
        zstd::bulk::compress(&section.data, 1).unwrap_or_default()
    };
    if from.int_in_range(0..=31)? == 31 {
        size = *from.choose(&EDGES)?;
    }
    let debug = section.name.strip_prefix(".debug_").filter(|_| style == 0);
    if let Some(name) = debug {
        section.data = [b"ZLIB".as_slice(), &size.to_be_bytes(), &data].concat();
        section.name = format!(".zdebug_{name}");
    } else {
        let kind = if style < 3 { elf::ELFCOMPRESS_ZLIB } else { elf::ELFCOMPRESS_ZSTD };
        let mut bytes = Bytes { machine, bytes: Vec::new() };
        bytes.number(kind.into(), 4).number(0, 4).number(size, 8).number(section.align, 8);
        bytes.bytes.extend(data);
        section.data = bytes.bytes;
        section.flags |= u64::from(elf::SHF_COMPRESSED);
        section.align = 8;
    }
    section.size = section.data.len() as u64;
    Ok(())
}

/// A zlib stream.
fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = encoder.write_all(data).and_then(|()| encoder.finish());
    written.expect("memory takes all that is written")
}
