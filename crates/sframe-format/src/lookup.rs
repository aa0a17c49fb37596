//! From a program counter to its row.
//!
//! A look-up bisects a sorted blob, and searches any other from end to end.
//! [`SectionIndex`](crate::SectionIndex) serves sections with many blobs: if the blobs are sorted and do not
//! overlap, it picks the blob by address, and otherwise it makes a sorted list of all functions.

use core::ops::Range;

use crate::abi::Abi;
use crate::blob::{Blob, Section};
use crate::endian::Endian;
use crate::error::{Error, ErrorKind};
use crate::fde::Fde;
use crate::fre::{Attributes, PauthKey, PcType};
use crate::rules::{Row, Rules};
use crate::version::Version;

/// While a search has more candidates than this, it reads entries that every search reads, and these stay in
/// the cache.
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
    /// The row. It starts at 0 for a function without rows.
    pub row: Row,
}

impl Match {
    /// Whether the function is a signal frame. Then its caller's program counter is that of the interrupted
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
    /// The FDE whose function covers the address `pc`.
    #[inline]
    pub fn find_fde(&self, pc: u64) -> Option<Fde> {
        // Functions of units have entries of another size, but they are never marked sorted.
        if !self.header().is_sorted() {
            return self.fdes().find(|fde| covers(fde, pc));
        }
        self.find_fde_between(0, self.header().fde_count, pc)
    }

    /// [`Blob::find_fde`] in a sorted blob, among the FDEs from `low` to before `high`. These must contain
    /// the last function that starts at or before `pc`.
    #[inline]
    pub(crate) fn find_fde_between(&self, low: u32, high: u32, pc: u64) -> Option<Fde> {
        let last = self.fde(self.last_not_after(low, high, pc)?)?;
        if covers(&last, pc) { Some(last) } else { self.find_fde_with_start_of(&last, pc) }
    }

    /// An FDE before `last` with the same start that covers `pc`. Several functions may start at one address
    /// (folded functions, functions of size 0).
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

    /// The last entry of `range` that starts at or before `pc`. `start` reads the start field of an entry.
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

    /// The row that holds at the address `pc`. `None`: the blob has no function there, or the function has no
    /// row there.
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

    /// The row that holds at the address `pc` in the function of `fde`, which must cover it.
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

    /// Does the work of [`Blob::row_at`] in place: writes the rules and returns the row's start.
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

/// The last index of `range` for which `condition` holds. It must hold up to some index and not after it.
///
/// This search divides the range into quarters and does not branch on results, because every other such
/// branch would be mispredicted. The processor fetches the three entries of a step at the same time, so half
/// as many cache misses follow each other as in a bisection. The first steps read the same entries in every
/// search, which stay in the cache. Later steps miss the cache for each entry, so these divide the range into
/// eighths.
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

/// Narrows a range to one of its `PARTS` equal parts. The last part also includes the remainder of the
/// division.
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

/// The start field in V3.
#[inline]
fn wide(fde: &[u8; Version::V3.fde_size()]) -> [u8; 8] {
    fde.first_chunk().copied().unwrap_or_default()
}

/// The start field in V1 and V2.
#[inline]
fn narrow(fde: &[u8], endian: Endian) -> i64 {
    endian.read_i32(fde, 0).unwrap_or(0).into()
}

#[inline]
fn covers(fde: &Fde, pc: u64) -> bool {
    pc.wrapping_sub(fde.address) < u64::from(fde.size)
}

impl Section<'_> {
    /// The row that holds at the address `pc`. This searches one blob after the other and allocates nothing.
    /// For more than a few look-ups in a section of many blobs, make a [`SectionIndex`](crate::SectionIndex).
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

    /// Whatever a table contains, the number of probes depends on the length of the range alone: two and a
    /// third for each bit of it, and some more. That holds even if the condition is not monotonic.
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
                // A search may look at up to three places after the range, and ignores their answers.
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
