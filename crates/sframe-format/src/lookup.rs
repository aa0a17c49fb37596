//! From a program counter to its row.
//!
//! Inside a sorted blob the search guesses the place from the address (functions are spread about evenly over
//! text) and brackets it, which touches few cache lines; a blob that is not sorted is searched from end to end.
//! [`SectionIndex`](crate::SectionIndex) serves sections of many blobs: it picks the blob by address when the blobs are sorted and do
//! not overlap, and makes a sorted list of all functions otherwise.

use crate::abi::Abi;
use crate::blob::{Blob, Section};
use crate::error::{Error, ErrorKind};
use crate::fde::Fde;
use crate::fre::{Attributes, PauthKey, PcType};
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
        let mut index = self.last_not_after(pc)?;
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

    /// The last FDE that starts at or before `pc` in a sorted blob.
    fn last_not_after(&self, pc: u64) -> Option<u32> {
        let last = self.header().fde_count.checked_sub(1)?;
        let at = |index| self.function_address(index).map(|address| (index, address));
        let mut bracket = Bracket { low: at(0)?, high: at(last)? };
        if pc < bracket.low.1 {
            return None;
        }
        if pc >= bracket.high.1 {
            return Some(last);
        }
        while bracket.count() > BISECT {
            let count = bracket.count();
            let guess = bracket.guess(pc);
            let step = 1 << (count.ilog2() / 2);
            // A second probe on the other side of the target, about one standard deviation away.
            let other =
                if bracket.narrow(at(guess)?, pc) { guess + step } else { guess.saturating_sub(step) };
            if bracket.low.0 < other && other < bracket.high.0 {
                bracket.narrow(at(other)?, pc);
            }
            // Addresses that are not spread evenly must not cost more than bisection would.
            if bracket.count() > count / 2 {
                bracket.narrow(at(bracket.middle())?, pc);
            }
        }
        while bracket.count() > 1 {
            bracket.narrow(at(bracket.middle())?, pc);
        }
        Some(bracket.low.0)
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
        let mut found = None;
        for fre in self.fres(attributes) {
            let fre = fre?;
            if u64::from(fre.start) > offset {
                break;
            }
            found = Some(fre);
        }
        let Some(fre) = found else { return Ok(None) };
        let rules = self.decode_fre(attributes, &fre)?;
        Ok(Some(Row { start: fre.start, rules }))
    }
}

/// Brackets of at most this many entries are bisected: they lie in a few cache lines.
const BISECT: u32 = 16;

/// Two entries, as (index, address), with `low.1 <= pc < high.1`.
struct Bracket {
    low: (u32, u64),
    high: (u32, u64),
}

impl Bracket {
    fn count(&self) -> u32 {
        self.high.0 - self.low.0
    }

    fn middle(&self) -> u32 {
        self.low.0 + self.count() / 2
    }

    /// Where `pc` would be if addresses were spread evenly, strictly between the two entries.
    fn guess(&self, pc: u64) -> u32 {
        let (distance, span) = (pc - self.low.1, self.high.1 - self.low.1);
        match distance.checked_mul(self.count().into()) {
            Some(scaled) => self.low.0 + ((scaled / span) as u32).clamp(1, self.count() - 1),
            None => self.middle(),
        }
    }

    /// Takes in an entry between the two; true if it starts at or before `pc`.
    fn narrow(&mut self, entry: (u32, u64), pc: u64) -> bool {
        let not_after = entry.1 <= pc;
        *(if not_after { &mut self.low } else { &mut self.high }) = entry;
        not_after
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
