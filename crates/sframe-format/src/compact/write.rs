//! Joins shapes and addresses: the second step of writing a table.

use alloc::vec::Vec;

use super::entries::Entries;
use super::functions::{Functions, ShapeId, Stretch};
use super::{Header, LONG_RULE_SIZE, PAGE, WholeHeader};
use crate::abi::Abi;
use crate::error::{Error, ErrorKind};

/// The largest number of entries that a table may have.
const MAX_ENTRIES: u64 = 1 << 28;

/// How many regions and pages a table may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Number of regions.
    pub regions: u32,
    /// Number of pages.
    pub pages: u32,
}

impl Pages {
    /// Regions and pages that are enough for functions in these address ranges.
    pub fn of_ranges(ranges: impl IntoIterator<Item = core::ops::Range<u64>>) -> Self {
        let mut sum = Self::default();
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            let pages = (range.end - range.start).div_ceil(PAGE);
            sum.regions = sum.regions.saturating_add(1);
            sum.pages = sum.pages.saturating_add(u32::try_from(pages).unwrap_or(u32::MAX));
        }
        sum
    }
}

/// A table without its addresses.
#[derive(Clone, Debug)]
pub struct Shapes {
    pub(super) abi: Abi,
    pub(super) version: u8,
    pub(super) endian: crate::Endian,
    /// Version 2: the place of each rule's layout, and the layouts.
    pub(super) layout_numbers: Vec<u16>,
    pub(super) layouts: Vec<u8>,
    pub(super) step_width: u8,
    pub(super) place_width: u8,
    pub(super) rules: Vec<u64>,
    pub(super) long_rules: Vec<[u8; LONG_RULE_SIZE]>,
    pub(super) steps: Vec<u32>,
    pub(super) bytes: Vec<u8>,
    pub(super) shape_bytes: u32,
    /// Offset of each shape in `bytes`.
    pub(super) places: Vec<u32>,
    pub(super) functions: Functions,
    /// By [`ShapeId`], the number of entries of a function.
    pub(super) counts: Vec<u64>,
}

/// Appends as many numbers of `WIDTH` bytes as there are entries.
fn write_numbers<N, const WIDTH: usize>(
    numbers: &[N],
    bytes: &mut Vec<u8>,
    write: impl Fn(&N) -> [u8; WIDTH],
) {
    let start = bytes.len();
    bytes.resize(start + WIDTH * numbers.len(), 0);
    let (room, _) = bytes[start..].as_chunks_mut();
    room.iter_mut().zip(numbers).for_each(|(room, number)| *room = write(number));
}

/// The low bytes of a number.
fn low_bytes<const WIDTH: usize>(endian: crate::Endian, number: u32) -> [u8; WIDTH] {
    let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
    core::array::from_fn(|at| match endian {
        crate::Endian::Little => little[at],
        crate::Endian::Big => big[at + 4 - WIDTH],
    })
}

impl Shapes {
    /// Number of entries of a function.
    pub fn entries(&self, function: ShapeId) -> u64 {
        self.counts.get(function.0 as usize).copied().unwrap_or(0)
    }

    /// Size in bytes of a table with this many regions, pages and entries.
    pub fn size(&self, pages: Pages, entries: u64) -> u64 {
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        self.header(pages, entries, WholeHeader::default()).needed()
    }

    pub(super) fn header(&self, pages: Pages, entries: u32, whole: WholeHeader) -> Header {
        let whole = WholeHeader { layout_bytes: self.layouts.len() as u32, ..whole };
        Header {
            version: self.version,
            abi: self.abi,
            endian: self.endian,
            whole,
            step_width: self.step_width,
            place_width: self.place_width,
            length: 0,
            regions: pages.regions,
            rules: self.rules.len() as u32,
            long_rules: self.long_rules.len() as u32,
            pages: pages.pages,
            steps: self.steps.len() as u32,
            entries,
            shape_bytes: self.shape_bytes,
        }
    }

    /// The table of functions at these addresses, which must ascend, for a section at `address`.
    ///
    /// # Errors
    /// [`ErrorKind::CompactOrder`]: addresses do not ascend strictly. [`ErrorKind::CompactNumber`]: a number
    /// was not handed out. [`ErrorKind::CompactFull`]: there are too many entries.
    /// [`ErrorKind::CompactLength`]: the table would have 4 GiB or more.
    pub fn to_bytes(&self, address: u64, functions: &[(u64, ShapeId)]) -> Result<Vec<u8>, Error> {
        let entries = self.entries_at(functions.len(), |place| functions[place], |_, _, _| {})?;
        let header = self.header_of(&entries, WholeHeader::default())?;
        let mut bytes = Vec::with_capacity(header.length as usize);
        self.write_common(&header, address, &entries, &mut bytes);
        debug_assert_eq!(bytes.len() as u64, header.needed());
        Ok(bytes)
    }

