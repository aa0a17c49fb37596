//! Changes blobs in place, for a linker that knows the addresses.
//!
//! Concatenation moves no byte in a blob, but the linker has to write function starts. Each version counts
//! them from another place: V1 from its header, V3 from the start field, and V2 from either, as the header's
//! flag says. GNU as 2.40 to 2.44 leaves that flag clear in relocatable objects, although the relocations
//! compute field-relative values. So a linker calls [`BlobMut::make_field_relative`] first, and then
//! [`BlobMut::set_function_start`] for each FDE.

use crate::blob::{Blob, Section};
use crate::error::{Error, ErrorKind};
#[cfg(feature = "alloc")]
use crate::fre::PcType;
use crate::header::Header;
#[cfg(feature = "alloc")]
use crate::rules::Row;
use crate::version::{Flags, Version};
#[cfg(feature = "alloc")]
use alloc::vec::Vec;
#[cfg(feature = "alloc")]
use foldhash::fast::FixedState;
#[cfg(feature = "alloc")]
use hashbrown::{HashMap, HashSet};

/// Where the numbers of rows of functions are.
#[cfg(feature = "alloc")]
#[derive(Default)]
struct RowCounts {
    /// For each dead function: the offset of its entry, the offset of its rows in their sub-section, and
    /// their number.
    dead: Vec<(usize, u32, u32)>,
    /// The rows that live functions need (V3).
    living: HashSet<u32, FixedState>,
}

/// A blob that can be changed in place.
#[derive(Debug)]
pub struct BlobMut<'data> {
    header: Header,
    data: &'data mut [u8],
    address: u64,
}

impl<'data> BlobMut<'data> {
    /// The blob at the start of `data`. Its header is at `address` in memory (0 if it is not loaded).
    ///
    /// # Errors
    /// The first defect in the header. Offsets count from the start of `data`.
    ///
    /// ```
    /// use sframe_format::{Blob, BlobMut};
    /// // V2, x86-64, one FDE, flag for field-relative starts clear, as GNU as 2.44 writes it.
    /// let mut bytes = [0u8; 48];
    /// bytes[..7].copy_from_slice(&[0xe2, 0xde, 2, 0, 3, 0, 0xf8]);
    /// bytes[8] = 1;
    /// let mut blob = BlobMut::parse(&mut bytes, 0x4000).unwrap();
    /// blob.make_field_relative();
    /// blob.set_function_start(0, 0x1234).unwrap();
    /// assert_eq!(Blob::parse(&bytes, 0x4000).unwrap().fde(0).unwrap().address, 0x1234);
    /// assert_eq!(bytes[28..32], (0x1234 - 0x401c_i32).to_le_bytes());
    /// ```
    pub fn parse(data: &'data mut [u8], address: u64) -> Result<Self, Error> {
        let header = Header::parse(data)?;
        Ok(Self { header, data, address })
    }

    /// The same for a blob whose header was parsed before, in these bytes or in a copy. For a function of a
    /// [unit](crate::light), which has no header of its own, `data` and `address` are those of its start
    /// field.
    pub fn with_header(header: Header, data: &'data mut [u8], address: u64) -> Self {
        Self { header, data, address }
    }

