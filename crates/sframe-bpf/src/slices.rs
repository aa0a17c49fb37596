//! Slices of an array: keeps track of the free elements.

use std::collections::BTreeMap;

/// Stretches of free elements, each by its first element and its length. No two of them touch.
pub struct Slices {
    free: BTreeMap<u32, u32>,
}

impl Slices {
    /// All elements of an array are free.
    pub fn new(count: u32) -> Self {
        Self { free: BTreeMap::from([(0, count)]) }
    }

    /// Takes a slice from the end of the last free stretch that is long enough; `None` if there is none.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        let (&first, &room) = self.free.iter().rfind(|&(_, &room)| room >= count)?;
        self.free.remove(&first);
        if room > count {
            self.free.insert(first, room - count);
        }
        Some(first + room - count)
    }

    /// Gives a slice back.
    pub fn give(&mut self, first: u32, count: u32) {
        let (mut start, mut end) = (first, first + count);
        if let Some((&before, &room)) = self.free.range(..first).next_back()
            && before + room == first
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(behind) = self.free.remove(&end) {
            end += behind;
        }
        if end > start {
            self.free.insert(start, end - start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_that_are_given_back_join_their_neighbours() {
        let mut slices = Slices::new(10);
        let taken: Vec<_> = [4, 3, 3].map(|count| slices.take(count)).into();
        assert_eq!(taken, [Some(6), Some(3), Some(0)]);
        assert_eq!(slices.take(1), None);
        slices.give(6, 4);
        slices.give(0, 3);
        assert_eq!(slices.take(5), None);
        slices.give(3, 3);
        assert_eq!(slices.take(10), Some(0));
    }

    #[test]
    fn an_empty_slice_takes_no_room() {
        let mut slices = Slices::new(2);
        let first = slices.take(0).unwrap();
        slices.give(first, 0);
        assert_eq!(slices.take(2), Some(0));
    }
}
