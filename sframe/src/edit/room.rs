//! Finds room in a file for new contents: first in ranges that became free, then at the end.

use crate::ranges::joined;
use std::ops::Range;

/// Hands out file offsets. It uses free ranges from front to back, and gives up what is left of a range when
/// it moves to the next. If it kept these remainders, every later search would have to pass all of them, for
/// few bytes.
#[derive(Debug)]
pub struct Room {
    free: std::vec::IntoIter<Range<u64>>,
    current: Range<u64>,
    end: u64,
}

impl Room {
    /// The room in a file of `length` bytes. Nothing uses the ranges `freed`, except for the parts of them
    /// that lie in one of `kept`.
    pub fn new(length: u64, freed: Vec<Range<u64>>, mut kept: Vec<Range<u64>>) -> Self {
        kept = joined(kept);
        let mut free = Vec::new();
        for range in joined(freed) {
            let (mut start, limit) = (range.start, range.end.min(length));
            let first = kept.partition_point(|other| other.end <= range.start);
            for other in kept.iter().skip(first).take_while(|other| other.start < limit) {
                if other.start > start {
                    free.push(start..other.start);
                }
                start = start.max(other.end);
            }
            if start < limit {
                free.push(start..limit);
            }
        }
        let end = match free.last() {
            Some(last) if last.end >= length => free.pop().map_or(length, |last| last.start),
            _ => length,
        };
        Self { free: free.into_iter(), current: 0..0, end }
    }

    /// The end of the file so far.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The free ranges that [`Room::take`] has not reached. The caller fills all of them with zeros before it
    /// writes anything.
    pub fn free(&self) -> &[Range<u64>] {
        self.free.as_slice()
    }

    /// A place for `size` bytes.
    pub fn take(&mut self, size: u64, alignment: u64) -> u64 {
        loop {
            let start = self.current.start.next_multiple_of(alignment.max(1));
            if start.checked_add(size).is_some_and(|end| end <= self.current.end) {
                self.current.start = start + size;
                return start;
            }
            match self.free.next() {
                Some(next) => self.current = next,
                None => return self.take_at_end(size, alignment),
            }
        }
    }

    /// A place after everything else.
    pub fn take_at_end(&mut self, size: u64, alignment: u64) -> u64 {
        let start = self.end.next_multiple_of(alignment.max(1));
        self.end = start + size;
        start
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn free_ranges_come_first_and_the_tail_is_cut() {
        let mut room = Room::new(100, vec![60..70, 10..20, 20..30, 90..100], vec![0..12, 65..66, 70..90]);
        assert_eq!(room.free(), [12..30, 60..65, 66..70]);
        assert_eq!(room.end(), 90);
        assert_eq!(room.take(8, 8), 16);
        assert_eq!(room.take(6, 1), 24);
        assert_eq!(room.take(4, 4), 60);
        assert_eq!(room.take(4, 1), 66);
        assert_eq!(room.take(10, 8), 96);
        assert_eq!(room.end(), 106);
    }
}
