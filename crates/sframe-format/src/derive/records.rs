//! Where the records of `.eh_frame` are (LSB, "Exception Frames"), also behind a terminator.
//!
//! A length of zero ends the section for whoever walks it. Linkers put sections behind one another, though, so records may
//! stand behind the terminator of a start-up file; at run time they are found where `.eh_frame_hdr` leads to them.

use alloc::vec::Vec;

use super::search_table::Header;
use crate::abi::Abi;
use crate::endian::Endian;

/// A CIE or an FDE.
pub(super) struct Record {
    /// Offset in the section.
    pub offset: usize,
    /// Offset of the field that tells CIEs from FDEs.
    pub id: usize,
    /// Offset of its end.
    pub end: usize,
    /// Whether a terminator stands before it.
    pub behind: bool,
}

/// Walks over all records, until one does not fit.
pub(super) struct Records<'data> {
    endian: Endian,
    data: &'data [u8],
    offset: usize,
    behind: bool,
}

impl<'data> Records<'data> {
    pub fn new(abi: Abi, data: &'data [u8]) -> Self {
        Self { endian: abi.endian(), data, offset: 0, behind: false }
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        loop {
            let offset = self.offset;
            let (id, length) = match self.endian.read_u32(self.data, offset)? {
                0 => {
                    (self.offset, self.behind) = (offset + 4, true);
                    continue;
                }
                u32::MAX => (offset + 12, self.endian.read_i64(self.data, offset + 4)?.try_into().ok()?),
                length => (offset + 4, length as usize),
            };
            let end = id.checked_add(length).filter(|&end| end <= self.data.len())?;
            self.offset = end;
            return Some(Record { offset, id, end, behind: self.behind });
        }
    }
}

/// The offsets of the FDEs behind a terminator that a table leads to, ascending.
pub(super) fn listed_behind(
    abi: Abi,
    data: &[u8],
    address: u64,
    (header, header_address): (&[u8], u64),
) -> Vec<usize> {
    let Some(header) = Header::parse(abi.endian(), header, header_address, address) else {
        return Vec::new();
    };
    let mut listed: Vec<u64> = header.offsets().collect();
    listed.sort_unstable();
    let last = listed.last().copied().unwrap_or(0);
    let reached = Records::new(abi, data).take_while(|record| record.offset as u64 <= last);
    let is_listed = |record: &Record| listed.binary_search(&(record.offset as u64)).is_ok();
    reached.filter(|record| record.behind && is_listed(record)).map(|record| record.offset).collect()
}
