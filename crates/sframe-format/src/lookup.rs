//! From a program counter to its row.
//!
//! A sorted blob is bisected, one that is not is searched from end to end.
//! [`SectionIndex`](crate::SectionIndex) serves sections of many blobs: it picks the blob by address when the
//! blobs are sorted and do not overlap, and makes a sorted list of all functions otherwise.

use core::ops::Range;

use crate::abi::Abi;
use crate::blob::{Blob, Section};
use crate::endian::Endian;
use crate::error::{Error, ErrorKind};
use crate::fde::Fde;
use crate::fre::{Attributes, PauthKey, PcType};
use crate::rules::{Row, Rules};
use crate::version::Version;

/// While a search has more candidates than this, it reads entries that every search reads: they stay in the
/// cache.
const OFTEN_READ: usize = 512;

/// The row that covers a program counter, and its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Architecture of the blob.
    pub abi: Abi,
    /// The function's entry.
    pub fde: Fde,
    /// The attributes that all of its rows share.
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
    /// The FDE whose function holds the address `pc`.
    #[inline]
    pub fn find_fde(&self, pc: u64) -> Option<Fde> {
        // Functions of units, whose entries have another size, are never marked sorted.
        if !self.header().is_sorted() {
            return self.fdes().find(|fde| covers(fde, pc));
        }
        self.find_fde_between(0, self.header().fde_count, pc)
    }

    /// [`Blob::find_fde`] in a sorted blob, among the FDEs from `low` to before `high`, which must hold the
    /// last function that starts at or before `pc`.
    #[inline]
    pub(crate) fn find_fde_between(&self, low: u32, high: u32, pc: u64) -> Option<Fde> {
        let last = self.fde(self.last_not_after(low, high, pc)?)?;
        if covers(&last, pc) { Some(last) } else { self.find_fde_with_start_of(&last, pc) }
    }

    /// An FDE before `last` with the same start that holds `pc`: several may start at one address (folded
    /// functions, functions of size 0).
    #[cold]
    pub(crate) fn find_fde_with_start_of(&self, last: &Fde, pc: u64) -> Option<Fde> {
        let before = (0..last.index).rev().map_while(|index| self.fde(index));
        before.take_while(|fde| fde.address == last.address).find(|fde| covers(fde, pc))
    }

    /// The last FDE from `low` to before `high` that starts at or before `pc` in a sorted blob.
    #[inline]
    fn last_not_after(&self, low: u32, high: u32, pc: u64) -> Option<u32> {
        const V1: usize = Version::V1.fde_size();
        const V2: usize = Version::V2.fde_size();
        const V3: usize = Version::V3.fde_size();
        let range = low as usize..high as usize;
        let endian = self.header().endian;
        match (self.header().version, endian) {
            (Version::V3, Endian::Little) => {
                self.search::<V3>(range, pc, |fde| i64::from_le_bytes(wide(fde)))
            }
            (Version::V3, Endian::Big) => self.search::<V3>(range, pc, |fde| i64::from_be_bytes(wide(fde))),
            (Version::V2, _) => self.search::<V2>(range, pc, |fde| narrow(fde, endian)),
            (Version::V1, _) => self.search::<V1>(range, pc, |fde| narrow(fde, endian)),
        }
    }

    /// The last entry of `range` that starts at or before `pc`; `start` reads an entry's start field.
    #[inline]
    fn search<const SIZE: usize>(
        &self,
        range: Range<usize>,
        pc: u64,
        start: impl Fn(&[u8; SIZE]) -> i64,
    ) -> Option<u32> {
        let entries = self.fde_bytes().as_chunks().0;
        let (origin, stride) = self.start_origin();
        let found = last_that_holds(range, |index| {
            let raw = entries.get(index).map_or(0, &start);
            origin.wrapping_add(index as u64 * stride).wrapping_add_signed(raw) <= pc
        });
        found.map(|index| index as u32)
    }

    /// The row that holds at the address `pc`, if the blob has a function there and that function a row.
    ///
    /// # Errors
    /// The function's attribute or rows are malformed.
    #[inline]
    pub fn lookup(&self, pc: u64) -> Result<Option<Match>, Error> {
        match self.find_fde(pc) {
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
        let row = Row { start: 0, rules: Rules::Outermost };
        let mut found = Match { abi: self.header().abi, fde, attributes, row };
        let offset = pc.wrapping_sub(fde.address);
        match self.row_into(&fde, &attributes, offset, &mut found.row.rules)? {
            Some(start) => {
                found.row.start = start;
                Ok(Some(found))
            }
            None => Ok(None),
        }
    }

    /// The row that holds `offset` bytes from the start of the function of `fde`.
    ///
    /// # Errors
    /// The rows are malformed, or [`ErrorKind::RepeatSize`].
    pub fn row_at(&self, fde: &Fde, attributes: &Attributes, offset: u64) -> Result<Option<Row>, Error> {
        let mut row = Row { start: 0, rules: Rules::Outermost };
        let start = self.row_into(fde, attributes, offset, &mut row.rules)?;
        Ok(start.map(|start| Row { start, ..row }))
    }

    /// [`Blob::row_at`] in place: writes the rules and returns the row's start.
    #[inline]
    pub(crate) fn row_into(
        &self,
        fde: &Fde,
        attributes: &Attributes,
        mut offset: u64,
        rules: &mut Rules,
    ) -> Result<Option<u32>, Error> {
        if offset >= u64::from(fde.size) {
            return Ok(None);
        }
        if attributes.fre_count == 0 {
            let implied = self.rules_without_rows(attributes);
            return Ok(implied.map(|implied| {
                *rules = implied;
                0
            }));
        }
        if attributes.pc_type == PcType::Mask {
            let repeat = u64::from(attributes.repeat_size);
            offset = offset.checked_rem(repeat).ok_or(Error::new(fde.offset, ErrorKind::RepeatSize))?;
        }
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        match self.fres(attributes).find(offset) {
            Some(Ok(fre)) => {
                self.decode_fre_into(attributes, &fre, rules)?;
                Ok(Some(fre.start))
            }
            Some(Err(error)) => Err(error),
            None => Ok(None),
        }
    }
}

