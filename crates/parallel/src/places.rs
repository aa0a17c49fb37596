//! The places of results that are known before there are any.
//!
//! If a chain makes one result of each item, the list is as long as the source, and each piece writes its
//! part of it.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A list that pieces fill.
pub struct Places<R> {
    list: Vec<R>,
    /// The places in the list's memory.
    start: *mut MaybeUninit<R>,
    count: usize,
    written: AtomicUsize,
}

// SAFETY: threads share it to take parts. Each writes results in its own, and only `into_vec`, which owns it
// all, reads them.
unsafe impl<R: Send> Sync for Places<R> {}

/// The places of a piece's results, from the first one that is free.
pub struct Part<'p, R> {
    free: std::slice::IterMut<'p, MaybeUninit<R>>,
    size: usize,
    written: &'p AtomicUsize,
}

impl<R> Places<R> {
    /// Places for so many results.
    pub fn new(count: usize) -> Self {
        let mut list = Vec::with_capacity(count);
        let start = list.spare_capacity_mut().as_mut_ptr();
        Places { list, start, count, written: AtomicUsize::new(0) }
    }

    /// The places of `count` results from number `first` on.
    ///
    /// # Safety
    /// No two parts have a place in common.
    pub unsafe fn part(&self, first: usize, count: usize) -> Part<'_, R> {
        assert!(count <= self.count && first <= self.count - count, "a piece of the source");
        // SAFETY: these places are in the list's memory, which nothing else refers to while this lives, and
        // no other part has them.
        let free = unsafe { std::slice::from_raw_parts_mut(self.start.add(first), count) };
        Part { free: free.iter_mut(), size: count, written: &self.written }
    }

    /// The list, when all results are written.
    pub fn into_vec(mut self) -> Vec<R> {
        assert_eq!(self.written.into_inner(), self.count, "one result of each item");
        // SAFETY: there are as many places, and each of them was written: a part counts no place twice.
        unsafe { self.list.set_len(self.count) };
        self.list
    }
}

impl<R> Part<'_, R> {
    /// Writes the next result.
    #[inline]
    pub fn push(&mut self, result: R) {
        if let Some(place) = self.free.next() {
            place.write(result);
        }
    }
}

impl<R> Drop for Part<'_, R> {
    fn drop(&mut self) {
        self.written.fetch_add(self.size - self.free.len(), Ordering::Relaxed);
    }
}
