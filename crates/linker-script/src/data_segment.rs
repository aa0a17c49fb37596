//! Where the data segment starts: `DATA_SEGMENT_ALIGN`, `DATA_SEGMENT_RELRO_END` and `DATA_SEGMENT_END`.
//!
//! A script brackets the data segment with these three functions. The part before `DATA_SEGMENT_RELRO_END` is
//! made read-only after relocation, so it must end on a page boundary. Then the start of the segment depends
//! on the sizes of everything before that end, and those are known only after a layout. So the layout runs in
//! rounds:
//!
//! 1. In the first round the functions only note the addresses that they see.
//! 2. [`DataSegment::next_round`] then decides: it shifts the start so that the read-only part ends on a
//!    page; or, if there is no such part, it starts the segment on a page of its own if that saves a page in
//!    the file; or it changes nothing.
//! 3. The next round uses that start.
//!
//! As in GNU ld, nothing is adjusted if the script has no `DATA_SEGMENT_END`. If a read-only part is wanted
//! and one of the two ends is missing, the segment starts at a multiple of the large page.

/// The state of the data segment over the rounds of a layout.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DataSegment {
    round: Round,
    /// The location counter where `DATA_SEGMENT_ALIGN` stands.
    min_base: u64,
    /// The value of `DATA_SEGMENT_ALIGN`.
    base: u64,
    /// The value of `DATA_SEGMENT_RELRO_END` plus its offset.
    relro_end: u64,
    relro_offset: u64,
    end: u64,
    max_page_size: u64,
    common_page_size: u64,
    /// The size of the page on whose boundary the read-only part ends, if it is larger than the common page.
    relro_page_size: u64,
    seen: Seen,
}

/// An output section of the relocation-read-only part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelroSection {
    /// How many bytes of the address space it takes: 0 for a thread-local section without contents.
    pub size: u64,
    /// Its alignment in bytes.
    pub alignment: u64,
}

/// What this round does with the start of the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Round {
    /// It notes addresses.
    #[default]
    First,
    /// It uses `base`, which makes the read-only part end on a page.
    Relro,
    /// It starts the segment on a page of its own.
    OwnPage,
    /// It starts the segment on a large page, because the script does not say where the segment or its
    /// read-only part ends.
    LargePage,
    /// It notes addresses. The decision is final.
    Settled,
}

/// The functions that were evaluated in this round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Seen {
    align: bool,
    relro_end: bool,
    end: bool,
}

impl DataSegment {
    /// The state before the first round.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state before the first round, for read-only parts that end on a page of at least this size.
    pub fn with_relro_page(relro_page_size: u64) -> Self {
        DataSegment { relro_page_size, ..Self::default() }
    }

    fn relro_page(&self) -> u64 {
        self.common_page_size.max(self.relro_page_size)
    }

    /// The value of `DATA_SEGMENT_ALIGN(max_page_size, common_page_size)` at the location counter
    /// `dot`.
    pub fn align(&mut self, dot: u64, max_page_size: u64, common_page_size: u64) -> u64 {
        let aligned = align_up(dot, max_page_size);
        self.seen.align = true;
        if self.round == Round::Relro {
            return self.base;
        }
        self.max_page_size = max_page_size;
        self.common_page_size = common_page_size;
        let same_place_in_page = aligned.wrapping_add(dot & max_page_size.wrapping_sub(1));
        let value = match self.round {
            Round::OwnPage if common_page_size < max_page_size => {
                let next = dot.wrapping_add(common_page_size.wrapping_sub(1));
                aligned.wrapping_add(next & max_page_size.wrapping_sub(common_page_size))
            }
            Round::OwnPage | Round::LargePage => aligned,
            _ => same_place_in_page,
        };
        self.min_base = dot;
        self.base = value;
        value
    }

    /// The value of `DATA_SEGMENT_RELRO_END(offset, address)`.
    pub fn relro_end(&mut self, offset: u64, address: u64) -> u64 {
        self.seen.relro_end = true;
        self.relro_offset = offset;
        self.relro_end = address.wrapping_add(offset);
        if self.round != Round::Relro {
            return address;
        }
        self.relro_end = align_up(self.relro_end, self.relro_page());
        self.relro_end.wrapping_sub(offset)
    }

    /// The value of `DATA_SEGMENT_END(address)`, which is the address itself.
    pub fn end(&mut self, address: u64) -> u64 {
        self.seen.end = true;
        self.end = address;
        address
    }

    /// Whether this round has evaluated a `DATA_SEGMENT_ALIGN`.
    pub fn is_used(&self) -> bool {
        self.seen.align
    }

    /// Where the read-only part begins and ends, with the offset added, if the script says so.
    pub fn relro(&self) -> Option<(u64, u64)> {
        (self.seen.align && self.seen.relro_end).then_some((self.base, self.relro_end))
    }

