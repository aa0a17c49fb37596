//! How the reader of a ring and the kernel, which writes it, leave each other alone: the kernel moves the
//! head behind what it has written, the reader moves the tail behind what it has read. The kernel writes
//! nothing between tail and head.
//!
//! `tests/models.rs` puts loom's atomics in the place of those in [`super::sync`].

use super::sync::{AtomicU64, Ordering};
use std::ops::Range;

/// Hands what waits in a ring of `size` bytes to `take`, as two ranges of the ring, and then gives it free.
pub fn drain(head: &AtomicU64, tail: &AtomicU64, size: usize, mut take: impl FnMut(Range<usize>)) {
    let (end, start) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
    let filled = (end.wrapping_sub(start) as usize).min(size);
    let offset = start as usize % size;
    let first = filled.min(size - offset);
    take(offset..offset + first);
    take(0..filled - first);
    tail.store(end, Ordering::Release);
}
