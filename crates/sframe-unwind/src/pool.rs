//! Values that one thread at a time uses each, without a lock: who finds none free goes without.
//!
//! It is made of the parts in [`super::sync`]; `tests/models.rs` gives it loom's in their place.

use super::sync::{AtomicBool, Ordering};
use std::cell::UnsafeCell;

/// The values.
pub struct Pool<T>(Vec<Entry<T>>);

struct Entry<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: whoever has set `taken` is the only one to touch the value, which goes from thread to thread.
unsafe impl<T: Send> Sync for Entry<T> {}

impl<T> Pool<T> {
    pub fn new(values: impl Iterator<Item = T>) -> Self {
        let entry = |value| Entry { taken: AtomicBool::new(false), value: UnsafeCell::new(value) };
        Self(values.map(entry).collect())
    }

    /// Uses a value that is free; gives `None` if none is.
    pub fn with_any<R>(&self, using: impl FnOnce(&mut T) -> R) -> Option<R> {
        let entry = self.0.iter().find(|entry| {
            entry.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        let taken = Taken(&entry.taken);
        // SAFETY: it was free, and is this caller's now.
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
