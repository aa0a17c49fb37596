//! Compressed sections (gABI, "Section Compression"; `.zdebug_*` as old GNU tools wrote them).
//!
//! When the linker indexes an object with compressed sections, it gives the object a copy of its section
//! headers, with the type, size and alignment of the unpacked contents. So no later pass needs to ask whether
//! a section was compressed. Only sections that are in the output are unpacked, once liveness is known.

use super::object::{Malformed, ObjectFile};
use crate::elf::consts as elf;
use crate::elf::{Chdr, Shdr, whole_table};
use files::store::InputStore;
use std::sync::OnceLock;
use zerocopy::byteorder::{BigEndian, ByteOrder, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

pub use super::packed::{CompressedSection, Format, unpack};

/// Finds compressed sections, and puts their unpacked size and alignment into the object's headers. Returns
/// the sections whose compression header is wrong, each with its error.
pub fn declare<'a, E: ByteOrder>(
    object: &mut ObjectFile<'a, E>,
    store: &'a InputStore,
) -> Vec<(u32, Malformed)> {
    let mut findings = Vec::new();
    let mut found: Vec<(CompressedSection<'a>, u64)> = Vec::new();
    for (index, header) in object.headers.iter().enumerate() {
        let flags = header.sh_flags.get();
        let packed = if flags & elf::SHF_COMPRESSED != 0 {
            Some(with_header(object, index))
        } else if flags & elf::SHF_ALLOC == 0
            && header.sh_type.get() == elf::SHT_PROGBITS
            && object.section_name_begins(index, b".zdebug_")
        {
            old_style(object, index).map(|packed| Ok((packed, header.sh_addralign.get())))
        } else {
            None
        };
        match packed {
            Some(Ok((packed, align))) => match check_size(&packed, header) {
                Ok(()) => found.push((packed, align)),
                Err(finding) => findings.push((index as u32, finding)),
            },
            Some(Err(finding)) => findings.push((index as u32, finding)),
            None => {}
        }
    }
    if !found.is_empty() {
        rewrite_headers(object, store, &found);
        object.packed = found.into_iter().map(|(packed, _)| packed).collect();
    }
    findings
}

/// Reads a section with `SHF_COMPRESSED`. Returns it with the alignment of its unpacked contents.
fn with_header<'a, E: ByteOrder>(
    object: &ObjectFile<'a, E>,
    index: usize,
) -> Result<(CompressedSection<'a>, u64), Malformed> {
    let offset = object.headers[index].sh_offset.get();
    let bytes = object.section_bytes(index)?;
    let (header, packed) = Chdr::<E>::ref_from_prefix(bytes).map_err(|_| {
        let size = bytes.len();
        Malformed::at(offset, format!("{size} bytes are too few for the header of a compressed section"))
    })?;
    let format = match header.ch_type.get() {
        elf::ELFCOMPRESS_ZLIB => Format::Zlib,
        elf::ELFCOMPRESS_ZSTD => Format::Zstd,
        other => {
            let what = format!("compression type {other} is not known; expected 1 (zlib) or 2 (zstd)");
            return Err(Malformed::at(offset, what));
        }
    };
    let size = header.ch_size.get();
    Ok((
        CompressedSection { section: index as u32, format, packed, size, bytes: OnceLock::new() },
        header.ch_addralign.get(),
    ))
}

/// Reads a `.zdebug_*` section: `ZLIB`, the size in eight big-endian bytes, and a zlib stream. A section that
/// does not start so is not compressed.
fn old_style<'a, E: ByteOrder>(object: &ObjectFile<'a, E>, index: usize) -> Option<CompressedSection<'a>> {
    let rest = object.section_bytes(index).ok()?.strip_prefix(b"ZLIB")?;
    let (size, packed) = rest.split_first_chunk::<8>()?;
    let size = U64::<BigEndian>::from_bytes(*size).get();
    Some(CompressedSection {
        section: index as u32,
        format: Format::Zlib,
        packed,
        size,
        bytes: OnceLock::new(),
    })
}

fn check_size<E: ByteOrder>(packed: &CompressedSection<'_>, header: &Shdr<E>) -> Result<(), Malformed> {
    if packed.is_plausible() {
        return Ok(());
    }
    Err(Malformed::at(
        header.sh_offset.get(),
        format!(
            "{} compressed bytes cannot unpack to {:#x} bytes, as the header says",
            packed.packed.len(),
            packed.size
        ),
    ))
}

/// Gives the object new headers, in which nothing is compressed. Old names such as `.zdebug_info` are
/// replaced; the new names stand behind a copy of the name table.
fn rewrite_headers<'a, E: ByteOrder>(
    object: &mut ObjectFile<'a, E>,
    store: &'a InputStore,
    found: &[(CompressedSection<'a>, u64)],
) {
    let mut headers = object.headers.to_vec();
    let mut names = Vec::new();
    for (packed, align) in found {
        let index = packed.section as usize;
        let header = &mut headers[index];
        header.sh_size.set(packed.size);
        header.sh_addralign.set(*align);
        let flags = header.sh_flags.get();
        if flags & elf::SHF_COMPRESSED != 0 {
            header.sh_flags.set(flags & !elf::SHF_COMPRESSED);
            continue;
        }
        if names.is_empty() {
            names = object.section_names.to_vec();
        }
        // Offsets into the name table have 32 bits, so the added names must fit that too.
        let Ok(offset) = u32::try_from(names.len()) else { continue };
        header.sh_name = U32::new(offset);
        names.push(b'.');
        names.extend(object.section_name(index).strip_prefix(b".z").unwrap_or_default());
        names.push(0);
    }
    object.headers = whole_table(store.keep(headers.as_bytes()));
    if !names.is_empty() {
        object.section_names = store.keep(names);
    }
}

#[cfg(test)]
mod tests;
