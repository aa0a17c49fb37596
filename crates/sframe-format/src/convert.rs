//! Converts from version to version, and from many blobs to one.
//!
//! The converter reads a section's functions, whatever their versions, and writes them as one sorted blob of
//! the requested version. Every program counter keeps its answer. The result lists functions that the version
//! cannot express and bytes that cannot be read.

use alloc::vec::Vec;
use core::fmt;

use crate::abi::Abi;
use crate::blob::{Gap, Piece, Section};
use crate::error::Error;
use crate::write::{Function, LeftOut, Options, write_sorted};

/// A converted section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The bytes of the new section, one sorted blob.
    pub bytes: Vec<u8>,
    /// Functions, gaps and blobs that the new section lacks, by ascending offset in their sections.
    pub omitted: Vec<Omitted>,
}

/// A function, gap or blob of an old section that is not in the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// Offset in its section: of the FDE, of the gap, or of the blob for another ABI.
    pub offset: usize,
    /// Address of the function. `None`: it is no function.
    pub address: Option<u64>,
    /// The reason.
    pub reason: OmittedReason,
}

/// Why something was omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OmittedReason {
    /// The bytes are not a blob of a known version.
    Gap(Gap),
    /// The function's bytes are malformed.
    Malformed(Error),
    /// The blob is of another ABI than the output.
    ForeignAbi(Abi),
    /// The function was read but not written.
    LeftOut(LeftOut),
}

impl fmt::Display for OmittedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap(gap) => write!(f, "{} bytes are not an SFrame blob: {}", gap.length, gap.error.kind),
            Self::Malformed(error) => error.fmt(f),
            Self::ForeignAbi(abi) => write!(f, "blob is for {abi}"),
            Self::LeftOut(left_out) => left_out.fmt(f),
        }
    }
}

/// Converts a linked section into one blob for a section at `output_address`.
///
/// # Errors
/// [`StartRange`](crate::ErrorKind::StartRange) when version 2 cannot reach a function from there.
///
/// ```
/// use sframe_format::{convert::convert, write::Options, Abi, Section, Version};
/// // V1, x86-64, one function of 1 byte at the section's address, one row: CFA = rsp + 8.
/// let mut v1 = vec![0xe2, 0xde, 1, 0, 3, 0, 0xf8, 0];
/// for word in [1u32, 1, 3, 0, 17, 0, 1, 0, 1] {
///     v1.extend_from_slice(&word.to_le_bytes());
/// }
/// v1.extend_from_slice(&[0, 0, 0x03, 8]);
/// let section = Section::new(&v1, 0x1000);
/// let before = section.lookup(0x1000).unwrap().unwrap();
/// let converted = convert(&section, Options::new(Abi::Amd64), 0x2000).unwrap();
/// let section = Section::new(&converted.bytes, 0x2000);
/// assert_eq!(section.blob_at(0).unwrap().header().version, Version::V3);
/// assert_eq!(section.lookup(0x1000).unwrap().unwrap().row, before.row);
/// ```
pub fn convert(section: &Section<'_>, options: Options, output_address: u64) -> Result<Converted, Error> {
    unite(core::slice::from_ref(section), options, output_address)
}

/// Converts several linked sections into one blob, as [`convert`] does with one. If several functions start
/// at one address, it keeps the largest, and the first of equally large ones.
///
/// # Errors
/// [`StartRange`](crate::ErrorKind::StartRange) when version 2 cannot reach a function.
pub fn unite(sections: &[Section<'_>], options: Options, output_address: u64) -> Result<Converted, Error> {
    let (mut functions, mut sources, mut omitted) = (Vec::new(), Vec::new(), Vec::new());
    for piece in sections.iter().flat_map(Section::pieces) {
        let blob = match piece {
            Piece::Blob(blob) => blob,
            Piece::Gap(gap) => {
                let reason = OmittedReason::Gap(gap);
                omitted.push(Omitted { offset: gap.offset, address: None, reason });
                continue;
            }
        };
        let abi = blob.header().abi;
        if abi != options.abi {
            let reason = OmittedReason::ForeignAbi(abi);
            omitted.push(Omitted { offset: blob.offset(), address: None, reason });
            continue;
        }
        for (fde, attributes) in blob.functions() {
            match attributes.and_then(|_| Function::read(&blob, &fde)) {
                Ok(function) => {
                    functions.push((fde.address, function));
                    sources.push(fde.offset);
                }
                Err(error) => {
                    let (address, reason) = (Some(fde.address), OmittedReason::Malformed(error));
                    omitted.push(Omitted { offset: fde.offset, address, reason });
                }
            }
        }
    }
    let written = write_sorted(options, output_address, &functions)?;
    omitted.extend(written.left_out.into_iter().map(|(place, left_out)| Omitted {
        offset: sources[place],
        address: Some(functions[place].0),
        reason: OmittedReason::LeftOut(left_out),
    }));
    omitted.sort_by_key(|omitted| omitted.offset);
    Ok(Converted { bytes: written.bytes, omitted })
}
