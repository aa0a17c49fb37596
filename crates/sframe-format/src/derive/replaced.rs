//! Finds FDEs that another FDE has replaced.
//!
//! Tools that rewrite functions of a finished file, such as BOLT, put FDEs of their new code beside the old
//! ones, and leave the FDEs of the functions that they rewrote. Both then describe the same addresses:
//!
//! ```text
//! .eh_frame:      │ FDE of f, new │ FDE of f, old │ FDE of g │
//! .eh_frame_hdr:    f ───┘                     g ────┘
//! ```
//!
//! At run time `.eh_frame_hdr` decides, because unwinders find FDEs by its table. So an FDE is replaced if
//! the table does not lead to it, but to another one that shares addresses with it. FDEs without such a
//! neighbour count: no other says what they say.

use alloc::vec::Vec;
use core::ops::Range;

use super::entries::{Cie, Frames};
use super::search_table::Header;

/// The offset of an FDE, and the addresses that it covers.
pub(super) type Place = (usize, Range<u64>);

/// The FDEs before the first terminator that others have replaced, ascending by offset.
pub(super) fn replaced(frames: &Frames<'_>, header: &Header<&[u8]>) -> Vec<Place> {
    let mut listed: Vec<u64> = header.offsets().collect();
    listed.sort_unstable();
    let is_listed = |offset: usize| listed.binary_search(&(offset as u64)).is_ok();
    let mut unlisted = ranges(frames, |offset| !is_listed(offset));
    if unlisted.is_empty() {
        return Vec::new();
    }
    let all = Listed::new(ranges(frames, is_listed).into_iter().map(|(_, range)| range).collect());
    unlisted.retain(|(_, range)| all.share(range));
    unlisted
}

/// The ranges of the FDEs with these offsets. Malformed FDEs have none.
fn ranges(frames: &Frames<'_>, wanted: impl Fn(usize) -> bool) -> Vec<Place> {
    let (mut found, mut known): (Vec<Place>, Option<Cie<'_>>) = Default::default();
    let records = frames.records().take_while(|record| !record.behind);
    for record in records.filter(|record| wanted(record.offset)) {
        if let Ok(Some(fde)) = frames.entry(&record, known.as_ref()) {
            known = Some(fde.cie);
            found.push((fde.offset, fde.start..fde.start.saturating_add(fde.size)));
        }
    }
    found
}

/// Ranges of addresses by their starts, each with the largest end up to it: some range that starts before an
/// address ends after another address exactly if that end does.
struct Listed(Vec<Range<u64>>);

impl Listed {
    fn new(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut end = 0;
        for range in &mut ranges {
            end = range.end.max(end);
            range.end = end;
        }
        Self(ranges)
    }

    /// Whether one of them has an address of `range`.
    fn share(&self, range: &Range<u64>) -> bool {
        let before = self.0.partition_point(|listed| listed.start < range.end);
        before.checked_sub(1).is_some_and(|last| self.0[last].end > range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::Listed;
    use alloc::vec::Vec;

    #[test]
    fn ranges_share_addresses_with_any_range_before() {
        let listed = Listed::new([30..35, 10..20, 12..14].to_vec());
        for (range, expected) in
            [(0..10, false), (0..11, true), (15..16, true), (20..30, false), (34..40, true), (35..40, false)]
        {
            assert_eq!(listed.share(&range), expected, "{range:?}");
        }
        assert!(!Listed::new(Vec::new()).share(&(0..u64::MAX)));
    }
}
