//! Looks at all of the virtual machine's code now and then, so that what is new has a name and a frame before
//! it is gone.
//!
//! A heap has a byte for each of its segments, which is 0 where a blob starts. These bytes are compared with
//! those of the last look, and the blobs that start where none did are read. A virtual machine that runs for
//! long has tens of thousands, so one look reads some of them, and the next ones the others.

use super::layout::{FREE, Layout, Stamp};
use crate::process_memory::ProcessMemory;
use hashbrown::HashMap;
use std::time::{Duration, Instant};

/// How often the heaps are looked at.
const APART: Duration = Duration::from_millis(20);
/// A look may take one part in so many of the time between looks: heaps may have millions of segments.
const SHARE: u32 = 50;
/// How many segments are compared at once.
const TOGETHER: usize = 64;
/// The largest number of segments of a heap that are looked at. They have 64 bytes, or 128.
const MAX_SEGMENTS: u64 = 1 << 22;
/// How many blobs one look reads.
const MOST_READ: usize = 256;

/// What was seen at the last look.
#[derive(Default)]
pub struct Looked {
    at: Option<Instant>,
    /// How long it took.
    took: Duration,
    /// The segments of each heap, by its address.
    segments: HashMap<u64, Vec<u8>>,
    /// How many blobs may still be read.
    room: usize,
}

impl Looked {
    /// Begins another look, if the last one is not just over.
    pub fn again(&mut self) -> bool {
        let apart = APART.max(self.took.saturating_mul(SHARE));
        let is_due = self.at.is_none_or(|at| at.elapsed() >= apart);
        if is_due {
            (self.at, self.room) = (Some(Instant::now()), MOST_READ);
        }
        is_due
    }

    /// Ends a look.
    pub fn over(&mut self) {
        self.took = self.at.map_or(Duration::ZERO, |at| at.elapsed());
    }

    /// The blobs that are new in a heap, which is at an address and has segments of so many bits. `None`: its
    /// memory is gone.
    pub fn new_in(
        &mut self,
        (memory, layout): (&ProcessMemory, &Layout),
        (heap, shift): (u64, u32),
    ) -> Option<Vec<Stamp>> {
        let space = heap.checked_add(layout.heap_memory.place)?;
        let (low, high) = (layout.low.of(memory, space)?, layout.high.of(memory, space)?);
        let count = (high.checked_sub(low)? >> shift).min(MAX_SEGMENTS);
        let segments = layout.low.of(memory, heap.checked_add(layout.heap_segments.place)?)?;
        let mut now = memory.bytes(segments, count as usize)?;
        let before = self.segments.remove(&heap).unwrap_or_default();
        let mut found = Vec::new();
        for (first, together) in (0..).step_by(TOGETHER).zip(now.chunks_mut(TOGETHER)) {
            // Most are as they were.
            if before.get(first..first + together.len()) == Some(&*together) {
                continue;
            }
            for (number, byte) in (first..).zip(together) {
                if *byte != 0 || before.get(number) == Some(&0) {
                    continue;
                }
                let block = low.checked_add((number as u64) << shift)?;
                let stamp = if self.room > 0 { layout.blob_in(memory, block) } else { None };
                self.room = self.room.saturating_sub(1);
                match stamp {
                    Some(stamp) if block < stamp.start && stamp.start < stamp.end && stamp.end <= high => {
                        found.push(stamp);
                    }
                    // It is being made, or its turn is later: it is still new at the next look.
                    _ => *byte = FREE as u8,
                }
            }
        }
        self.segments.insert(heap, now);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A virtual machine with a large heap does not keep its profiler busy.
    #[test]
    fn a_long_look_is_not_soon_followed_by_another() {
        let mut looked = Looked::default();
        assert!(looked.again());
        (looked.at, looked.took) = (Instant::now().checked_sub(APART), Duration::ZERO);
        assert!(looked.again());
        looked.at = Instant::now().checked_sub(APART);
        looked.over();
        assert!(looked.took >= APART);
        assert!(!looked.again());
        looked.at = Instant::now().checked_sub(looked.took * SHARE);
        assert!(looked.again());
    }
}
