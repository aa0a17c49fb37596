//! The 28-byte header (SFrame V3, "SFrame Preamble" and "SFrame Header"; the same bytes in V1 and V2).
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | magic 0xdee2, in the target's byte order |
//! | 2 | 1 | version |
//! | 3 | 1 | flags |
//! | 4 | 1 | ABI |
//! | 5 | 1 | fixed offset of the saved frame pointer from the CFA, 0 = none |
//! | 6 | 1 | fixed offset of the return address from the CFA, 0 = none |
//! | 7 | 1 | length of the auxiliary header that follows |
//! | 8 | 4 | number of FDEs |
//! | 12 | 4 | number of FREs |
//! | 16 | 4 | length of the FRE sub-section |
//! | 20 | 4 | offset of the FDE array from the end of the headers |
//! | 24 | 4 | offset of the FRE sub-section from the end of the headers |

use core::ops::Range;

use crate::abi::Abi;
use crate::endian::Endian;
use crate::error::{Error, ErrorKind};
use crate::light::FUNCTION_HEAD_SIZE;
use crate::version::{Flags, Version};

/// Size of the header without the auxiliary header, in bytes.
pub const HEADER_SIZE: usize = 28;
/// The magic number that opens every blob.
pub const MAGIC: u16 = 0xdee2;

/// A parsed header. [`Header::parse`] guarantees that the FDE array and the FRE sub-section lie inside the
/// bytes it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version, header offset 2.
    pub version: Version,
    /// Byte order, from the magic number.
    pub endian: Endian,
    /// Flags, header offset 3.
    pub flags: Flags,
    /// ABI, header offset 4.
    pub abi: Abi,
    /// Fixed offset of the saved frame pointer from the CFA, 0 = none. All producers write 0.
    pub fixed_fp_offset: i8,
    /// Fixed offset of the return address from the CFA, 0 = rows track it. -8 on x86-64.
    pub fixed_ra_offset: i8,
    /// Bytes of the auxiliary header, directly after the header. All producers write 0.
    pub auxiliary_length: u8,
    /// Entries of the FDE array.
    pub fde_count: u32,
    /// Number of FREs, summed over the FDEs.
    pub fre_count: u32,
    /// Bytes of the FRE sub-section. In V3 they include the 5-byte attributes.
    pub fre_length: u32,
    /// Offset of the FDE array from the end of the headers.
    pub fde_offset: u32,
    /// Offset of the FRE sub-section from the end of the headers.
    pub fre_offset: u32,
    /// 0 for the header of a blob. A function of a [unit](crate::light) reads as a blob with one FDE and
    /// without its own header. Then this is the distance in bytes from the unit's header to the function's
    /// start field.
    pub unit_distance: u32,
}

impl Header {
    /// Parses the header at the start of `data`. Checks magic, version, flags and ABI, and that all parts
    /// that the header announces lie inside `data`. Bytes after the blob are allowed.
    ///
    /// # Errors
    /// The first defect. Its offset counts from the start of `data`.
    ///
    /// ```
    /// use sframe_format::{Abi, ErrorKind, Header, Version};
    /// let mut bytes = [0u8; 28];
    /// bytes[..7].copy_from_slice(&[0xe2, 0xde, 3, 4, 3, 0, 0xf8]);
    /// let header = Header::parse(&bytes).unwrap();
    /// assert_eq!((header.version, header.abi, header.blob_size()), (Version::V3, Abi::Amd64, 28));
    /// bytes[2] = 9;
    /// assert_eq!(Header::parse(&bytes).unwrap_err().kind, ErrorKind::Version { found: 9 });
    /// ```
    pub fn parse(data: &[u8]) -> Result<Self, Error> {
        let truncated = |what, needed: u64| {
            Error::new(0, ErrorKind::Truncated { what, needed, available: data.len() as u64 })
        };
        // The first four bytes are the same in all versions, so check them before the length of the rest.
        let &[a, b, version, flags] = data.first_chunk().ok_or_else(|| truncated("preamble", 4))?;
        let endian = match u16::from_le_bytes([a, b]) {
            MAGIC => Endian::Little,
            magic if magic == MAGIC.swap_bytes() => Endian::Big,
            _ => return Err(Error::new(0, ErrorKind::Magic { found: [a, b] })),
        };
        let version =
            Version::from_byte(version).ok_or(Error::new(2, ErrorKind::Version { found: version }))?;
        let allowed = version.flags().0;
        if flags & !allowed != 0 {
            return Err(Error::new(3, ErrorKind::Flags { version, found: flags, allowed }));
        }
        let fixed: &[u8; HEADER_SIZE] =
            data.first_chunk().ok_or_else(|| truncated("header", HEADER_SIZE as u64))?;
        let abi = Abi::from_byte(fixed[4]).ok_or(Error::new(4, ErrorKind::Abi { found: fixed[4] }))?;
        if abi.endian() != endian {
            return Err(Error::new(4, ErrorKind::AbiEndian { abi, found: endian }));
        }
        let word = |offset| endian.read_u32(fixed, offset).unwrap_or(0);
        let header = Self {
            version,
            endian,
            flags: Flags(flags),
            abi,
            fixed_fp_offset: fixed[5] as i8,
            fixed_ra_offset: fixed[6] as i8,
            auxiliary_length: fixed[7],
            fde_count: word(8),
            fre_count: word(12),
            fre_length: word(16),
            fde_offset: word(20),
            fre_offset: word(24),
            unit_distance: 0,
        };
        header.check_lengths(data.len() as u64)?;
        Ok(header)
    }