/// The last index of `range` for which `condition` holds. It must hold up to some index and for none behind
/// it.
///
/// Searches in quarters, without branches on the result: they would be mispredicted every other time. The
/// three entries that a step looks at are fetched at the same time, so that half as many cache misses follow
/// each other as in bisection. The first steps read the same entries in every search, which stay in the
/// cache; later each entry is a miss, and a step goes by eighths.
#[inline]
pub(crate) fn last_that_holds(range: Range<usize>, condition: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut count) = (range.start, range.len());
    while count > OFTEN_READ {
        go_on_with_part::<4>(&mut low, &mut count, &condition);
    }
    while count >= 16 {
        go_on_with_part::<8>(&mut low, &mut count, &condition);
    }
    while count > 4 {
        go_on_with_part::<4>(&mut low, &mut count, &condition);
    }
    let last = |step: usize| usize::from(step < count) & usize::from(condition(low + step));
    low += last(1) + last(2) + last(3);
    (count > 0 && condition(low)).then_some(low)
}

/// Narrows a range to one of its `PARTS` equal parts. The last part also has the remainder of the division.
#[inline(always)]
fn go_on_with_part<const PARTS: usize>(
    low: &mut usize,
    count: &mut usize,
    condition: &impl Fn(usize) -> bool,
) {
    let part = *count / PARTS;
    let passed: usize = (1..PARTS).map(|number| usize::from(condition(*low + number * part))).sum();
    *low += passed * part;
    *count -= (PARTS - 1) * part;
}

/// The start field of V3.
#[inline]
fn wide(fde: &[u8; Version::V3.fde_size()]) -> [u8; 8] {
    fde.first_chunk().copied().unwrap_or_default()
}

/// The start field of V1 and V2.
#[inline]
fn narrow(fde: &[u8], endian: Endian) -> i64 {
    endian.read_i32(fde, 0).unwrap_or(0).into()
}

#[inline]
fn covers(fde: &Fde, pc: u64) -> bool {
    pc.wrapping_sub(fde.address) < u64::from(fde.size)
}

impl Section<'_> {
    /// The row that holds at the address `pc`, looked for in every blob in turn, without allocation. For more
    /// than a few look-ups in a section of many blobs make a [`SectionIndex`](crate::SectionIndex).
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

#[cfg(test)]
mod tests {
    use super::last_that_holds;
    use core::cell::Cell;

    /// Whatever is in a table, also if the condition holds for no beginning of the range, the number of
    /// probes depends on the length alone: two and a third for each bit of it, and some more.
    #[test]
    fn a_search_is_bounded_by_the_length_of_its_range() {
        let lengths =
            (0..3000).chain((12..=32).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]));
        let conditions: [fn(usize) -> bool; 5] = [
            |_| true,
            |_| false,
            |at| at.is_multiple_of(2),
            |at| at.count_ones() > 3,
            |at| at.wrapping_mul(0x9e37_79b9) >> 7 & 1 == 0,
        ];
        for length in lengths {
            for condition in conditions {
                let probes = Cell::new(0);
                // Up to three places behind the range are looked at, whose answers do not count.
                let probe = |at: usize| {
                    assert!((5..5 + length + 3).contains(&at) || length == 0);
                    probes.set(probes.get() + 1);
                    condition(at)
                };
                let found = last_that_holds(5..5 + length, probe);
                assert!(found.is_none_or(|at| (5..5 + length).contains(&at) && condition(at)));
                let bits = usize::BITS - length.leading_zeros();
                assert!(probes.get() <= 2 * bits + 16, "{} probes for {length}", probes.get());
            }
        }
    }
}
