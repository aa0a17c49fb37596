//! A mark that one thread at a time sets, without a lock, and that a fork frees: a child process has none of
//! the threads that had set marks when it was made.
//!
//! The mark is a word: the number of the process that used it last ([`super::process`]), and how often it was
//! set and freed. An odd count means that it is set. Every change is a compare-and-exchange, so whoever reads
//! a later word has seen what came before an earlier one.
//!
//! It is made of the atomics in [`super::sync`]; `tests/models.rs` puts loom's in their place, which try
//! every order of its steps and every value that a processor may read in them.

use super::sync::{AtomicU64, Ordering, yield_now};
use std::cell::UnsafeCell;

/// The count stands above the number of the process, so that it may overflow.
const STEP: u64 = 1 << 32;

/// The mark.
pub struct Slot(AtomicU64);

impl Slot {
    /// `zero` is a word of nothing.
    pub const fn new(zero: AtomicU64) -> Self {
        Self(zero)
    }

    /// Sets the mark; `None` if it is set, or another thread is faster. It never waits.
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

    /// What is seen of the mark now, for [`Slot::wait`]. A thread that sets it later has seen what this
    /// thread did before.
    pub fn see(&self) -> Seen {
        // A load might miss that the mark was set. An addition of 0 is ordered among the changes: it comes
        // before or after each, and what comes after it has seen this thread's writes.
        Seen(self.0.fetch_add(0, Ordering::AcqRel))
    }

    /// Waits until the thread frees the mark that had set it when it was seen.
    pub fn wait(&self, Seen(word): Seen, process: u32) {
        let is_set = word & STEP != 0 && word as u32 == process;
        while is_set && self.0.load(Ordering::Acquire) == word {
            yield_now();
        }
    }
}

/// A mark at one moment.
#[derive(Clone, Copy)]
pub struct Seen(u64);

/// A mark that is set until this is dropped, by a panic, too.
pub struct Taken<'s> {
    slot: &'s Slot,
    word: u64,
    /// Whether a thread of a former process had set it: what that thread was changing may be half changed.
    pub abandoned: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let freed = self.word.wrapping_add(STEP);
        // It fails if the process was forked meanwhile, and the mark is another's now.
        let _ = self.slot.0.compare_exchange(self.word, freed, Ordering::Release, Ordering::Relaxed);
    }
}

/// A value that one thread at a time uses.
pub struct Guarded<T> {
    slot: Slot,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has set the mark touches the value, which goes from thread to thread.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// `zero` is a word of nothing.
    pub const fn new(zero: AtomicU64, value: T) -> Self {
        Self { slot: Slot::new(zero), value: UnsafeCell::new(value) }
    }

    /// Waits for its turn and uses the value, or the value of `fresh` where a fork left one behind half
    /// changed.
    pub fn with<R>(&self, process: u32, fresh: impl FnOnce() -> T, using: impl FnOnce(&mut T) -> R) -> R {
        let taken = loop {
            match self.slot.take(process) {
                Some(taken) => break taken,
                None => yield_now(),
            }
        };
        if taken.abandoned {
            // SAFETY: the mark is set. The old value is not dropped, because it may be half changed.
            unsafe { self.value.get().write(fresh()) };
        }
        // SAFETY: the mark is set until `taken` is dropped, after this.
        using(unsafe { &mut *self.value.get() })
    }
}