    fn check_lengths(&self, available: u64) -> Result<(), Error> {
        let parts = [
            (7, "auxiliary header", self.body_start()),
            (8, "FDE array", self.fde_end()),
            (16, "FRE sub-section", self.fre_end()),
        ];
        for (offset, what, needed) in parts {
            if needed > available {
                return Err(Error::new(offset, ErrorKind::Truncated { what, needed, available }));
            }
        }
        Ok(())
    }

    /// Whether this is a function of a [unit](crate::light), not a blob with a header.
    #[inline]
    pub fn is_light(&self) -> bool {
        self.unit_distance != 0
    }

    /// Bytes per entry of the FDE array.
    #[inline]
    pub(crate) fn fde_size(&self) -> usize {
        if self.is_light() { FUNCTION_HEAD_SIZE } else { self.version.fde_size() }
    }

    #[inline]
    fn body_start(&self) -> u64 {
        if self.is_light() { 0 } else { HEADER_SIZE as u64 + u64::from(self.auxiliary_length) }
    }

    #[inline]
    fn fde_start(&self) -> u64 {
        self.body_start() + u64::from(self.fde_offset)
    }

    #[inline]
    fn fde_end(&self) -> u64 {
        self.fde_start() + u64::from(self.fde_count) * self.fde_size() as u64
    }

    #[inline]
    fn fre_start(&self) -> u64 {
        self.body_start() + u64::from(self.fre_offset)
    }

    #[inline]
    fn fre_end(&self) -> u64 {
        self.fre_start() + u64::from(self.fre_length)
    }

    /// Bytes of the FDE array, counted from the start of the blob.
    #[inline]
    pub fn fde_array(&self) -> Range<usize> {
        self.fde_start() as usize..self.fde_end() as usize
    }

    /// Bytes of the FRE sub-section, counted from the start of the blob.
    #[inline]
    pub fn fre_area(&self) -> Range<usize> {
        self.fre_start() as usize..self.fre_end() as usize
    }

    /// Size of the whole blob in bytes: headers, FDE array, FRE sub-section, and the bytes between them.
    pub fn blob_size(&self) -> usize {
        self.body_start().max(self.fde_end()).max(self.fre_end()) as usize
    }

    /// Offset of FDE `index` from the start of the blob. Its start field has the same offset. `None`: the
    /// array is shorter.
    #[inline]
    pub fn fde_position(&self, index: u32) -> Option<usize> {
        (index < self.fde_count).then(|| self.fde_start() as usize + index as usize * self.fde_size())
    }

    /// Index of the FDE whose start field lies at `offset` bytes from the start of the blob. A relocation at
    /// that offset belongs to it. `None`: no FDE starts there.
    #[inline]
    pub fn fde_at(&self, offset: usize) -> Option<u32> {
        let relative = offset.checked_sub(self.fde_start() as usize)?;
        let index = u32::try_from(relative / self.fde_size()).ok()?;
        (relative.is_multiple_of(self.fde_size()) && index < self.fde_count).then_some(index)
    }

    /// Whether function starts count from their own field. Otherwise they count from the header.
    #[inline]
    pub fn is_field_relative(&self) -> bool {
        self.flags.contains(Flags::FIELD_RELATIVE)
    }

    /// Whether the blob claims that its FDEs ascend by function address.
    #[inline]
    pub fn is_sorted(&self) -> bool {
        self.flags.contains(Flags::SORTED)
    }

    /// The 28 bytes of this header. It must be a blob's header.
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..2].copy_from_slice(&self.endian.u16_bytes(MAGIC));
        bytes[2] = self.version as u8;
        bytes[3] = self.flags.0;
        bytes[4] = self.abi as u8;
        bytes[5] = self.fixed_fp_offset as u8;
        bytes[6] = self.fixed_ra_offset as u8;
        bytes[7] = self.auxiliary_length;
        let words = [self.fde_count, self.fre_count, self.fre_length, self.fde_offset, self.fre_offset];
        for (place, word) in bytes[8..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&self.endian.u32_bytes(word));
        }
        bytes
    }
}
