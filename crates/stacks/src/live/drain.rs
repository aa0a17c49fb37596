//! How the reader of a ring and the kernel, which writes it, stay out of each other's way. The kernel moves
//! the head past what it has written, and the reader moves the tail past what it has read. The kernel writes
//! nothing between tail and head.
//!
//! `tests/models.rs` replaces the atomics of [`super::sync`] by those of loom.

use super::sync::{AtomicU64, Ordering};
use std::ops::Range;

/// Passes the waiting bytes of a ring of `size` bytes to `take`, as two ranges of the ring, and then frees
/// them.
pub fn drain(head: &AtomicU64, tail: &AtomicU64, size: usize, mut take: impl FnMut(Range<usize>)) {
    let (end, start) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
    let filled = (end.wrapping_sub(start) as usize).min(size);
    let offset = start as usize % size;
    let first = filled.min(size - offset);
    take(offset..offset + first);
    take(0..filled - first);
    tail.store(end, Ordering::Release);
}
