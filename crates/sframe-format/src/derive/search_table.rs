//! `.eh_frame_hdr`, the sorted table of all FDEs of a linked file (LSB, "The .eh_frame_hdr section").

use core::ops::Deref;

use crate::endian::Endian;

/// Version 1, and a distance from the field itself in 4 bytes: so all linkers write the pointer to
/// `.eh_frame`.
const TO_SECTION: [u8; 2] = [1, 0x1b];

/// The address of `.eh_frame` by the `.eh_frame_hdr` at an address.
pub(super) fn section(endian: Endian, header: &[u8], address: u64) -> Option<u64> {
    let distance = endian.read_i32(header, 4).filter(|_| header.starts_with(&TO_SECTION))?;
    Some(address.wrapping_add(4).wrapping_add_signed(distance.into()))
}

/// `.eh_frame_hdr` as all linkers write it: sorted, with distances of 4 bytes.
#[derive(Debug)]
pub(super) struct Header<D> {
    data: D,
    address: u64,
    /// The address of `.eh_frame`.
    section: u64,
    count: usize,
    endian: Endian,
}

impl<D: Deref<Target = [u8]>> Header<D> {
    /// Size of the part before the table: version, three encodings, the distance to `.eh_frame`, the number
    /// of FDEs.
    const SIZE: usize = 12;
    /// Version 1, then three encodings, all of 4 bytes: a distance from the field itself, a plain number,
    /// distances from the header.
    const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

    /// The header of the section at `section`. `None`: it belongs to another section, or has no table.
    pub fn parse(endian: Endian, data: D, address: u64, section: u64) -> Option<Self> {
        let count = endian.read_u32(&data, 8)? as usize;
        let is_of = self::section(endian, &data, address) == Some(section);
        let fits = count > 0 && count <= (data.len() - Self::SIZE) / 8;
        (data.starts_with(&Self::FORM) && is_of && fits).then_some(Self {
            data,
            address,
            section,
            count,
            endian,
        })
    }

    /// The start of an FDE's range, and its offset in `.eh_frame`.
    pub fn entry(&self, place: usize) -> Option<(u64, u64)> {
        let entry = self.entries().get(place)?;
        Some((self.address(entry, 0)?, self.address(entry, 4)?.wrapping_sub(self.section)))
    }

    /// The offsets in `.eh_frame` that the table leads to.
    pub fn offsets(&self) -> impl Iterator<Item = u64> {
        let address = |entry| Some(self.address(entry, 4)?.wrapping_sub(self.section));
        self.entries().iter().filter_map(address)
    }

    fn entries(&self) -> &[[u8; 8]] {
        let (entries, _) = self.data.get(Self::SIZE..).unwrap_or_default().as_chunks();
        entries.get(..self.count).unwrap_or_default()
    }

    /// The address in one of the two fields of an entry.
    fn address(&self, entry: &[u8; 8], field: usize) -> Option<u64> {
        let distance = self.endian.read_i32(entry, field)?;
        Some(self.address.wrapping_add_signed(distance.into()))
    }

    /// Number of the FDEs that start at or before `pc`.
    pub fn place(&self, pc: u64) -> usize {
        self.entries().partition_point(|entry| self.address(entry, 0).is_some_and(|start| start <= pc))
    }
}
