//! The light linking form: units, which assemblers write and every linker concatenates.
//!
//! An ordinary blob serves linking and look-up at once: a header of 28 bytes counts entries and rows, and
//! each entry says where its rows are. The functions of one text section need none of that. A *unit* is a
//! header of 12 bytes, which contains the unit's length, and then functions with their rows inline, one after
//! the other. Each text section has one unit, in a section of its own ([`SECTION_NAME`],
//! [`SHT_SFRAME_LIGHT`]) that is in the group of its text and linked to it. So concatenated units already
//! form a table, though not a sorted one.
//!
//! `LIGHT.md` beside this crate's README specifies every byte. In short (all fields are in the target's byte
//! order, without padding or alignment):
//!
//! | offset | size | header of a unit |
//! |---|---|---|
//! | 0 | 2 | magic 0xde11 |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | flags, 0 |
//! | 4 | 4 | length of the whole unit in bytes |
//! | 8 | 1 | ABI, as in the header of a blob |
//! | 9 | 1 | fixed offset of the saved frame pointer from the CFA, 0 = none |
//! | 10 | 1 | fixed offset of the return address from the CFA, 0 = none |
//! | 11 | 1 | reserved, 0 |
//!
//! | offset | size | function, from the end of the header or of the function before |
//! |---|---|---|
//! | 0 | 8 | start, counted from this field |
//! | 8 | 4 | size in bytes |
//! | 12 | 5 | attribute of V3 |
//! | 17 | | rows of V3 |
//!
//! The first 8 bytes never change, so a walker can skip a unit of an unknown version.
//!
//! [`Section::pieces`](crate::Section::pieces) returns each function as a [`Blob`](crate::Blob) with one FDE
//! ([`Header::unit_distance`](crate::Header::unit_distance) tells it from other blobs). So everything that
//! reads blobs also reads units: look-up, unwinding, verification, conversion.

use crate::abi::Abi;
use crate::endian::Endian;
use crate::error::{Error, ErrorKind};

/// Name of the sections that hold units.
pub const SECTION_NAME: &str = ".sframe_light";
/// Type of the sections that hold units. It lies in the range for operating systems. Linkers accept unknown
/// types of this range and concatenate their sections.
pub const SHT_SFRAME_LIGHT: u32 = 0x6073_666c;
/// The magic number that opens every unit.
pub const MAGIC: u16 = 0xde11;
/// The version of units that this crate reads and writes.
pub const VERSION: u8 = 1;
/// Size of the header of a unit, in bytes.
pub const UNIT_HEADER_SIZE: usize = 12;
/// Bytes of a function's start and size, in front of its attribute.
pub const FUNCTION_HEAD_SIZE: usize = 12;
/// Bytes of a unit's header that no version changes.
const PREAMBLE_SIZE: usize = 8;

/// The header of a unit. [`Unit::parse`] guarantees that the whole unit lies inside the given bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// ABI, offset 8.
    pub abi: Abi,
    /// Fixed offset of the saved frame pointer from the CFA, 0 = none.
    pub fixed_fp_offset: i8,
    /// Fixed offset of the return address from the CFA, 0 = rows track it.
    pub fixed_ra_offset: i8,
    /// Bytes of the unit, including this header.
    pub length: u32,
}

impl Unit {
    /// Parses the header at the start of `data`. Bytes after the unit are allowed.
    ///
    /// # Errors
    /// The first defect. Its offset counts from the start of `data`.
    ///
    /// ```
    /// use sframe_format::{Abi, ErrorKind, light::Unit};
    /// let mut bytes = [0x11, 0xde, 1, 0, 12, 0, 0, 0, 3, 0, 0xf8, 0];
    /// let unit = Unit::parse(&bytes).unwrap();
    /// assert_eq!((unit.abi, unit.length, unit.fixed_ra_offset), (Abi::Amd64, 12, -8));
    /// assert_eq!(unit.to_bytes(), bytes);
    /// bytes[2] = 2;
    /// assert_eq!(Unit::parse(&bytes).unwrap_err().kind, ErrorKind::UnitVersion { found: 2 });
    /// ```
    pub fn parse(data: &[u8]) -> Result<Self, Error> {
        let (endian, length) = preamble(data)?;
        let &[_, _, version, flags, ..] = data else { return Err(truncated(data, PREAMBLE_SIZE)) };
        if version != VERSION {
            return Err(Error::new(2, ErrorKind::UnitVersion { found: version }));
        }
        if flags != 0 {
            return Err(Error::new(3, ErrorKind::Reserved { what: "flags of a unit", found: flags.into() }));
        }
        let fixed: &[u8; UNIT_HEADER_SIZE] =
            data.first_chunk().ok_or_else(|| truncated(data, UNIT_HEADER_SIZE))?;
        if (length as usize) < UNIT_HEADER_SIZE {
            return Err(Error::new(4, ErrorKind::UnitLength { found: length }));
        }
        let abi = Abi::from_byte(fixed[8]).ok_or(Error::new(8, ErrorKind::Abi { found: fixed[8] }))?;
        if abi.endian() != endian {
            return Err(Error::new(8, ErrorKind::AbiEndian { abi, found: endian }));
        }
        let [fixed_fp_offset, fixed_ra_offset] = [fixed[9] as i8, fixed[10] as i8];
        Ok(Self { abi, fixed_fp_offset, fixed_ra_offset, length })
    }

    /// The 12 bytes of this header.
    pub fn to_bytes(&self) -> [u8; UNIT_HEADER_SIZE] {
        let endian = self.abi.endian();
        let mut bytes = [0; UNIT_HEADER_SIZE];
        bytes[..2].copy_from_slice(&endian.u16_bytes(MAGIC));
        bytes[2] = VERSION;
        bytes[4..8].copy_from_slice(&endian.u32_bytes(self.length));
        bytes[8..11].copy_from_slice(&[
            self.abi as u8,
            self.fixed_fp_offset as u8,
            self.fixed_ra_offset as u8,
        ]);
        bytes
    }
}

/// Whether the data begins with the magic number of units.
#[inline]
pub(crate) fn has_magic(data: &[u8]) -> bool {
    endian(data).is_some()
}

/// The byte order, from the magic number.
#[inline]
fn endian(data: &[u8]) -> Option<Endian> {
    match u16::from_le_bytes(*data.first_chunk()?) {
        MAGIC => Some(Endian::Little),
        magic if magic == MAGIC.swap_bytes() => Some(Endian::Big),
        _ => None,
    }
}

/// Byte order and length of the unit at the start of `data`. The unit lies inside `data`.
pub(crate) fn preamble(data: &[u8]) -> Result<(Endian, u32), Error> {
    let &[a, b, ..] = data else { return Err(truncated(data, PREAMBLE_SIZE)) };
    let endian = endian(data).ok_or(Error::new(0, ErrorKind::Magic { found: [a, b] }))?;
    let length = endian.read_u32(data, 4).ok_or_else(|| truncated(data, PREAMBLE_SIZE))?;
    if (length as usize) < PREAMBLE_SIZE {
        return Err(Error::new(4, ErrorKind::UnitLength { found: length }));
    }
    if length as usize > data.len() {
        return Err(truncated_as("unit", data, length as usize).rebased(4));
    }
    Ok((endian, length))
}

fn truncated(data: &[u8], needed: usize) -> Error {
    truncated_as("header of a unit", data, needed)
}

pub(crate) fn truncated_as(what: &'static str, data: &[u8], needed: usize) -> Error {
    Error::new(0, ErrorKind::Truncated { what, needed: needed as u64, available: data.len() as u64 })
}
