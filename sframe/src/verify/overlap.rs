//! Finds which of many address ranges overlap a given one, and how many of its bytes they cover.
//!
//! In a sound file, functions do not overlap, and a binary search would do. In a damaged file, they may
//! overlap in any way: one function may span all others, and a search would have to look at every range that
//! starts earlier. With 100,000 functions that all overlap, that would take 10¹⁰ steps. A tree over the ends
//! of the ranges avoids it:
//!
//! ```text
//! ranges by start:   0..3   1..9   4..5   6..8
//! largest end:          9             8           a node has the largest end below it
//!                              9
//! ```
//!
//! A search for the ranges that end after 5 skips a node whose largest end is 5 or less, with all ranges
//! below it. So each answer takes a logarithmic number of steps, whatever the ranges look like.

use crate::ranges::joined;
use std::ops::Range;

/// Ranges in the order of their starts, ready for questions which of them overlap another.
pub struct Overlaps {
    /// A tree in an array: each node has the largest end below it. The leaves are the ranges; the root is at
    /// 1.
    largest: Vec<u64>,
    starts: Vec<u64>,
}

impl Overlaps {
    /// Takes ranges in the order of their starts.
    pub fn new(ranges: impl Iterator<Item = Range<u64>>) -> Self {
        let ranges: Vec<Range<u64>> = ranges.collect();
        let leaves = ranges.len().next_power_of_two();
        let mut largest = vec![0; 2 * leaves];
        for (leaf, range) in largest.iter_mut().skip(leaves).zip(&ranges) {
            *leaf = range.end;
        }
        for node in (1..leaves).rev() {
            largest[node] = largest[2 * node].max(largest[2 * node + 1]);
        }
        Self { largest, starts: ranges.into_iter().map(|range| range.start).collect() }
    }

    /// The numbers of the ranges that overlap a range, ascending.
    pub fn with(&self, range: Range<u64>) -> impl Iterator<Item = usize> {
        let last = self.starts.partition_point(|&start| start < range.end);
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let found = self.first_ending_behind(next?, range.start).filter(|&found| found < last);
            next = found.map(|found| found + 1);
            found
        })
    }

    /// The first range, from number `from` on, that ends after an address.
    fn first_ending_behind(&self, from: usize, address: u64) -> Option<usize> {
        let leaves = self.largest.len() / 2;
        let mut node = leaves.checked_add(from).filter(|&node| node < self.largest.len())?;
        // Climb to a node whose leaves all stand at `from` or after it, and one of which reaches far enough.
        // Then descend to that leaf.
        while self.largest[node] <= address {
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < leaves {
            node *= 2;
            if self.largest[node] <= address {
                node += 1;
            }
        }
        Some(node - leaves)
    }
}

/// The addresses that ranges cover together.
#[derive(Default)]
pub struct Covered {
    /// Disjoint and ascending; no range touches the next.
    ranges: Vec<Range<u64>>,
    /// The number of bytes in the ranges before each one, and in all of them.
    before: Vec<u64>,
}

impl Covered {
    /// Takes ranges in any order, which may overlap.
    pub fn new(ranges: Vec<Range<u64>>) -> Self {
        let joined = joined(ranges);
        let mut sum = 0;
        let lengths = joined.iter().map(|range| {
            sum += range.end - range.start;
            sum
        });
        let before = std::iter::once(0).chain(lengths).collect();
        Self { ranges: joined, before }
    }

    /// The ranges; those that overlapped or touched are one.
    pub fn into_ranges(self) -> Vec<Range<u64>> {
        self.ranges
    }

    /// The number of bytes of a range that are not covered.
    pub fn missing(&self, range: &Range<u64>) -> u64 {
        (range.end - range.start) - (self.below(range.end) - self.below(range.start))
    }

    /// The number of covered bytes below an address.
    fn below(&self, address: u64) -> u64 {
        let place = self.ranges.partition_point(|range| range.start < address);
        let Some(last) = place.checked_sub(1) else { return 0 };
        self.before[last] + self.ranges[last].end.min(address) - self.ranges[last].start
    }
}

#[cfg(test)]
mod tests {
    use super::{Covered, Overlaps};
    use std::ops::Range;

    /// Ranges that look random.
    fn ranges(count: u64) -> Vec<Range<u64>> {
        let mut state = 1u64;
        let mut number = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut ranges: Vec<_> = (0..count).map(|_| number(60)..0).collect();
        ranges.iter_mut().for_each(|range| range.end = range.start + 1 + number(20) * number(3));
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    #[test]
    fn all_that_overlap_are_found() {
        for count in 0..40 {
            let all = ranges(count);
            let overlaps = Overlaps::new(all.iter().cloned());
            for (start, end) in (0..85).flat_map(|start| (start + 1..85).map(move |end| (start, end))) {
                let shares = |range: &Range<u64>| range.start < end && start < range.end;
                let expected: Vec<usize> = (0..all.len()).filter(|&number| shares(&all[number])).collect();
                assert_eq!(overlaps.with(start..end).collect::<Vec<_>>(), expected, "{all:?} {start} {end}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_counted() {
        for count in 0..20 {
            let all = ranges(count);
            let covered = Covered::new(all.clone());
            for (start, end) in (0..85).flat_map(|start| (start + 1..85).map(move |end| (start, end))) {
                let bare = |address: &u64| !all.iter().any(|range| range.contains(address));
                assert_eq!(covered.missing(&(start..end)), (start..end).filter(bare).count() as u64);
            }
        }
    }
}
