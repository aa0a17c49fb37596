//! A pool of values, each used by one thread at a time, without a lock: a thread that finds none free goes without.
//!
//! It is made of the atomics in [`super::sync`]; `tests/models.rs` puts loom's in their place.

use super::sync::{AtomicBool, Ordering};
use std::cell::UnsafeCell;

/// The values.
pub struct Pool<T>(Vec<Entry<T>>);

struct Entry<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has set `taken` touches the value, which goes from thread to thread.
unsafe impl<T: Send> Sync for Entry<T> {}

impl<T> Pool<T> {
    pub fn new(values: impl Iterator<Item = T>) -> Self {
        let entry = |value| Entry { taken: AtomicBool::new(false), value: UnsafeCell::new(value) };
        Self(values.map(entry).collect())
    }

    /// Calls `using` with a free value; `None` if no value is free.
    pub fn with_any<R>(&self, using: impl FnOnce(&mut T) -> R) -> Option<R> {
        let entry = self.0.iter().find(|entry| {
            entry.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        let taken = Taken(&entry.taken);
        // SAFETY: the value was free, and this call has taken it.
        let result = using(unsafe { &mut *entry.value.get() });
        drop(taken);
        Some(result)
    }
}

/// A value in use, until this is dropped.
struct Taken<'p>(&'p AtomicBool);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
