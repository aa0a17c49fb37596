//! A section as a sequence of blobs, and one blob in place.
//!
//! Plain concatenation leaves several blobs in one section. Each blob starts at a multiple of its alignment
//! (at least 8), with zeros before it. No header says how long a blob of an unknown version is. So when the
//! walk meets one, or junk, it continues in 8-byte steps to the next place where everything in a header
//! holds, and reports the bytes between as a [`Gap`]. [Units](crate::light) start at any byte, and the length
//! of each leads to the next.

use crate::error::{Error, ErrorKind};
use crate::header::Header;
use crate::light::{self, FUNCTION_HEAD_SIZE, UNIT_HEADER_SIZE, Unit, truncated_as};
use crate::version::{Flags, Version};

/// Every blob starts at a multiple of this many bytes from the start of the section.
pub const BLOB_ALIGNMENT: usize = 8;

/// The bytes of an SFrame section, and the address where they are loaded.
#[derive(Clone, Copy, Debug)]
pub struct Section<'data> {
    data: &'data [u8],
    address: u64,
    strict: bool,
}

impl<'data> Section<'data> {
    /// A section with the bytes `data` at `address`. The address is 0 in relocatable objects and for sections
    /// that are not loaded.
    #[inline]
    pub fn new(data: &'data [u8], address: u64) -> Self {
        Self { data, address, strict: false }
    }

    /// The same section, read strictly. Strict reading reports reserved bits, surplus data words, rows out of
    /// order and repetition blocks of 0 bytes as errors. The ordinary reader overlooks them.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// The bytes of the section.
    pub fn data(&self) -> &'data [u8] {
        self.data
    }

    /// The address of the section.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Walks the section: every blob, and every gap that is neither blob nor zero padding.
    ///
    /// ```
    /// use sframe_format::{Piece, Section};
    /// let mut blob = [0u8; 28];
    /// blob[..7].copy_from_slice(&[0xe2, 0xde, 3, 4, 3, 0, 0xf8]);
    /// let section = [&blob[..], &[0; 4], &[0xff; 8], &blob[..]].concat();
    /// let pieces: Vec<_> = Section::new(&section, 0).pieces().collect();
    /// let offsets = pieces.iter().map(|piece| match piece {
    ///     Piece::Blob(blob) => ("blob", blob.offset()),
    ///     Piece::Gap(gap) => ("gap", gap.offset),
    /// });
    /// assert_eq!(offsets.collect::<Vec<_>>(), [("blob", 0), ("gap", 32), ("blob", 40)]);
    /// ```
    pub fn pieces(&self) -> Pieces<'data> {
        Pieces { section: *self, position: 0, unit: None }
    }

    /// The blobs of the section, without the gaps.
    pub fn blobs(&self) -> impl Iterator<Item = Blob<'data>> + use<'data> {
        self.pieces().filter_map(|piece| match piece {
            Piece::Blob(blob) => Some(blob),
            Piece::Gap(_) => None,
        })
    }

    /// The blob whose header starts at byte `offset`.
    ///
    /// # Errors
    /// The first defect in the header. Its offset counts from the start of the section.
    pub fn blob_at(&self, offset: usize) -> Result<Blob<'data>, Error> {
        let rest = self.data.get(offset..).unwrap_or_default();
        let header = Header::parse(rest).map_err(|error| error.rebased(offset))?;
        Ok(self.blob_with(header, offset))
    }

    /// The blob at byte `offset`. Its header has been parsed before.
    #[inline]
    pub(crate) fn blob_with(&self, header: Header, offset: usize) -> Blob<'data> {
        let rest = self.data.get(offset..).unwrap_or_default();
        Blob {
            rest,
            fdes: rest.get(header.fde_array()).unwrap_or_default(),
            fres: rest.get(header.fre_area()).unwrap_or_default(),
            header,
            offset,
            address: self.address.wrapping_add(offset as u64),
            strict: self.strict,
        }
    }
}

