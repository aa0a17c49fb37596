//! The offsets of mergeable sections that live sections refer to (`--gc-sections`).
//!
//! One section holds the strings of all functions of an object, so it lives if any of them does. The strings
//! of the others need not: a piece that nothing live refers to can be left out. References are known by
//! offset, and pieces are found only when they are merged. So marking sets a bit for the very byte that a
//! reference leads to, and a piece is in use if any of its bytes has its bit set:
//!
//! ```text
//! byte    u s a g e 0 o k 0          a live section refers to "ok", and another one to its "k"
//! bit     0 0 0 0 0 0 1 1 0          "usage" is left out
//! ```
//!
//! Any thread may set a bit, and none is ever cleared, so the result does not depend on their order.

use crate::ids::SectionId;
use crate::rows::filled;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A section whose pieces count one by one.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The first of its words.
    first_word: usize,
    /// Its size in bytes; not 0.
    size: u32,
}

/// The offsets in use, for each section whose pieces count one by one. All pieces of other sections are kept.
#[derive(Debug, Default)]
pub struct UsedOffsets {
    rows: Vec<Row>,
    /// For each input section, its row, counted from 1.
    row_of: Vec<Option<NonZeroU32>>,
    /// A bit for each byte, from the lowest up; each section begins with a word of its own.
    words: Vec<AtomicU64>,
}

/// The offsets of one section that are in use.
#[derive(Clone, Copy, Debug)]
pub struct UsedPieces<'u> {
    words: &'u [AtomicU64],
}

impl UsedOffsets {
    /// A table for `sections` input sections. The pieces of those in `divided`, which come with their size in
    /// bytes, count one by one, and none of them is in use yet.
    pub fn new(sections: usize, divided: &[(SectionId, NonZeroU32)]) -> Self {
        let mut row_of = filled(None, sections);
        let mut rows = Vec::with_capacity(divided.len());
        let mut words = 0;
        for &(section, size) in divided {
            rows.push(Row { first_word: words, size: size.get() });
            row_of[section.index()] = NonZeroU32::new(rows.len() as u32);
            words += size.get().div_ceil(u64::BITS) as usize;
        }
        UsedOffsets { rows, row_of, words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The sections whose pieces count one by one.
    pub fn sections(&self) -> impl Iterator<Item = SectionId> + '_ {
        (0..).map(SectionId).zip(&self.row_of).filter(|(_, row)| row.is_some()).map(|(section, _)| section)
    }

    #[inline]
    fn row(&self, section: SectionId) -> Option<Row> {
        let row = (*self.row_of.get(section.index())?)?;
        Some(self.rows[row.get() as usize - 1])
    }

    /// Whether the pieces of a section count one by one.
    #[inline]
    pub fn contains(&self, section: SectionId) -> bool {
        self.row_of.get(section.index()).is_some_and(Option::is_some)
    }

    /// Notes a reference to an offset of a section. As for [`super::MergedSections::place`], an offset behind
    /// the last piece belongs to it.
    pub fn mark(&self, section: SectionId, offset: u64) {
        let Some(row) = self.row(section) else { return };
        let offset = u32::try_from(offset).map_or(row.size - 1, |offset| offset.min(row.size - 1));
        let word = &self.words[row.first_word + (offset / u64::BITS) as usize];
        let bit = 1 << (offset % u64::BITS);
        // Words are read first: a string that many refer to then stays in the caches of all processors.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Notes that all pieces of a section are in use.
    pub fn mark_all(&self, section: SectionId) {
        for word in self.of(section).into_iter().flat_map(|used| used.words) {
            word.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// The offsets of a section that are in use; `None` if its pieces do not count one by one.
    #[inline]
    pub fn of(&self, section: SectionId) -> Option<UsedPieces<'_>> {
        let row = self.row(section)?;
        let words = &self.words[row.first_word..][..row.size.div_ceil(u64::BITS) as usize];
        Some(UsedPieces { words })
    }
}

impl UsedPieces<'_> {
    /// Whether any of these offsets is in use.
    pub fn any(&self, mut offsets: Range<usize>) -> bool {
        const BITS: usize = u64::BITS as usize;
        while offsets.start < offsets.end {
            let (number, first) = (offsets.start / BITS, offsets.start % BITS);
            let last = (offsets.end - 1 - number * BITS).min(BITS - 1);
            let mask = u64::MAX << first & u64::MAX >> (BITS - 1 - last);
            if self.words[number].load(Ordering::Relaxed) & mask != 0 {
                return true;
            }
            offsets.start = (number + 1) * BITS;
        }
        false
    }
}
