//! Where the records of `.eh_frame` are (LSB, "Exception Frames"), also behind a terminator.
//!
//! A length of zero ends the section for whoever walks it. Linkers put sections behind one another, though,
//! so records may stand behind the terminator of a start-up file; at run time they are found where
//! `.eh_frame_hdr` leads to them.

use alloc::vec::Vec;

use gimli::{EndianSlice, Reader, RunTimeEndian};

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

    /// As [`Records::finish`], for whoever walks up to the first terminator.
    ///
    /// # Errors
    /// The length of the record behind the last is malformed, and no terminator stands before it.
    pub fn finish_walk(&self) -> Result<(), gimli::Error> {
        if self.behind { Ok(()) } else { self.finish() }
    }

    /// Whether they fill the section, once all were given.
    ///
    /// # Errors
    /// The length of the record behind the last is malformed.
    pub fn finish(&self) -> Result<(), gimli::Error> {
        let endian = match self.endian {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let mut rest = EndianSlice::new(self.data.get(self.offset..).unwrap_or_default(), endian);
        if rest.is_empty() {
            return Ok(());
        }
        let (length, _) = rest.read_initial_length()?;
        rest.skip(length)
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while self.endian.read_u32(self.data, self.offset)? == 0 {
            (self.offset, self.behind) = (self.offset + 4, true);
        }
        let record = record_at(self.endian, self.data, self.offset)?;
        self.offset = record.end;
        Some(Record { behind: self.behind, ..record })
    }
}

/// The record at an offset; `None` for a terminator, or if it does not fit.
pub(super) fn record_at(endian: Endian, data: &[u8], offset: usize) -> Option<Record> {
    let (id, length) = match endian.read_u32(data, offset)? {
        0 => return None,
        u32::MAX => (offset.checked_add(12)?, endian.read_i64(data, offset + 4)?.try_into().ok()?),
        length => (offset.checked_add(4)?, length as usize),
    };
    let end = id.checked_add(length).filter(|&end| end <= data.len())?;
    Some(Record { offset, id, end, behind: false })
}

/// The FDEs behind a terminator that a table leads to, ascending.
pub(super) fn listed_behind(
    abi: Abi,
    data: &[u8],
    address: u64,
    (header, header_address): (&[u8], u64),
) -> Vec<Record> {
    let Some(header) = Header::parse(abi.endian(), header, header_address, address) else {
        return Vec::new();
    };
    let mut listed: Vec<u64> = header.offsets().collect();
    listed.sort_unstable();
    let last = listed.last().copied().unwrap_or(0);
    let reached = Records::new(abi, data).take_while(|record| record.offset as u64 <= last);
    let is_listed = |record: &Record| listed.binary_search(&(record.offset as u64)).is_ok();
    reached.filter(|record| record.behind && is_listed(record)).collect()
}
