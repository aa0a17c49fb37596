//! A section as a row of blobs, and one blob in place.
//!
//! Plain concatenation leaves several blobs in one section, each at a multiple of its alignment (at least 8)
//! with zeros before it. Nothing in a header says how long a blob of an unknown version is, so the walk that
//! meets one, or junk, goes on in 8-byte steps to the next place where everything in a header holds, and
//! reports the bytes between as a [`Gap`].

use crate::error::{Error, ErrorKind};
use crate::header::Header;

/// Blobs start at multiples of this many bytes from the start of the section.
pub const BLOB_ALIGNMENT: usize = 8;

/// The bytes of an SFrame section and the address they are loaded at.
#[derive(Clone, Copy, Debug)]
pub struct Section<'data> {
    data: &'data [u8],
    address: u64,
    strict: bool,
}

impl<'data> Section<'data> {
    /// A section with the bytes `data` at `address`; 0 for relocatable objects and sections out of memory.
    #[inline]
    pub fn new(data: &'data [u8], address: u64) -> Self {
        Self { data, address, strict: false }
    }

    /// The same section, whose rows are read strictly: reserved bits, surplus data words and rows out of order
    /// are errors, which the ordinary reader overlooks.
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

    /// Walks over the section: every blob, and every gap that is neither blob nor zero padding.
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
        Pieces { section: *self, position: 0 }
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
    /// The first fault in the header, its offset counted from the start of the section.
    pub fn blob_at(&self, offset: usize) -> Result<Blob<'data>, Error> {
        let rest = self.data.get(offset..).unwrap_or_default();
        let header = Header::parse(rest).map_err(|error| error.rebased(offset))?;
        Ok(self.blob_with(header, offset))
    }

    /// The blob at byte `offset`, whose header was parsed before.
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
    /// A blob of a known version.
    Blob(Blob<'data>),
    /// Bytes that are neither a blob that this crate knows nor padding.
    Gap(Gap),
}

/// Bytes between blobs that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Offset from the start of the section.
    pub offset: usize,
    /// Length in bytes, up to the next blob or the end of the section.
    pub length: usize,
    /// Why no blob starts at `offset`. An unknown version shows here as [`ErrorKind::Version`].
    pub error: Error,
}

/// Iterator over the [pieces](Section::pieces) of a section.
#[derive(Clone, Debug)]
pub struct Pieces<'data> {
    section: Section<'data>,
    position: usize,
}

impl<'data> Iterator for Pieces<'data> {
    type Item = Piece<'data>;

    fn next(&mut self) -> Option<Piece<'data>> {
        let data = self.section.data;
        let padding = data.get(self.position..)?.iter().position(|&byte| byte != 0)?;
        // Junk that begins inside a step is reported from the beginning of that step or the end of the blob.
        let first = self.position.max((self.position + padding) / BLOB_ALIGNMENT * BLOB_ALIGNMENT);
        let error = match self.section.blob_at(first) {
            Ok(blob) if first.is_multiple_of(BLOB_ALIGNMENT) => {
                self.position = first + blob.data().len();
                return Some(Piece::Blob(blob));
            }
            Ok(_) => Error::new(first, ErrorKind::Misaligned),
            Err(error) => error,
        };
        let mut end = (first / BLOB_ALIGNMENT + 1) * BLOB_ALIGNMENT;
        while end < data.len() && Header::parse(&data[end..]).is_err() {
            end += BLOB_ALIGNMENT;
        }
        self.position = end.min(data.len());
        Some(Piece::Gap(Gap { offset: first, length: self.position - first, error }))
    }
}

/// A blob: one header with its body, in place.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'data> {
    header: Header,
    /// The section from the header on.
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
    /// The first fault in the header.
    pub fn parse(data: &'data [u8], address: u64) -> Result<Self, Error> {
        Section::new(data, address).blob_at(0)
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

    /// Offset of the header from the start of the section.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Address of the header.
    pub fn address(&self) -> u64 {
        self.address
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
        let position = index as usize * self.header.version.fde_size();
        let raw = match self.header.version.start_width() {
            4 => i64::from(self.header.endian.read_i32(self.fdes, position)?),
            _ => self.header.endian.read_i64(self.fdes, position)?,
        };
        Some(self.decode_start(raw, index))
    }

    /// The address that the raw start value of FDE `index` stands for: counted from its own field if the
    /// header says so, else from the header. Addresses wrap.
    #[inline]
    pub(crate) fn decode_start(&self, raw: i64, index: u32) -> u64 {
        let (origin, stride) = self.start_origin();
        origin.wrapping_add(u64::from(index) * stride).wrapping_add_signed(raw)
    }

    /// The origin of function starts: an address for FDE 0, and by how much it grows with each FDE.
    #[inline]
    pub(crate) fn start_origin(&self) -> (u64, u64) {
        if self.header.is_field_relative() {
            let table = self.header.fde_array().start as u64;
            (self.address.wrapping_add(table), self.header.version.fde_size() as u64)
        } else {
            (self.address, 0)
        }
    }

    /// Reads all functions and rows: whether they lie where header and functions place them, and in the stated number.
    ///
    /// # Errors
    /// The first fault. Readable rows may still be senseless: [`crate::verify`] looks for that.
    pub fn check(&self) -> Result<(), Error> {
        self.check_areas()?;
        let mut counted = 0;
        for fde in self.fdes() {
            let attributes = self.attributes(&fde)?;
            counted += u64::from(attributes.fre_count);
            self.check_rows(&attributes)?;
        }
        self.check_count(counted)
    }

    /// Whether FDE array and FRE sub-section lie apart.
    ///
    /// # Errors
    /// They overlap.
    pub fn check_areas(&self) -> Result<(), Error> {
        let (fdes, fres) = (self.header.fde_array(), self.header.fre_area());
        if fdes.start.max(fres.start) < fdes.end.min(fres.end) {
            Err(Error::new(self.offset + 20, ErrorKind::AreasOverlap))
        } else {
            Ok(())
        }
    }

    /// Compares the number of FREs that all functions have with the header's.
    ///
    /// # Errors
    /// They differ.
    pub fn check_count(&self, counted: u64) -> Result<(), Error> {
        match self.header.fre_count {
            header if u64::from(header) == counted => Ok(()),
            header => Err(Error::new(self.offset + 12, ErrorKind::FreCount { header, counted })),
        }
    }

    /// Whether the function addresses ascend (equal neighbours are allowed), whatever the SORTED flag says.
    pub fn is_ascending(&self) -> bool {
        let mut previous = 0;
        (0..self.header.fde_count).filter_map(|index| self.function_address(index)).all(|address| {
            let ascending = previous <= address;
            previous = address;
            ascending
        })
    }
}
