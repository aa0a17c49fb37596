//! Files with holes: stretches of zeros that take no room on a disk.

use std::ops::Range;

/// The parts of a stretch that are outside of `holes`, in order. None of them is empty. The holes must be in
/// order too.
pub fn pieces(stretch: Range<u64>, holes: &[Range<u64>]) -> Vec<Range<u64>> {
    let starts = std::iter::once(stretch.start).chain(holes.iter().map(|hole| hole.end.max(stretch.start)));
    let ends = holes.iter().map(|hole| hole.start.min(stretch.end)).chain(std::iter::once(stretch.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|piece| !piece.is_empty()).collect()
}