/// One piece of a section.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Piece<'data> {
    /// A blob of a known version, or a function of a [unit](crate::light).
    Blob(Blob<'data>),
    /// Bytes that are neither padding nor a blob that this crate knows.
    Gap(Gap),
}

/// Bytes between blobs that this crate cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Offset from the start of the section.
    pub offset: usize,
    /// Length in bytes, up to the next blob, the end of the unit or the end of the section.
    pub length: usize,
    /// Why no blob starts at `offset`. An unknown version is one reason ([`ErrorKind::unknown_version`]).
    pub error: Error,
}

/// Iterator over the [pieces](Section::pieces) of a section.
#[derive(Clone, Debug)]
pub struct Pieces<'data> {
    section: Section<'data>,
    position: usize,
    /// The unit that the position is in.
    unit: Option<Walk>,
}

impl<'data> Pieces<'data> {
    /// The next function of the unit that the walk is in. If that unit is malformed, the rest of it.
    fn next_in_unit(&mut self) -> Option<Piece<'data>> {
        let walk = self.unit.filter(|walk| self.position < walk.end)?;
        let offset = self.position;
        Some(match walk.function(&self.section, offset) {
            Ok(blob) => {
                self.position += blob.data().len();
                Piece::Blob(blob)
            }
            Err(error) => {
                self.position = walk.end;
                Piece::Gap(Gap { offset, length: walk.end - offset, error })
            }
        })
    }

    /// Skips a unit that cannot be read: by its length or, if that is 0, to the next blob or unit.
    fn pass_unit(&mut self, offset: usize, (length, error): (usize, Error)) -> Piece<'data> {
        let data = self.section.data;
        self.position = match length {
            0 => self.next_start(offset, 1),
            length => (offset + length).min(data.len()),
        };
        Piece::Gap(Gap { offset, length: self.position - offset, error })
    }

    /// The first multiple of `step` after `offset` where a blob or a unit starts, or else the end of the
    /// section.
    fn next_start(&self, offset: usize, step: usize) -> usize {
        let data = self.section.data;
        let mut end = (offset / step + 1) * step;
        let starts = |at: usize| {
            at.is_multiple_of(BLOB_ALIGNMENT) && Header::parse(&data[at..]).is_ok()
                || Unit::parse(&data[at..]).is_ok()
        };
        while end < data.len() && !starts(end) {
            end += step;
        }
        end.min(data.len())
    }
}

impl<'data> Iterator for Pieces<'data> {
    type Item = Piece<'data>;

    fn next(&mut self) -> Option<Piece<'data>> {
        let data = self.section.data;
        let padding = loop {
            if let Some(piece) = self.next_in_unit() {
                return Some(piece);
            }
            self.unit = None;
            let padding = data.get(self.position..)?.iter().position(|&byte| byte != 0)?;
            let start = self.position + padding;
            if !light::has_magic(&data[start..]) {
                break padding;
            }
            match Walk::enter(&self.section, start) {
                Ok(walk) => {
                    self.position = start + UNIT_HEADER_SIZE;
                    self.unit = Some(walk);
                }
                Err(fault) => return Some(self.pass_unit(start, fault)),
            }
        };
        // Junk that begins inside a step is reported from the start of that step or the end of the blob.
        let first = self.position.max((self.position + padding) / BLOB_ALIGNMENT * BLOB_ALIGNMENT);
        let error = match self.section.blob_at(first) {
            Ok(blob) if first.is_multiple_of(BLOB_ALIGNMENT) => {
                self.position = first + blob.data().len();
                return Some(Piece::Blob(blob));
            }
            Ok(_) => Error::new(first, ErrorKind::Misaligned),
            Err(error) => error,
        };
        self.position = self.next_start(first, BLOB_ALIGNMENT);
        Some(Piece::Gap(Gap { offset: first, length: self.position - first, error }))
    }
}

/// The unit that a walk over a section is in.
#[derive(Clone, Copy, Debug)]
struct Walk {
    unit: Unit,
    start: usize,
    end: usize,
}

