//! A lock that a signal handler may take too: a flag that threads poll.
//!
//! Its parts come from [`super::sync`]. `tests/models.rs` replaces them by loom's, which try every order of
//! the steps.

use super::sync::{AtomicBool, Ordering, yield_now};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// A value that one thread at a time may touch.
pub struct SpinLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has set `locked` touches the value, so the value only moves from thread to
// thread.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// `unlocked` is a flag that is not set.
    pub const fn new(unlocked: AtomicBool, value: T) -> Self {
        Self { locked: unlocked, value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. A failed attempt writes nothing.
    pub fn lock(&self) -> Locked<'_, T> {
        while self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            yield_now();
        }
        Locked { lock: self }
    }
}

/// The value of a lock. Dropping it releases the lock.
pub struct Locked<'l, T> {
    lock: &'l SpinLock<T>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a value of this type exists only while its thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the borrow of `self` is exclusive.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        self.lock.locked.store(false, Ordering::Release);
    }
}