    /// The header in its current state.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The blob, for reading.
    pub fn as_blob(&self) -> Blob<'_> {
        Section::new(self.data, self.address).blob_with(self.header, 0)
    }

    /// Sets or clears one flag of the header. Units have none of these flags, so this writes nothing to them.
    ///
    /// # Errors
    /// [`ErrorKind::FlagUnknown`]: the flag to set is not defined in this version.
    pub fn set_flag(&mut self, flag: Flags, on: bool) -> Result<(), Error> {
        let version = self.header.version;
        if on && !version.flags().contains(flag) {
            return Err(Error::new(3, ErrorKind::FlagUnknown { version, flag: flag.0 }));
        }
        if self.header.is_light() {
            return Ok(());
        }
        self.header.flags = self.header.flags.with(flag, on);
        if let Some(byte) = self.data.get_mut(3) {
            *byte = self.header.flags.0;
        }
        Ok(())
    }

    /// Sets or clears SORTED.
    pub fn set_sorted(&mut self, sorted: bool) {
        // Every version defines the flag.
        let _ = self.set_flag(Flags::SORTED, sorted);
    }

    /// Makes function starts count from their own fields, if the version has that flag (V2, V3). This does
    /// not convert the stored values: write all starts afterwards.
    pub fn make_field_relative(&mut self) {
        if self.header.version != Version::V1 {
            let _ = self.set_flag(Flags::FIELD_RELATIVE, true);
        }
    }

    /// Writes the start field of FDE `index`. By the version and flags of the header, it then decodes to
    /// `function_address`.
    ///
    /// # Errors
    /// [`ErrorKind::FdeIndex`], or [`ErrorKind::StartRange`] if the distance does not fit 4 bytes (V1, V2).
    /// The offset counts from the start of the blob. Nothing is written then.
    #[inline]
    pub fn set_function_start(&mut self, index: u32, function_address: u64) -> Result<(), Error> {
        let position = self.position(index)?;
        let base = if self.header.is_field_relative() { position as u64 } else { 0 };
        let distance = function_address.wrapping_sub(self.address.wrapping_add(base)) as i64;
        let width = self.header.version.start_width();
        if width == 8 {
            self.store(position, &self.header.endian.i64_bytes(distance));
            return Ok(());
        }
        let narrow = i32::try_from(distance)
            .map_err(|_| Error::new(position, ErrorKind::StartRange { distance, width }))?;
        self.store(position, &self.header.endian.i32_bytes(narrow));
        Ok(())
    }

    /// Marks FDEs dead, so that they match no address: it [empties](Self::empty) them and makes their starts
    /// decode to the blob's own address.
    ///
    /// # Errors
    /// [`ErrorKind::FdeIndex`].
    #[cfg(feature = "alloc")]
    pub fn mark_dead(&mut self, indices: &[u32]) -> Result<(), Error> {
        for &index in indices {
            self.set_function_start(index, self.address)?;
        }
        self.empty(indices)
    }

    /// Sets size and number of rows of these FDEs to 0. `indices` must not repeat. Libsframe ends the program
    /// if a row starts after the end of its function. No byte moves: the bytes of the rows stay, and the
    /// header's number of rows decreases.
    ///
    /// In V3 the number is next to the rows, and functions may share both. If a live function needs them, the
    /// dead one is pointed at other bytes of the sub-section that say "no rows". If there are no such bytes,
    /// it keeps its rows. Functions of units always keep their rows, because only the rows say where the next
    /// function starts.
    ///
    /// # Errors
    /// [`ErrorKind::FdeIndex`]. FDEs with malformed attributes stay as they are.
    #[cfg(feature = "alloc")]
    pub fn empty(&mut self, indices: &[u32]) -> Result<(), Error> {
        let start_width = usize::from(self.header.version.start_width());
        let mut rows_of = RowCounts::default();
        for &index in indices {
            let position = self.position(index)?;
            self.store(position + start_width, &[0; 4]);
            let blob = self.as_blob();
            if let Some(fde) = blob.fde(index)
                && let Ok(attributes) = blob.attributes(&fde)
            {
                rows_of.dead.push((position, fde.fre_offset, attributes.fre_count));
            }
        }
        if self.header.is_light() {
            return Ok(());
        }
        if self.header.version == Version::V3 && !rows_of.dead.is_empty() {
            let dead: HashSet<u32, FixedState> = indices.iter().copied().collect();
            let living = self.as_blob();
            let living = living.fdes().filter(|fde| !dead.contains(&fde.index));
            rows_of.living.extend(living.map(|fde| fde.fre_offset));
        }
        self.drop_rows(&rows_of);
        Ok(())
    }

    /// Gives functions fewer bytes (but some), and takes from them the rows that then start at or behind
    /// their ends. `sizes` has pairs of an FDE and its new size. No byte moves. Functions of units keep their
    /// rows, because these say where the next function starts, and so do functions that share them (V3).
    ///
    /// # Errors
    /// [`ErrorKind::FdeIndex`]. FDEs with malformed attributes stay as they are.
    #[cfg(feature = "alloc")]
    pub fn shorten(&mut self, sizes: &[(u32, u32)]) -> Result<(), Error> {
        let mut cut = Vec::new();
        for &(index, size) in sizes {
            let position = self.position(index)?;
            let blob = self.as_blob();
            let Some(fde) = blob.fde(index).filter(|fde| size < fde.size) else { continue };
            let Ok(attributes) = blob.attributes(&fde) else { continue };
            let starts_inside = |row: &Result<Row, Error>| row.as_ref().is_ok_and(|row| row.start < size);
            let inside = blob.rows(&attributes).take_while(starts_inside).count() as u32;
            let start_width = usize::from(self.header.version.start_width());
            self.store(position + start_width, &self.header.endian.u32_bytes(size));
            if attributes.pc_type == PcType::Increment && 0 < inside && inside < attributes.fre_count {
                cut.push((position, fde.fre_offset, inside, attributes.fre_count - inside));
            }
        }
        self.cut_rows(&cut);
        Ok(())
    }

    /// Takes rows from functions: the position of the FDE, the offset of its rows in their sub-section, and
    /// how many rows stay and go.
    #[cfg(feature = "alloc")]
    fn cut_rows(&mut self, cut: &[(usize, u32, u32, u32)]) {
        if self.header.is_light() || cut.is_empty() {
            return;
        }
        let mut users: HashMap<u32, u32, FixedState> = HashMap::default();
        if self.header.version == Version::V3 {
            self.as_blob().fdes().for_each(|fde| *users.entry(fde.fre_offset).or_default() += 1);
        }
        let area = self.header.fre_area();
        let mut dropped = 0u32;
        for &(position, offset, stay, go) in cut {
            if users.get(&offset).is_some_and(|&users| users > 1) {
                continue;
            }
            match self.header.version {
                Version::V1 | Version::V2 => self.store(position + 12, &self.header.endian.u32_bytes(stay)),
                Version::V3 => {
                    self.store(area.start + offset as usize, &self.header.endian.u16_bytes(stay as u16));
                }
            }
            dropped = dropped.wrapping_add(go);
        }
        self.header.fre_count = self.header.fre_count.wrapping_sub(dropped);
        self.store(12, &self.header.endian.u32_bytes(self.header.fre_count));
    }

    /// Sets the numbers of rows to 0 that belong to dead functions alone, and then finds such a number for
    /// the other dead functions.
    #[cfg(feature = "alloc")]
    fn drop_rows(&mut self, rows_of: &RowCounts) {
        let area = self.header.fre_area();
        let mut dropped = 0u32;
        let (shared, own): (Vec<_>, Vec<_>) =
            rows_of.dead.iter().partition(|(_, offset, _)| rows_of.living.contains(offset));
        for (position, offset, count) in own {
            match self.header.version {
                Version::V1 | Version::V2 => self.store(position + 12, &[0; 4]),
                Version::V3 => self.store(area.start + offset as usize, &[0; 2]),
            }
            dropped = dropped.wrapping_add(count);
        }
        let empty = if shared.is_empty() { None } else { self.as_blob().empty_attribute() };
        for (position, _, count) in shared {
            let Some(offset) = empty else { break };
            self.store(position + 12, &self.header.endian.u32_bytes(offset));
            dropped = dropped.wrapping_add(count);
        }
        self.header.fre_count = self.header.fre_count.wrapping_sub(dropped);
        self.store(12, &self.header.endian.u32_bytes(self.header.fre_count));
    }

    fn position(&self, index: u32) -> Result<usize, Error> {
        self.header.fde_position(index).ok_or(Error::new(
            self.header.fde_array().start,
            ErrorKind::FdeIndex { index, count: self.header.fde_count },
        ))
    }

    #[inline]
    fn store(&mut self, position: usize, bytes: &[u8]) {
        if let Some(place) = self.data.get_mut(position..position + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}
