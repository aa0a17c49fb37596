//! Handlers (version 2): the personality routine of a function, and its language-specific data.
//!
//! Less than a third of all functions have them. A bit for each entry says which; the handlers of a page
//! follow one another, as distances from a base of the page, which take two bytes as long as the data of 64
//! KiB of code spans less than 64 KiB. A distance of 0 means that the function has a personality routine and
//! no data. Mostly, all handlers of a page have the same routine, and the page says which. Otherwise a byte
//! for each stands behind the distances.

use super::{CONTINUED_SIZE, HANDLER_PAGE_SIZE, PAGE, PERSONALITY_SIZE, View, unused};
use crate::error::{Error, ErrorKind};
use crate::lookup::last_that_holds;

/// The bit of a page's first word that says that its distances take four bytes.
pub(super) const WIDE: u32 = 1 << 31;
/// The bits of a page's first word that count the handlers before the page.
pub(super) const RANK: u32 = (1 << 24) - 1;
/// Where the same word has the number of the page's personality routine, plus 1; 0 if there are several.
pub(super) const ROUTINE_SHIFT: u32 = 24;
/// The largest of these numbers.
pub(super) const MOST_ROUTINE: u32 = 127;
/// The bit of a personality routine that says that its address is that of a pointer to the routine.
pub(super) const INDIRECT: u32 = 1;

/// A personality routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Personality {
    /// The address of the routine, or of a pointer to it.
    pub address: u64,
    /// Whether it is that of a pointer.
    pub indirect: bool,
}

/// Who handles exceptions that pass a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handler {
    /// The personality routine.
    pub personality: Personality,
    /// The address of the language-specific data. `None`: the routine is called without any.
    pub lsda: Option<u64>,
}

impl View<'_> {
    /// The entry at which the function of an entry starts.
    pub(super) fn first_of(&self, entry: u32) -> Result<u32, Error> {
        let word = |number: usize| self.u32(self.parts.continued + number * CONTINUED_SIZE);
        let all = 0..self.header.whole.continued as usize;
        let Some(number) = last_that_holds(all, |number| word(number) <= entry) else { return Ok(entry) };
        if word(number) != entry {
            return Ok(entry);
        }
        let at = self.parts.continued + number * CONTINUED_SIZE;
        let first = self.u32(at + 4);
        if first >= entry {
            return Err(Error::new(at, ErrorKind::CompactNumber { what: "first entry", found: first }));
        }
        Ok(first)
    }

    /// The entries that continue a function.
    #[cfg(feature = "alloc")]
    pub(super) fn continuing(&self) -> impl Iterator<Item = u32> {
        let all = 0..self.header.whole.continued as usize;
        all.map(|number| self.u32(self.parts.continued + number * CONTINUED_SIZE))
    }

    /// The page that an entry starts in.
    fn page_of(&self, entry: u32) -> Option<u32> {
        let pages = 0..self.header.pages as usize;
        last_that_holds(pages, |page| self.first_entry(page as u32) <= entry).map(|page| page as u32)
    }

    /// The address of an entry.
    pub(super) fn address_of(&self, entry: u32) -> Option<u64> {
        let page = self.page_of(entry)?;
        let regions = 0..self.header.regions as usize;
        let number = last_that_holds(regions, |number| self.region(number as u32).first <= page)?;
        let region = self.region(number as u32);
        let page = u64::from(page.checked_sub(region.first)?);
        Some(region.address.wrapping_add(page * PAGE).wrapping_add(self.start(entry).into()))
    }

    /// Whether an entry has a handler.
    pub(super) fn has_handler(&self, entry: u32) -> bool {
        let byte = self.data.get(self.parts.handler_bits + entry as usize / 8).copied().unwrap_or(0);
        self.header.whole.handlers > 0 && byte >> (entry % 8) & 1 != 0
    }

    /// The handler of an entry, which must be the first of its function.
    pub(super) fn handler(&self, entry: u32) -> Result<Option<Handler>, Error> {
        if !self.has_handler(entry) {
            return Ok(None);
        }
        let missing =
            |what, found| Error::new(self.parts.handler_pages, ErrorKind::CompactNumber { what, found });
        let page = self.page_of(entry).ok_or(missing("entry", entry))?;
        let at = self.parts.handler_pages + page as usize * HANDLER_PAGE_SIZE;
        let (rank, place) = (self.u32(at), self.u32(at + 4));
        let base = self.u32(at + 8) as i32;
        let (first, end) = (self.first_entry(page), self.first_entry(page.wrapping_add(1)));
        let within = self.handlers_between(first, entry);
        let number = (rank & RANK).wrapping_add(within);
        if number >= self.header.whole.handlers {
            return Err(missing("handler", number));
        }
        let width = if rank & WIDE == 0 { 2 } else { 4 };
        let offset = (place as usize).saturating_add(within as usize * width);
        if offset.saturating_add(width) > self.header.whole.lsda_bytes as usize {
            return Err(missing("language-specific data", number));
        }
        let at = self.parts.lsdas + offset;
        let distance = if width == 2 { self.u16(at).into() } else { self.u32(at) };
        let from_table = i64::from(base) + i64::from(distance);
        let lsda = (distance != 0).then(|| self.address.wrapping_add_signed(from_table));
        let personality = match rank >> ROUTINE_SHIFT & MOST_ROUTINE {
            0 => {
                let all = self.handlers_between(first, end) as usize;
                let at = (place as usize).saturating_add(all * width + within as usize);
                let inside = at < self.header.whole.lsda_bytes as usize;
                let byte = self.data.get(self.parts.lsdas + at).filter(|_| inside);
                byte.copied().ok_or(missing("number of a personality routine", number))?.into()
            }
            routine => routine - 1,
        };
        Ok(Some(Handler { personality: self.personality(personality)?, lsda }))
    }

    fn personality(&self, number: u32) -> Result<Personality, Error> {
        if number >= self.header.whole.personalities {
            let kind = ErrorKind::CompactNumber { what: "personality routine", found: number };
            return Err(Error::new(self.parts.personalities, kind));
        }
        let at = self.parts.personalities + number as usize * PERSONALITY_SIZE;
        let address = self.address.wrapping_add_signed(i64::from(self.u32(at) as i32));
        match self.u32(at + 4) {
            0 => Ok(Personality { address, indirect: false }),
            INDIRECT => Ok(Personality { address, indirect: true }),
            _ => Err(unused(at + 4, "a personality routine")),
        }
    }

    /// The number of handlers of the entries from `first` on and before `end`, at most a page of them.
    pub(super) fn handlers_between(&self, first: u32, end: u32) -> u32 {
        let end = end.min(first.saturating_add(PAGE as u32));
        let mut count = 0;
        let mut entry = first;
        while entry < end {
            let start = self.parts.handler_bits + entry as usize / 8;
            let skipped = entry % 8;
            let bits = (64 - skipped).min(end - entry);
            let word = self.data.get(start..).unwrap_or_default();
            let word = match word.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => word.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
            };
            let word = word >> skipped;
            let word = if bits < 64 { word & ((1 << bits) - 1) } else { word };
            count += word.count_ones();
            entry += bits;
        }
        count
    }
}