impl Walk {
    /// Begins the walk of the unit at byte `start` of a section.
    ///
    /// # Errors
    /// The defect, and the length of the unit in bytes. The length is 0 if the header does not say it.
    fn enter(section: &Section<'_>, start: usize) -> Result<Self, (usize, Error)> {
        let data = section.data.get(start..).unwrap_or_default();
        let reserved = data.get(UNIT_HEADER_SIZE - 1).copied().unwrap_or(0);
        match Unit::parse(data) {
            Ok(unit) if reserved != 0 && section.strict => {
                let kind = ErrorKind::Reserved { what: "byte 11 of a unit", found: reserved.into() };
                Err((unit.length as usize, Error::new(start + UNIT_HEADER_SIZE - 1, kind)))
            }
            Ok(unit) => Ok(Self { unit, start, end: start + unit.length as usize }),
            Err(error) => {
                let length = light::preamble(data).map_or(0, |(_, length)| length as usize);
                Err((length, error.rebased(start)))
            }
        }
    }

    /// The function whose head is at byte `offset` of the section.
    fn function<'data>(&self, section: &Section<'data>, offset: usize) -> Result<Blob<'data>, Error> {
        let room = section.data.get(offset..self.end).unwrap_or_default();
        let missing = || truncated_as("function of a unit", room, FUNCTION_HEAD_SIZE).rebased(offset);
        let rows = room.len().checked_sub(FUNCTION_HEAD_SIZE).ok_or_else(missing)?;
        let mut header = Header {
            version: Version::V3,
            endian: self.unit.abi.endian(),
            flags: Flags::FIELD_RELATIVE,
            abi: self.unit.abi,
            fixed_fp_offset: self.unit.fixed_fp_offset,
            fixed_ra_offset: self.unit.fixed_ra_offset,
            auxiliary_length: 0,
            fde_count: 1,
            fre_count: 0,
            // The rest of the unit. The rows have yet to say where they end.
            fre_length: rows as u32,
            fde_offset: 0,
            fre_offset: FUNCTION_HEAD_SIZE as u32,
            unit_distance: (offset - self.start) as u32,
        };
        let blob = section.blob_with(header, offset);
        (header.fre_count, header.fre_length) = blob.rows_of_function()?;
        Ok(section.blob_with(header, offset))
    }
}

/// A blob in place: one header with its body. A function of a [unit](crate::light) is a blob, too, with one
/// FDE and the unit's header.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'data> {
    header: Header,
    /// The section from this header on.
    rest: &'data [u8],
    fdes: &'data [u8],
    fres: &'data [u8],
    offset: usize,
    address: u64,
    strict: bool,
}

impl<'data> Blob<'data> {
    /// The blob at the start of `data`, which lies at `address`.
    ///
    /// # Errors
    /// The first defect in the header.
    pub fn parse(data: &'data [u8], address: u64) -> Result<Self, Error> {
        Section::new(data, address).blob_at(0)
    }

    /// If this blob is a function of a unit: the number of its rows, and their end in the FRE sub-section. A
    /// unit records only the number, so this reads the rows.
    fn rows_of_function(&self) -> Result<(u32, u32), Error> {
        let missing = Error::new(self.offset, ErrorKind::FdeIndex { index: 0, count: 0 });
        let attributes = self.attributes(&self.fde(0).ok_or(missing)?)?;
        let mut fres = self.fres(&attributes);
        for fre in fres.by_ref() {
            fre?;
        }
        Ok((attributes.fre_count, fres.position() as u32))
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All bytes of the blob, from the header to the end of the body, without padding.
    pub fn data(&self) -> &'data [u8] {
        self.rest.get(..self.header.blob_size()).unwrap_or_default()
    }

    /// Offset of the header from the start of the section. For a function of a unit, the offset of its start
    /// field.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Offset of this blob's header from the start of the section. For a function of a unit, the offset of
    /// the unit's header.
    pub fn header_offset(&self) -> usize {
        self.offset.saturating_sub(self.header.unit_distance as usize)
    }

