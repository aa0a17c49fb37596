//! Errors in SFrame bytes: the kind of defect, and its byte offset.

use core::fmt;

use crate::abi::Abi;
use crate::endian::Endian;
use crate::version::Version;

/// A defect in SFrame bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Byte offset of the defect from the start of the section. If there is no section, from the start of the
    /// given bytes.
    pub offset: usize,
    /// What was found, and what was expected.
    pub kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A structure reaches beyond the end of its container.
    Truncated {
        /// The structure.
        what: &'static str,
        /// Bytes it needs, counted from the start of its container.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// The first two bytes are not 0xdee2 in either byte order.
    Magic {
        /// The two bytes.
        found: [u8; 2],
    },
    /// The version byte is not 1, 2 or 3.
    Version {
        /// The byte.
        found: u8,
    },
    /// The version of a [unit](crate::light) is not 1.
    UnitVersion {
        /// The byte.
        found: u8,
    },
    /// The length of a unit is smaller than its header.
    UnitLength {
        /// The length in bytes.
        found: u32,
    },
    /// Flag bits are set that the version does not define.
    Flags {
        /// The version of the header.
        version: Version,
        /// The flag byte.
        found: u8,
        /// All bits that the version defines.
        allowed: u8,
    },
    /// The ABI byte is not 1 to 4.
    Abi {
        /// The byte.
        found: u8,
    },
    /// The byte order of the magic number is not that of the ABI.
    AbiEndian {
        /// The ABI in the header.
        abi: Abi,
        /// The byte order that the magic number shows.
        found: Endian,
    },
    /// A blob does not start at a multiple of 8 bytes.
    Misaligned,
    /// The blob does not have an FDE with this index.
    FdeIndex {
        /// The requested index.
        index: u32,
        /// The number of FDEs.
        count: u32,
    },
    /// An FRE type (width of the start offset) other than 0, 1, 2.
    FreType {
        /// The type code.
        found: u8,
    },
    /// An FDE type other than 0 (default) and 1 (flexible).
    FdeType {
        /// The type code.
        found: u8,
    },
    /// A data word size code other than 0, 1, 2.
    DataWordSize {
        /// The code.
        found: u8,
    },
    /// The FDE type and the ABI do not allow this number of data words.
    DataWordCount {
        /// The number.
        found: u8,
        /// The allowed numbers.
        expected: &'static str,
    },
    /// A control word of a flexible FDE has no meaning, or a word of a V2 row for s390x is not a register
    /// number.
    ControlWord {
        /// The word.
        found: u32,
        /// What it should be.
        expected: &'static str,
    },
    /// Reserved bits or values are set. In blobs, only strict reading finds them. Flags of a unit and kinds
    /// of rules in a compact table are always checked.
    Reserved {
        /// The field.
        what: &'static str,
        /// The value of the field.
        found: u32,
    },
    /// The repetition block of a PC-mask function has 0 bytes.
    RepeatSize,
    /// FREs do not ascend by start offset (strict reading only).
    FreOrder {
        /// Start offset of the earlier FRE.
        previous: u32,
        /// Start offset of the FRE at the offset of the error.
        found: u32,
    },
    /// FDE array and FRE sub-section overlap (checked for whole blobs only).
    AreasOverlap,
    /// The header and the functions disagree about the number of FREs (checked for whole blobs only).
    FreCount {
        /// The number in the header.
        header: u32,
        /// The sum over all functions.
        counted: u64,
    },
    /// Up to some function, the functions claim more FREs than readers of whole blobs follow
    /// ([`Blob::functions`]).
    ///
    /// [`Blob::functions`]: crate::Blob::functions
    FreClaims {
        /// The largest sum that readers follow.
        most: u64,
    },
    /// The field cannot hold a function start.
    StartRange {
        /// Distance to the function from the place that the field counts from.
        distance: i64,
        /// Width of the field in bytes.
        width: u8,
    },
    /// The header's version does not define a flag.
    FlagUnknown {
        /// The version of the header.
        version: Version,
        /// The flag bit.
        flag: u8,
    },
    /// The first four bytes are not the magic number of compact tables in either byte order.
    CompactMagic {
        /// The four bytes.
        found: [u8; 4],
    },
    /// The version of a compact table is unknown.
    CompactVersion {
        /// The byte.
        found: u8,
    },
    /// A compact table whose steps are not 2 or 4 bytes wide, or whose places of shapes are not 2 to 4.
    CompactWidths {
        /// Bytes of a step.
        step: u8,
        /// Bytes of a place.
        place: u8,
    },
    /// The length in the header of a compact table is not the sum of its parts.
    CompactLength {
        /// The length in the header.
        header: u32,
        /// The sum of the parts.
        needed: u64,
    },
    /// A number in a compact table lies outside the part that it counts in.
    CompactNumber {
        /// What it numbers.
        what: &'static str,
        /// The number.
        found: u32,
    },
    /// Regions, pages, entries or functions of a compact table do not ascend or do not follow one another.
    CompactOrder {
        /// The parts.
        what: &'static str,
    },
    /// The rows of a repetition in a compact table end elsewhere than the repetition.
    CompactRepeat {
        /// Bytes of the repetition.
        size: u32,
        /// The end of its rows.
        end: u32,
    },
    /// A row of a compact table covers no bytes.
    CompactEmptyRow,
    /// There is more of something than a compact table has room for.
    CompactFull {
        /// What there is more of.
        what: &'static str,
    },
    /// Something is more than 2 GiB away from the compact table that has to lead there.
    CompactFar {
        /// What is there.
        what: &'static str,
        /// Its address.
        address: u64,
        /// The address of the table.
        table: u64,
    },
    /// Bits of a compact table that have no meaning are set.
    CompactUnused {
        /// What they belong to.
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn new(offset: usize, kind: ErrorKind) -> Self {
        Self { offset, kind }
    }

    /// The same error. Its offset counts from `base` bytes earlier.
    pub(crate) fn rebased(mut self, base: usize) -> Self {
        self.offset = self.offset.saturating_add(base);
        self
    }
}

impl ErrorKind {
    /// The version of the blob or unit, if the defect is that this crate does not know that version.
    pub fn unknown_version(&self) -> Option<u8> {
        match *self {
            Self::Version { found } | Self::UnitVersion { found } => Some(found),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {:#x}: {}", self.offset, self.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { what, needed, available } => {
                write!(f, "{what} ends at byte {needed:#x}, but there are only {available:#x} bytes")
            }
            Self::Magic { found: [a, b] } => {
                write!(f, "magic bytes are {a:02x} {b:02x}, expected e2 de (little-endian) or de e2")
            }
            Self::Version { found } => write!(f, "SFrame version is {found}, expected 1, 2 or 3"),
            Self::UnitVersion { found } => write!(f, "version of the light unit is {found}, expected 1"),
            Self::UnitLength { found } => {
                write!(f, "length of the light unit is {found}, less than its header has")
            }
            Self::Flags { version, found, allowed } => {
                write!(f, "flags are {found:#04x}, but SFrame {version} defines {allowed:#04x} only")
            }
            Self::Abi { found } => write!(f, "ABI is {found}, expected 1 to 4"),
            Self::AbiEndian { abi, found } => {
                write!(f, "magic is {found}, but the ABI byte says {abi}, which is {}", abi.endian())
            }
            Self::Misaligned => {
                write!(f, "blob does not start at a multiple of 8 bytes from the section's start")
            }
            Self::FdeIndex { index, count } => write!(f, "FDE {index} of {count} does not exist"),
            Self::FreType { found } => write!(f, "FRE type is {found}, expected 0, 1 or 2"),
            Self::FdeType { found } => write!(f, "FDE type is {found}, expected 0 (default) or 1 (flexible)"),
            Self::DataWordSize { found } => write!(f, "data word size code is {found}, expected 0, 1 or 2"),
            Self::DataWordCount { found, expected } => {
                write!(f, "FRE has {found} data words, expected {expected}")
            }
            Self::ControlWord { found, expected } => {
                write!(f, "control word is {found:#x}, expected {expected}")
            }
            Self::Reserved { what, found } => write!(f, "reserved bits are set in {what} {found:#x}"),
            Self::RepeatSize => write!(f, "repetition block of a PC-mask function is 0 bytes"),
            Self::FreOrder { previous, found } => {
                write!(f, "FRE starts at {found:#x}, not after the FRE before it at {previous:#x}")
            }
            Self::AreasOverlap => f.write_str("FDE array and FRE sub-section overlap"),
            Self::FreCount { header, counted } => {
                write!(f, "the header counts {header} FREs, the functions have {counted}")
            }
            Self::FreClaims { most } => {
                write!(
                    f,
                    "functions share FREs and claim more than {most}, too many for the bytes of the blob"
                )
            }
            Self::StartRange { distance, width } => {
                write!(f, "distance {distance:#x} to the function does not fit the {width}-byte start field")
            }
            Self::FlagUnknown { version, flag } => write!(f, "SFrame {version} has no flag {flag:#04x}"),
            Self::CompactMagic { found: [a, b, c, d] } => write!(
                f,
                "magic bytes are {a:02x} {b:02x} {c:02x} {d:02x}, expected 54 43 46 53 (little-endian) or 53 46 43 54"
            ),
            Self::CompactVersion { found } => {
                write!(f, "version of the compact table is {found}, expected 1 or 2")
            }
            Self::CompactWidths { step, place } => {
                write!(f, "steps of {step} bytes and places of {place}, expected 2 or 4 and 2 to 4")
            }
            Self::CompactLength { header, needed } => {
                write!(f, "the header says {header:#x} bytes, its parts have {needed:#x}")
            }
            Self::CompactNumber { what, found } => write!(f, "there is no {what} {found}"),
            Self::CompactRepeat { size, end } => {
                write!(f, "the rows of a repetition of {size} bytes end at {end}")
            }
            Self::CompactEmptyRow => f.write_str("a row covers no bytes"),
            Self::CompactFull { what } => {
                write!(f, "there are more {what} than a compact table has room for")
            }
            Self::CompactFar { what, address, table } => {
                write!(f, "{what} at {address:#x} is more than 2 GiB away from the table at {table:#x}")
            }
            Self::CompactUnused { what } => write!(f, "bits without a meaning are set in {what}"),
            Self::CompactOrder { what } => write!(f, "{what} do not follow one another"),
        }
    }
}

impl core::error::Error for Error {}
