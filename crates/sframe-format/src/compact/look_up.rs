//! From an address to its row. A look-up takes at most 80 probes for the region, 50 for the entry in its page
//! (`last_that_holds` looks at several places at a time), and 65 rows.

use core::ops::Deref;

use super::{CompactTable, PAGE, REGION_SIZE, View};
use crate::error::Error;
use crate::lookup::last_that_holds;
use crate::packed::Packed;
use crate::rules::UnwindRules;
use crate::unwind::{FrameAddress, Registers, UnwindError, step};

/// The row that a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactMatch {
    /// Address of the function, or of the piece of it that the entry describes.
    pub function: u64,
    /// Address of the row's first byte.
    pub start: u64,
    /// Bytes that the row covers.
    pub size: u32,
    /// The row's rules.
    pub rules: UnwindRules,
}

impl CompactMatch {
    /// Does a [`step`] by the rules of the row.
    ///
    /// # Errors
    /// See [`UnwindError`].
    #[inline]
    pub fn step<F>(
        &self,
        topmost: bool,
        registers: &mut Registers,
        read_word: &mut F,
    ) -> Result<Option<FrameAddress>, UnwindError>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        let UnwindRules { abi, signal, rules } = &self.rules;
        step(*abi, rules, topmost, *signal, registers, read_word)
    }
}

/// An entry, and the offset of the address from its start.
pub(super) struct Place {
    pub entry: u32,
    pub offset: u32,
    /// The number after that of the last entry in the page of the address.
    pub end: u32,
    /// Bytes from that page's start to the address.
    within: u32,
}

impl Place {
    /// The address at which the page of the address `pc` starts.
    pub fn page_start(&self, pc: u64) -> u64 {
        pc.wrapping_sub(self.within.into())
    }
}

/// A range of consecutive pages.
#[derive(Clone, Copy)]
pub(super) struct Region {
    /// Address of the first page.
    pub address: u64,
    /// Number of pages.
    pub pages: u32,
    /// Number of the first page.
    pub first: u32,
}

impl<D: Deref<Target = [u8]>> CompactTable<D> {
    /// The row that holds at the address `pc`.
    ///
    /// # Errors
    /// The look-up came across a defect of the table.
    #[inline]
    pub fn lookup(&self, pc: u64) -> Result<Option<CompactMatch>, Error> {
        let view = self.view();
        let Some(place) = view.place(pc) else { return Ok(None) };
        let Some(row) = view.rows(view.shape(place.entry))?.find(place.offset)? else { return Ok(None) };
        let function = pc.wrapping_sub(place.offset.into());
        let start = function.wrapping_add(row.start.into());
        let rules = view.unpacked(view.rule(row.rule)?)?;
        Ok(rules.map(|rules| CompactMatch { function, start, size: row.covered, rules }))
    }

    /// The rules at the address `pc` as a word. Rules that do not fit a word are written to `kept`.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn packed_at(&self, pc: u64, kept: &mut UnwindRules) -> Result<Packed, Error> {
        let view = self.view();
        let packed = view.packed_at(pc)?;
        if let crate::packed::Kind::Kept(_) = packed.kind()
            && let Some(rules) = view.unpacked(packed)?
        {
            *kept = rules;
            return Ok(Packed::kept(0));
        }
        Ok(packed)
    }
}

impl View<'_> {
    #[cfg_attr(not(feature = "alloc"), allow(dead_code))]
    #[inline]
    fn packed_at(&self, pc: u64) -> Result<Packed, Error> {
        let Some(place) = self.place(pc) else { return Ok(Packed::NO_ROW) };
        match self.rows(self.shape(place.entry))?.find(place.offset)? {
            Some(row) => self.rule(row.rule),
            None => Ok(Packed::NO_ROW),
        }
    }

    /// Region `number`.
    #[inline]
    pub(super) fn region(&self, number: u32) -> Region {
        let at = self.parts.regions + number as usize * REGION_SIZE;
        let start = self.endian().read_i64(self.data, at).unwrap_or(0);
        let address = self.address.wrapping_add_signed(start);
        Region { address, pages: self.u32(at + 8), first: self.u32(at + 12) }
    }

    /// The last entry that starts at or before `pc`, if it starts in the page of `pc` or in the page before.
    #[inline]
    pub(super) fn place(&self, pc: u64) -> Option<Place> {
        let regions = 0..self.header.regions as usize;
        let number = match regions.len() {
            1 => 0,
            _ => last_that_holds(regions, |number| self.region(number as u32).address <= pc)? as u32,
        };
        let region = self.region(number);
        let offset = pc.checked_sub(region.address)?;
        let page = u32::try_from(offset / PAGE).ok().filter(|&page| page <= region.pages)?;
        // A damaged table may refer to pages that it does not have.
        let place = region.first.checked_add(page).filter(|&place| place <= self.header.pages)?;
        let within = (offset % PAGE) as u32;
        let first = self.first_entry(place);
        let mut end = first;
        if page < region.pages {
            end = self.first_entry(place.checked_add(1)?).min(self.header.entries);
            let entries = first as usize..(end as usize).min(first as usize + PAGE as usize);
            let starts_before = |entry: usize| u32::from(self.start(entry as u32)) <= within;
            if let Some(entry) = last_that_holds(entries, starts_before) {
                let entry = entry as u32;
                let offset = within - u32::from(self.start(entry));
                return Some(Place { entry, offset, end, within });
            }
        }
        // The last entry of the previous page may reach into this one.
        let before = self.first_entry(place.checked_sub(1).filter(|_| page > 0)?);
        let entry = first.min(self.header.entries).checked_sub(1).filter(|&entry| entry >= before)?;
        let offset = within + PAGE as u32 - u32::from(self.start(entry));
        Some(Place { entry, offset, end, within })
    }
}