    /// The header of a table with these entries. Of `whole`, the bytes of layouts are known here.
    pub(super) fn header_of(&self, entries: &Entries, whole: WholeHeader) -> Result<Header, Error> {
        let pages = Pages { regions: entries.regions.len() as u32, pages: entries.pages.len() as u32 };
        let mut header = self.header(pages, entries.starts.len() as u32, whole);
        let needed = header.needed();
        header.length = u32::try_from(needed)
            .map_err(|_| Error::new(0, ErrorKind::CompactLength { header: u32::MAX, needed }))?;
        Ok(header)
    }

    /// Appends the parts that both versions have.
    pub(super) fn write_common(&self, header: &Header, address: u64, entries: &Entries, bytes: &mut Vec<u8>) {
        let endian = self.endian;
        header.write(bytes);
        let ends = entries.regions.iter().skip(1).map(|region| region.1).chain([header.pages]);
        for (&(start, first), end) in entries.regions.iter().zip(ends) {
            bytes.extend(endian.i64_bytes(start.wrapping_sub(address) as i64));
            bytes.extend(endian.u32_bytes(end - first));
            bytes.extend(endian.u32_bytes(first));
        }
        self.rules.iter().for_each(|&word| bytes.extend(endian.i64_bytes(word as i64)));
        self.long_rules.iter().for_each(|rule| bytes.extend(rule));
        for first in entries.pages.iter().copied().chain([header.entries]) {
            bytes.extend(endian.u32_bytes(first));
        }
        for &step in &self.steps {
            match self.step_width {
                2 => bytes.extend(endian.u16_bytes(step as u16)),
                _ => bytes.extend(endian.u32_bytes(step)),
            }
        }
        write_numbers(&entries.starts, bytes, |&start| endian.u16_bytes(start));
        match self.place_width {
            2 => write_numbers(&entries.places, bytes, |&place| low_bytes::<2>(endian, place)),
            3 => write_numbers(&entries.places, bytes, |&place| low_bytes::<3>(endian, place)),
            _ => write_numbers(&entries.places, bytes, |&place| low_bytes::<4>(endian, place)),
        }
        bytes.extend(&self.bytes);
    }

    /// Writes [`Shapes::to_bytes`] to the start of `out`, and zeros after it. Returns the length of the
    /// table.
    ///
    /// # Errors
    /// Those of [`Shapes::to_bytes`], or `out` is too small.
    pub fn write(&self, address: u64, functions: &[(u64, ShapeId)], out: &mut [u8]) -> Result<usize, Error> {
        let bytes = self.to_bytes(address, functions)?;
        let available = out.len() as u64;
        let Some((table, rest)) = out.split_at_mut_checked(bytes.len()) else {
            let kind = ErrorKind::Truncated { what: "output", needed: bytes.len() as u64, available };
            return Err(Error::new(0, kind));
        };
        table.copy_from_slice(&bytes);
        rest.fill(0);
        Ok(bytes.len())
    }

    /// The entries of so many functions, whose addresses and shapes `place` tells. `note` learns the
    /// function, the number of the entry, and whether the entry continues the function.
    pub(super) fn entries_at(
        &self,
        functions: usize,
        place: impl Fn(usize) -> (u64, ShapeId),
        mut note: impl FnMut(usize, u32, bool),
    ) -> Result<Entries, Error> {
        let full = Error::new(0, ErrorKind::CompactFull { what: "entries" });
        let mut entries = Entries::with_capacity(functions);
        let mut left = MAX_ENTRIES;
        let mut next = (functions > 0).then(|| place(0));
        for number in 0..functions {
            let Some((address, function)) = next else { break };
            next = (number + 1 < functions).then(|| place(number + 1));
            // If functions overlap, the later one counts.
            let end = next.map(|next| next.0);
            if end.is_some_and(|end| end <= address) {
                return Err(Error::new(0, ErrorKind::CompactOrder { what: "functions" }));
            }
            if function.0 as usize >= self.functions.len() {
                let kind = ErrorKind::CompactNumber { what: "function", found: function.0 };
                return Err(Error::new(0, kind));
            }
            // Most functions are one piece.
            if let Some(shape) = self.functions.piece(function.0) {
                left = left.checked_sub(1).ok_or(full)?;
                note(number, entries.starts.len() as u32, false);
                entries.push(address, self.places[shape as usize]);
                continue;
            }
            for Stretch { offset, shape, count, stride } in self.functions.get(function.0) {
                for repetition in 0..u64::from(count) {
                    let ahead = u64::from(offset) + repetition * u64::from(stride);
                    // No byte exists beyond the last address.
                    let Some(start) = address.checked_add(ahead) else { break };
                    if end.is_some_and(|end| start >= end) {
                        break;
                    }
                    left = left.checked_sub(1).ok_or(full)?;
                    note(number, entries.starts.len() as u32, ahead > 0);
                    entries.push(start, self.places[shape as usize]);
                }
            }
        }
        Ok(entries)
    }
}