    /// Address of the header. For a function of a unit, the address of its start field.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The same blob, with rows read strictly ([`Section::strict`]).
    #[cfg(feature = "alloc")]
    #[must_use]
    pub(crate) fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Whether rows are read strictly ([`Section::strict`]).
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    #[inline]
    pub(crate) fn fde_bytes(&self) -> &'data [u8] {
        self.fdes
    }

    /// Bytes of the FRE sub-section.
    #[inline]
    pub fn fre_bytes(&self) -> &'data [u8] {
        self.fres
    }

    /// Offset of the FRE sub-section from the start of the section.
    #[inline]
    pub(crate) fn fre_area_offset(&self) -> usize {
        self.offset + self.header.fre_area().start
    }

    /// Address of the function of FDE `index`.
    #[inline]
    pub fn function_address(&self, index: u32) -> Option<u64> {
        if index >= self.header.fde_count {
            return None;
        }
        let position = index as usize * self.header.fde_size();
        let raw = match self.header.version.start_width() {
            4 => i64::from(self.header.endian.read_i32(self.fdes, position)?),
            _ => self.header.endian.read_i64(self.fdes, position)?,
        };
        Some(self.decode_start(raw, index))
    }

    /// The address that the raw start value of FDE `index` means. The value counts from its own field if the
    /// header says so, and from the header otherwise. Addresses wrap.
    #[inline]
    pub(crate) fn decode_start(&self, raw: i64, index: u32) -> u64 {
        let (origin, stride) = self.start_origin();
        origin.wrapping_add(u64::from(index) * stride).wrapping_add_signed(raw)
    }

    /// The address that the start field of FDE 0 counts from, and by how much it grows from one FDE to the
    /// next.
    #[inline]
    pub(crate) fn start_origin(&self) -> (u64, u64) {
        if self.header.is_field_relative() {
            let table = self.header.fde_array().start as u64;
            (self.address.wrapping_add(table), self.header.fde_size() as u64)
        } else {
            (self.address, 0)
        }
    }

    /// Reads every function and every row, and compares the number of rows with the header's.
    ///
    /// # Errors
    /// The first defect. Rows that can be read may still make no sense: [`crate::verify`] looks for that.
    pub fn check(&self) -> Result<(), Error> {
        self.check_areas()?;
        let mut counted = 0;
        for (_, attributes) in self.functions() {
            let attributes = attributes?;
            counted += u64::from(attributes.fre_count);
            self.check_rows(&attributes)?;
        }
        self.check_count(counted)
    }

    /// Checks that the FDE array and the FRE sub-section do not overlap.
    ///
    /// # Errors
    /// [`ErrorKind::AreasOverlap`].
    pub fn check_areas(&self) -> Result<(), Error> {
        let (fdes, fres) = (self.header.fde_array(), self.header.fre_area());
        if fdes.start.max(fres.start) < fdes.end.min(fres.end) {
            Err(Error::new(self.offset + 20, ErrorKind::AreasOverlap))
        } else {
            Ok(())
        }
    }

    /// Compares `counted`, the number of FREs of all functions, with the number in the header.
    ///
    /// # Errors
    /// [`ErrorKind::FreCount`] if they differ.
    pub fn check_count(&self, counted: u64) -> Result<(), Error> {
        match self.header.fre_count {
            header if u64::from(header) == counted => Ok(()),
            header => Err(Error::new(self.offset + 12, ErrorKind::FreCount { header, counted })),
        }
    }

    /// Whether the function addresses ascend, whatever the SORTED flag says. Neighbours may be equal.
    pub fn is_ascending(&self) -> bool {
        let mut previous = 0;
        (0..self.header.fde_count).filter_map(|index| self.function_address(index)).all(|address| {
            let ascending = previous <= address;
            previous = address;
            ascending
        })
    }
}
