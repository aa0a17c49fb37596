//! Finds the records of `.eh_frame` (LSB, "Exception Frames"), including those after a terminator.
//!
//! A length of zero ends the section for everyone who walks it. But linkers place sections one after the
//! other, so records may follow the terminator of a start-up file. At run time, `.eh_frame_hdr` leads to
//! these.

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
    /// Whether a terminator precedes it.
    pub behind: bool,
}

/// Walks all records, up to the first that does not fit.
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

    /// Does the same as [`Records::finish`], for a walk up to the first terminator.
    ///
    /// # Errors
    /// The length after the last record is malformed, and no terminator precedes it.
    pub fn finish_walk(&self) -> Result<(), gimli::Error> {
        if self.behind { Ok(()) } else { self.finish() }
    }

    /// Whether the records fill the section. All must have been read.
    ///
    /// # Errors
    /// The length after the last record is malformed.
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

/// The record at this offset. `None`: a terminator is there, or the record does not fit.
pub(super) fn record_at(endian: Endian, data: &[u8], offset: usize) -> Option<Record> {
    let (id, length) = match endian.read_u32(data, offset)? {
        0 => return None,
        u32::MAX => (offset.checked_add(12)?, endian.read_i64(data, offset + 4)?.try_into().ok()?),
        length => (offset.checked_add(4)?, length as usize),
    };
    let end = id.checked_add(length).filter(|&end| end <= data.len())?;
    Some(Record { offset, id, end, behind: false })
}

/// The number of bytes up to the end of the records, with their terminator. Records behind a terminator count
/// as far as a table leads to them.
pub(super) fn extent(endian: Endian, data: &[u8], address: u64, header: Option<(&[u8], u64)>) -> usize {
    let header = header.and_then(|(header, at)| Header::parse(endian, header, at, address));
    let last = header.and_then(|header| header.offsets().max()).unwrap_or(0);
    let reached = |record: &Record| !record.behind || record.offset as u64 <= last;
    let records = Records { endian, data, offset: 0, behind: false };
    let end = records.take_while(reached).last().map_or(0, |record| record.end);
    let is_terminated = endian.read_u32(data, end) == Some(0);
    end + if is_terminated { 4 } else { 0 }
}

/// The FDEs after a terminator that a table leads to, ascending.
pub(super) fn listed_behind(abi: Abi, data: &[u8], header: &Header<&[u8]>) -> Vec<Record> {
    let mut listed: Vec<u64> = header.offsets().collect();
    listed.sort_unstable();
    let last = listed.last().copied().unwrap_or(0);
    let reached = Records::new(abi, data).take_while(|record| record.offset as u64 <= last);
    let is_listed = |record: &Record| listed.binary_search(&(record.offset as u64)).is_ok();
    reached.filter(|record| record.behind && is_listed(record)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: u32, rest: &[u8]) -> Vec<u8> {
        [&length.to_le_bytes()[..], rest].concat()
    }

    fn size(parts: &[Vec<u8>], header: Option<(&[u8], u64)>) -> usize {
        extent(Endian::Little, &parts.concat(), 0x2000, header)
    }

    #[test]
    fn records_end_with_a_zero_or_before_what_is_none() {
        assert_eq!(size(&[], None), 0);
        assert_eq!(size(&[record(2, b"ab"), record(0, b""), record(1, b"c")], None), 10);
        assert_eq!(size(&[record(2, b"ab"), record(9, b"c")], None), 6);
        assert_eq!(size(&[record(2, b"ab"), b"xy".to_vec()], None), 6);
        assert_eq!(size(&[record(u32::MAX, b"")], None), 0);
    }

    #[test]
    fn records_behind_a_terminator_count_as_far_as_a_table_leads() {
        let id = [0; 4];
        let parts = [record(4, &id), record(0, b""), record(4, &id), record(4, &id), record(0, b"")];
        // The header is at 0x1000, and its table has one entry: the record at offset 12.
        let fields = [0x2000 - 0x1004, 1, 0x3000 - 0x1000, 0x2000 + 12 - 0x1000_u32];
        let header = [&[1, 0x1b, 0x03, 0x3b][..], &fields.map(u32::to_le_bytes).concat()].concat();
        assert_eq!(size(&parts, Some((&header, 0x1000))), 20);
        assert_eq!(size(&parts, Some((&header, 0x1010))), 12);
        assert_eq!(size(&parts, None), 12);
    }
}
