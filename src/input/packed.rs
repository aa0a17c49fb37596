//! The contents of compressed sections: their formats, and unpacking.

use flate2::{Decompress, FlushDecompress, Status};
use std::sync::OnceLock;

/// The compression format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A zlib stream (RFC 1950).
    Zlib,
    /// Zstandard frames (RFC 8878).
    Zstd,
}

impl Format {
    /// How many bytes one packed byte unpacks to at most. A bit of a deflate stream gives at most 129 bytes,
    /// because a match of 258 takes two bits. A Zstandard block of 4 bytes gives at most 128 KiB.
    fn largest_ratio(self) -> u64 {
        match self {
            Format::Zlib => 1032,
            Format::Zstd => 32 << 10,
        }
    }
}

/// A compressed section of an object.
#[derive(Clone, Debug)]
pub struct CompressedSection<'a> {
    /// Section header index.
    pub section: u32,
    /// The compression format.
    pub format: Format,
    /// The packed bytes, without their header.
    pub packed: &'a [u8],
    /// The size of the unpacked contents, as the header says.
    pub size: u64,
    /// The contents, once they are unpacked.
    pub bytes: OnceLock<&'a [u8]>,
}

impl CompressedSection<'_> {
    /// Whether the packed bytes can unpack to as many bytes as the header says.
    pub fn is_plausible(&self) -> bool {
        self.size <= (self.packed.len() as u64).saturating_mul(self.format.largest_ratio())
    }
}

/// Unpacks a section.
///
/// # Errors
/// The packed bytes are wrong. The text says how.
pub fn unpack(packed: &CompressedSection<'_>) -> Result<Vec<u8>, String> {
    let size = usize::try_from(packed.size).map_err(|_| too_large(packed))?;
    let mut out = Vec::new();
    // The size is plausible for the packed bytes (`check_size`), but there may not be so much memory.
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

fn too_large(packed: &CompressedSection<'_>) -> String {
    format!("there is no memory for {:#x} bytes", packed.size)
}

/// Unpacks zlib streams, one behind the other, until there are `size` bytes.
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