    /// Decides what the next round does, and returns whether one is needed. All statements must have been
    /// evaluated once. `relro` says whether a read-only part is wanted (`-z relro`); `sections` are the
    /// allocated output sections between `DATA_SEGMENT_ALIGN` and `DATA_SEGMENT_RELRO_END`, in order.
    pub fn next_round(&mut self, relro: bool, sections: &[RelroSection]) -> bool {
        let seen = std::mem::take(&mut self.seen);
        if self.round != Round::First || !seen.align {
            self.seen = seen;
            return false;
        }
        if relro && !(seen.end && seen.relro_end) {
            self.round = Round::LargePage;
            return true;
        }
        // If there are no sections to protect, the end needs no page boundary.
        if relro && seen.relro_end && sections.iter().any(|section| section.size > 0) {
            self.shift_for_relro(sections);
            self.round = Round::Relro;
            return true;
        }
        if seen.end && self.own_page_helps() {
            self.round = Round::OwnPage;
            return true;
        }
        self.round = Round::Settled;
        self.seen = seen;
        false
    }

    /// Chooses the start so that the read-only part ends at the next page boundary. It goes from there back
    /// to front and moves each section up as far as its alignment allows.
    fn shift_for_relro(&mut self, sections: &[RelroSection]) {
        let mut desired_end = align_up(self.relro_end, self.relro_page()).wrapping_sub(self.relro_offset);
        for section in sections.iter().rev() {
            desired_end = align_down(desired_end.wrapping_sub(section.size), section.alignment);
        }
        if sections.is_empty() {
            let length = self.relro_end.wrapping_sub(self.relro_offset).wrapping_sub(self.base);
            desired_end = desired_end.wrapping_sub(length);
        }
        self.base = desired_end.max(self.base);
    }

    /// Whether a start on a page of its own saves a page at the end.
    fn own_page_helps(&self) -> bool {
        let page_mask = self.common_page_size.wrapping_sub(1);
        let first = self.common_page_size.wrapping_sub(self.base & page_mask) & page_mask;
        let last = self.end & page_mask;
        let same_page = self.base & !page_mask == self.end & !page_mask;
        self.common_page_size != 0
            && first != 0
            && last != 0
            && !same_page
            && first.wrapping_add(last) <= self.common_page_size
    }
}

/// Rounds up to a multiple of `alignment`, which need not be a power of two. An alignment of 0 or 1 changes
/// nothing.
pub(super) fn align_up(value: u64, alignment: u64) -> u64 {
    match alignment {
        0 | 1 => value,
        _ if value.is_multiple_of(alignment) => value,
        _ => (value - value % alignment).wrapping_add(alignment),
    }
}

fn align_down(value: u64, alignment: u64) -> u64 {
    if alignment > 1 { value - value % alignment } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_round_keeps_the_place_in_the_page() {
        let mut segment = DataSegment::new();
        assert_eq!(segment.align(0x1234, 0x1000, 0x1000), 0x2234);
        assert_eq!(segment.relro_end(24, 0x2300), 0x2300);
        assert_eq!(segment.end(0x2400), 0x2400);
        assert_eq!(segment.relro(), Some((0x2234, 0x2318)));
    }

    #[test]
    fn relro_ends_on_a_page() {
        let mut segment = DataSegment::new();
        segment.align(0x1234, 0x1000, 0x1000);
        segment.relro_end(24, 0x2300);
        segment.end(0x2400);
        let sections = [RelroSection { size: 4, alignment: 4 }, RelroSection { size: 0xc0, alignment: 16 }];
        assert!(segment.next_round(true, &sections));
        let base = segment.align(0x1234, 0x1000, 0x1000);
        assert_eq!(base, 0x3000 - 24 - 8 - 0xc0 - 4);
        let end = segment.relro_end(24, align_up(base + 4, 16) + 0xc0);
        assert_eq!(end + 24, 0x3000);
        segment.end(end);
        assert!(!segment.next_round(true, &[]));
        assert_eq!(segment.relro().map(|(_, end)| end % 0x1000), Some(0));
    }

    #[test]
    fn without_relro_a_page_may_be_saved() {
        let mut segment = DataSegment::new();
        assert_eq!(segment.align(0x1f00, 0x1000, 0x1000), 0x2f00);
        segment.end(0x3100);
        assert!(segment.next_round(false, &[]));
        assert_eq!(segment.align(0x1f00, 0x1000, 0x1000), 0x2000);
        segment.end(0x2200);
        assert!(!segment.next_round(false, &[]));

        let mut segment = DataSegment::new();
        segment.align(0x1100, 0x1000, 0x1000);
        segment.end(0x2200);
        assert!(!segment.next_round(false, &[]));
    }

    #[test]
    fn without_an_end_nothing_is_shifted() {
        let mut segment = DataSegment::new();
        segment.align(0x1234, 0x1000, 0x1000);
        segment.relro_end(0, 0x2300);
        assert!(segment.next_round(true, &[RelroSection { size: 4, alignment: 4 }]));
        assert_eq!(segment.align(0x1234, 0x1000, 0x1000), 0x2000);
        assert_eq!(segment.relro_end(0, 0x2300), 0x2300);
        assert!(!segment.next_round(true, &[]));
        let mut segment = DataSegment::new();
        assert_eq!(segment.align(0x1234, 0x1000, 0x1000), 0x2234);
        assert!(!segment.next_round(false, &[]));
    }

    #[test]
    fn rounding_takes_any_number() {
        assert_eq!(align_up(10, 0), 10);
        assert_eq!(align_up(10, 3), 12);
        assert_eq!(align_up(u64::MAX, 16), 0);
        assert_eq!(align_down(10, 0), 10);
    }
}
