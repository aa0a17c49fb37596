//! A mark that one thread at a time sets, without a lock, and that a fork frees. A child process does not
//! have the threads that had set marks when it was made, so nobody there would free these.
//!
//! The mark is a word with two parts: the number of the process that used it last ([`super::process`]), and a
//! count of how often it was set and freed. An odd count means that the mark is set. Every change is a
//! compare-and-exchange, so whoever reads a later word has seen what came before an earlier one.
//!
//! ```text
//! count 4, process 1:   free
//! count 5, process 1:   set by process 1; in a child, process 2, it counts as free
//! count 7, process 2:   the child has set it
//! ```
//!
//! The atomics come from [`super::sync`]. `tests/models.rs` replaces them by those of loom, which tries every
//! order of the steps and every value that a processor may read in them. every order of its steps and every
//! value that a processor may read in them.

use super::sync::{AtomicU64, Ordering, yield_now};
use std::cell::UnsafeCell;

/// The count is above the number of the process, so it may overflow.
const STEP: u64 = 1 << 32;

/// The mark.
pub struct Slot(AtomicU64);

impl Slot {
    /// `zero` is a word with the value 0.
    pub const fn new(zero: AtomicU64) -> Self {
        Self(zero)
    }

    /// Sets the mark; `None` if it is set or another thread is faster. It never waits.
    pub fn take(&self, process: u32) -> Option<Taken<'_>> {
        let word = self.0.load(Ordering::Relaxed);
        let was_set = word & STEP != 0;
        let abandoned = was_set && word as u32 != process;
        if was_set && !abandoned {
            return None;
        }
        let count = if abandoned { 2 * STEP } else { STEP };
        let taken = (word >> 32 << 32).wrapping_add(count) | u64::from(process);
        self.0.compare_exchange(word, taken, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(Taken { slot: self, word: taken, abandoned })
    }

    /// The present state of the mark, for [`Slot::wait`]. A thread that sets the mark later has seen what
    /// this thread did before.
    pub fn see(&self) -> Seen {
        // A load might miss that the mark was set. An addition of 0 has a place in the order of changes: each
        // change comes before it or after it, and a change after it has seen this thread's writes.
        Seen(self.0.fetch_add(0, Ordering::AcqRel))
    }

    /// If the mark was set when it was seen, waits until that thread frees it.
    pub fn wait(&self, Seen(word): Seen, process: u32) {
        let is_set = word & STEP != 0 && word as u32 == process;
        while is_set && self.0.load(Ordering::Acquire) == word {
            yield_now();
        }
    }
}

/// The state of a mark at one moment.
#[derive(Clone, Copy)]
pub struct Seen(u64);

/// A mark that is set until this value is dropped, even by a panic.
pub struct Taken<'s> {
    slot: &'s Slot,
    word: u64,
    /// Whether a thread of an earlier process had set it. What that thread was changing may be half changed.
    pub abandoned: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let freed = self.word.wrapping_add(STEP);
        // This fails if the process was forked meanwhile; then the mark belongs to another thread.
        let _ = self.slot.0.compare_exchange(self.word, freed, Ordering::Release, Ordering::Relaxed);
    }
}

/// A value that one thread at a time uses.
pub struct Guarded<T> {
    slot: Slot,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has set the mark touches the value, and the value passes from thread to
// thread.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// `zero` is a word with the value 0.
    pub const fn new(zero: AtomicU64, value: T) -> Self {
        Self { slot: Slot::new(zero), value: UnsafeCell::new(value) }
    }

    /// Waits for its turn and uses the value. If a fork left the value behind half changed, it uses the value
    /// of `fresh` instead.
    pub fn with<R>(&self, process: u32, fresh: impl FnOnce() -> T, using: impl FnOnce(&mut T) -> R) -> R {
        let taken = loop {
            match self.slot.take(process) {
                Some(taken) => break taken,
                None => yield_now(),
            }
        };
        if taken.abandoned {
            // SAFETY: the mark is set. The old value may be half changed, so it is not dropped.
            unsafe { self.value.get().write(fresh()) };
        }
        // SAFETY: the mark is set until `taken` is dropped, which comes later.
        using(unsafe { &mut *self.value.get() })
    }
}
