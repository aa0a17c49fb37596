//! Compressed sections (gABI, "Section Compression"; `.zdebug_*` as old GNU tools wrote them).
//!
//! A compressed section is declared when its object is indexed: a copy of the object's section
//! headers gives type, size and alignment of the unpacked contents, so that no later pass asks
//! whether a section came compressed. Only sections that are in the output are unpacked, when
//! liveness is known.

use super::object::{Malformed, ObjectFile};
use super::store::InputStore;
use crate::elf::consts as elf;
use crate::elf::{Chdr, Shdr, whole_table};
use flate2::{Decompress, FlushDecompress, Status};
use std::sync::OnceLock;
use zerocopy::byteorder::{BigEndian, ByteOrder, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// How contents are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A zlib stream (RFC 1950).
    Zlib,
    /// Zstandard frames (RFC 8878).
    Zstd,
}

impl Format {
    /// More bytes than this cannot come from one packed byte: a deflate stream spends a bit on
    /// 129 bytes at least; a Zstandard block of 4 bytes unpacks to 128 KiB at most.
    fn largest_ratio(self) -> u64 {
        match self {
            Format::Zlib => 1032,
            Format::Zstd => 32 << 10,
        }
    }
}

/// A compressed section of an object.
#[derive(Clone, Debug)]
pub struct Packed<'a> {
    /// Section header index.
    pub section: u32,
    /// How it is packed.
    pub format: Format,
    /// The packed bytes, without their header.
    pub packed: &'a [u8],
    /// Size unpacked, as the header says.
    pub size: u64,
    /// The contents, once they are unpacked.
    pub bytes: OnceLock<&'a [u8]>,
}

impl Packed<'_> {
    /// Whether so many bytes can have been packed into these.
    pub fn is_plausible(&self) -> bool {
        self.size <= (self.packed.len() as u64).saturating_mul(self.format.largest_ratio())
    }
}

/// Finds compressed sections and puts their unpacked size and alignment into the object's headers.
/// Gives the sections whose compression header is wrong, with the error.
pub fn declare<'a, E: ByteOrder>(
    object: &mut ObjectFile<'a, E>,
    store: &'a InputStore,
) -> Vec<(u32, Malformed)> {
    let mut findings = Vec::new();
    let mut found: Vec<(Packed<'a>, u64)> = Vec::new();
    for (index, header) in object.headers.iter().enumerate() {
        let packed = if header.sh_flags.get() & u64::from(elf::SHF_COMPRESSED) != 0 {
            Some(with_header(object, index))
        } else if object.section_name(index).starts_with(b".zdebug_") {
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

/// A section with `SHF_COMPRESSED`, and its alignment unpacked.
fn with_header<'a, E: ByteOrder>(
    object: &ObjectFile<'a, E>,
    index: usize,
) -> Result<(Packed<'a>, u64), Malformed> {
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
        Packed { section: index as u32, format, packed, size, bytes: OnceLock::new() },
        header.ch_addralign.get(),
    ))
}

/// A `.zdebug_*` section: `ZLIB`, the size as eight big-endian bytes, a zlib stream. One without
/// that start is not compressed.
fn old_style<'a, E: ByteOrder>(object: &ObjectFile<'a, E>, index: usize) -> Option<Packed<'a>> {
    let rest = object.section_bytes(index).ok()?.strip_prefix(b"ZLIB")?;
    let (size, packed) = rest.split_first_chunk::<8>()?;
    let size = U64::<BigEndian>::from_bytes(*size).get();
    Some(Packed { section: index as u32, format: Format::Zlib, packed, size, bytes: OnceLock::new() })
}

fn check_size<E: ByteOrder>(packed: &Packed<'_>, header: &Shdr<E>) -> Result<(), Malformed> {
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

/// Gives the object headers of its own, in which nothing is compressed. Old names (`.zdebug_info`)
/// become new ones behind a copy of the name table.
fn rewrite_headers<'a, E: ByteOrder>(
    object: &mut ObjectFile<'a, E>,
    store: &'a InputStore,
    found: &[(Packed<'a>, u64)],
) {
    let mut headers = object.headers.to_vec();
    let mut names = Vec::new();
    for (packed, align) in found {
        let index = packed.section as usize;
        let header = &mut headers[index];
        header.sh_size.set(packed.size);
        header.sh_addralign.set(*align);
        let flags = header.sh_flags.get();
        if flags & u64::from(elf::SHF_COMPRESSED) != 0 {
            header.sh_flags.set(flags & !u64::from(elf::SHF_COMPRESSED));
            continue;
        }
        if names.is_empty() {
            names = object.section_names.to_vec();
        }
        // Section header indices and offsets are 32-bit, so the added names must fit them too.
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

/// Unpacks a section.
///
/// # Errors
/// A text that names the fault in the packed bytes.
pub fn unpack(packed: &Packed<'_>) -> Result<Vec<u8>, String> {
    let size = usize::try_from(packed.size).map_err(|_| too_large(packed))?;
    let mut out = Vec::new();
    // The size is plausible for the packed bytes (`check_size`), but may still be more than there
    // is memory.
    out.try_reserve_exact(size).map_err(|_| too_large(packed))?;
    match packed.format {
        Format::Zlib => inflate(packed.packed, size, &mut out)?,
        Format::Zstd => {
            let mut decompressor = zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?;
            decompressor
                .decompress_to_buffer(packed.packed, &mut out)
                .map_err(|error| format!("bad zstd data: {error}"))?;
        }
    }
    if out.len() == size {
        return Ok(out);
    }
    Err(format!("the data unpack to {:#x} bytes, the header says {:#x}", out.len(), packed.size))
}

fn too_large(packed: &Packed<'_>) -> String {
    format!("there is no memory for {:#x} bytes", packed.size)
}

/// Unpacks zlib streams that follow one another until `size` bytes are there.
fn inflate(mut packed: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let mut state = Decompress::new(true);
    loop {
        let before = state.total_in();
        let status = state
            .decompress_vec(packed, out, FlushDecompress::Finish)
            .map_err(|error| format!("bad zlib data: {error}"))?;
        packed = &packed[(state.total_in() - before) as usize..];
        match status {
            Status::StreamEnd if out.len() < size && !packed.is_empty() => state.reset(true),
            Status::StreamEnd => return Ok(()),
            _ if out.len() == size => return Err("the data unpack to more than the header says".into()),
            _ => return Err("the zlib data end too early".into()),
        }
    }
}

#[cfg(test)]
mod tests;
