//! From a program counter to its row.
//!
//! A sorted blob is bisected, one that is not is searched from end to end.
//! [`SectionIndex`](crate::SectionIndex) serves sections of many blobs: it picks the blob by address when the blobs are sorted and do
//! not overlap, and makes a sorted list of all functions otherwise.

use core::hint::select_unpredictable;
use core::ops::Range;

use crate::abi::Abi;
use crate::blob::{Blob, Section};
use crate::error::{Error, ErrorKind};
use crate::fde::Fde;
use crate::fre::{Attributes, PauthKey, PcType};
use crate::header::Version;
use crate::rules::Row;

/// The row that covers a program counter, and its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Architecture of the blob.
    pub abi: Abi,
    /// The function's entry.
    pub fde: Fde,
    /// What holds for all of its rows.
    pub attributes: Attributes,
    /// The row. For a function without rows it starts at 0.
    pub row: Row,
}

impl Match {
    /// Whether the function is a signal frame: its caller's program counter is that of the interrupted
    /// instruction, not a return address.
    pub fn is_signal(&self) -> bool {
        self.attributes.signal
    }

    /// The AArch64 signing key.
    pub fn pauth_key(&self) -> PauthKey {
        self.attributes.pauth_key
    }
}

impl<'data> Blob<'data> {
    /// Index of the FDE whose function holds the address `pc`.
    #[inline]
    pub fn find_fde(&self, pc: u64) -> Option<u32> {
        if !self.header().is_sorted() {
            return self.fdes().find(|fde| covers(fde, pc)).map(|fde| fde.index);
        }
        self.find_fde_between(0, self.header().fde_count, pc)
    }

    /// [`Blob::find_fde`] in a sorted blob when the last function that starts at or before `pc` is known to be one of
    /// the FDEs from `low` up to `high`.
    #[inline]
    pub(crate) fn find_fde_between(&self, low: u32, high: u32, pc: u64) -> Option<u32> {
        let mut index = self.last_not_after(low, high, pc)?;
        // Several FDEs may start at one address (folded functions, functions of size 0).
        let start = self.function_address(index)?;
        loop {
            if covers(&self.fde(index)?, pc) {
                return Some(index);
            }
            index = index.checked_sub(1)?;
            if self.function_address(index)? != start {
                return None;
            }
        }
    }

    /// The last FDE from `low` up to `high` that starts at or before `pc` in a sorted blob.
    #[inline]
    fn last_not_after(&self, low: u32, high: u32, pc: u64) -> Option<u32> {
        let range = low as usize..high as usize;
        let fdes = self.fde_bytes();
        match self.header().version {
            Version::V1 => self.bisect(fdes.as_chunks::<{ Version::V1.fde_size() }>().0, range, pc),
            Version::V2 => self.bisect(fdes.as_chunks::<{ Version::V2.fde_size() }>().0, range, pc),
            Version::V3 => self.bisect(fdes.as_chunks::<{ Version::V3.fde_size() }>().0, range, pc),
        }
    }

    /// Bisection without branches on what is found: they would be mispredicted every other time, which costs more
    /// than all the cache misses of a large table.
    #[inline]
    fn bisect<const SIZE: usize>(&self, entries: &[[u8; SIZE]], range: Range<usize>, pc: u64) -> Option<u32> {
        let (origin, stride) = self.start_origin();
        let endian = self.header().endian;
        let not_after = |index: usize, entry: &[u8; SIZE]| {
            let raw = match self.header().version {
                Version::V3 => endian.read_i64(entry, 0),
                _ => endian.read_i32(entry, 0).map(i64::from),
            };
            let origin = origin.wrapping_add(index as u64 * stride);
            origin.wrapping_add_signed(raw.unwrap_or(0)) <= pc
        };
        let (mut low, mut count) = (range.start, range.len());
        while count > 1 {
            let half = count / 2;
            let middle = low + half;
            low = select_unpredictable(not_after(middle, entries.get(middle)?), middle, low);
            count -= half;
        }
        not_after(low, entries.get(low)?).then_some(low as u32)
    }

    /// The row that holds at the address `pc`, if the blob has a function there and that function a row.
    ///
    /// # Errors
    /// The function's attribute or rows are malformed.
    #[inline]
    pub fn lookup(&self, pc: u64) -> Result<Option<Match>, Error> {
        match self.find_fde(pc).and_then(|index| self.fde(index)) {
            Some(fde) => self.lookup_in(fde, pc),
            None => Ok(None),
        }
    }

    /// The row that holds at the address `pc` in the function of `fde`, which covers it.
    ///
    /// # Errors
    /// The function's attribute or rows are malformed.
    #[inline]
    pub fn lookup_in(&self, fde: Fde, pc: u64) -> Result<Option<Match>, Error> {
        let attributes = self.attributes(&fde)?;
        let offset = pc.wrapping_sub(fde.address);
        let row = self.row_at(&fde, &attributes, offset)?;
        Ok(row.map(|row| Match { abi: self.header().abi, fde, attributes, row }))
    }

    /// The row that holds `offset` bytes from the start of the function of `fde`.
    ///
    /// # Errors
    /// The rows are malformed, or [`ErrorKind::RepeatSize`].
    pub fn row_at(&self, fde: &Fde, attributes: &Attributes, mut offset: u64) -> Result<Option<Row>, Error> {
        if offset >= u64::from(fde.size) {
            return Ok(None);
        }
        if attributes.fre_count == 0 {
            return Ok(self.rules_without_rows(attributes).map(|rules| Row { start: 0, rules }));
        }
        if attributes.pc_type == PcType::Mask {
            let repeat = u64::from(attributes.repeat_size);
            offset = offset.checked_rem(repeat).ok_or(Error::new(fde.offset, ErrorKind::RepeatSize))?;
        }
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let mut fres = self.fres(attributes);
        let found = match attributes.start_width {
            1 => fres.skip_to::<1>(offset),
            2 => fres.skip_to::<2>(offset),
            _ => fres.skip_to::<4>(offset),
        };
        let Some(fre) = found.then(|| fres.next()).flatten().transpose()? else { return Ok(None) };
        let rules = self.decode_fre(attributes, &fre)?;
        Ok(Some(Row { start: fre.start, rules }))
    }
}

#[inline]
fn covers(fde: &Fde, pc: u64) -> bool {
    pc.wrapping_sub(fde.address) < u64::from(fde.size)
}

impl Section<'_> {
    /// The row that holds at the address `pc`, looked for in every blob in turn, without allocation. For more than
    /// a few look-ups in a section of many blobs make a [`SectionIndex`](crate::SectionIndex).
    ///
    /// # Errors
    /// The function that covers `pc` is malformed.
    pub fn lookup(&self, pc: u64) -> Result<Option<Match>, Error> {
        for blob in self.blobs() {
            if let Some(found) = blob.lookup(pc)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
