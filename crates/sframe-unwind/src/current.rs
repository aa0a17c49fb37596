//! A value that is replaced while others look at it, without a lock: a look never waits.
//!
//! A look increments a count before it reads the pointer. A replacement changes the pointer, waits until nobody looks,
//! and then drops the old value. Both change the count, by additions that are ordered among themselves: either the
//! replacement sees the look, or the look begins after it and reads the new pointer.
//!
//! It is made of the atomics in [`super::sync`]; `tests/models.rs` puts loom's in their place, which try every order of
//! its steps and every value that a processor may read in them.

use super::sync::{AtomicPtr, AtomicUsize, Ordering, yield_now};

/// A value, or none yet.
pub struct Current<T> {
    value: AtomicPtr<T>,
    /// Number of looks that are under way.
    looks: AtomicUsize,
}

impl<T: Sync> Current<T> {
    /// `null` is a null pointer and `zero` a count of nothing.
    pub const fn new(null: AtomicPtr<T>, zero: AtomicUsize) -> Self {
        Self { value: null, looks: zero }
    }

    /// Shows the value to `at`. It waits for nothing and allocates nothing.
    pub fn look<R>(&self, at: impl FnOnce(Option<&T>) -> R) -> R {
        let look = Look::begin(&self.looks);
        // SAFETY: a value is dropped when no look is under way that could have seen it.
        let result = at(unsafe { self.value.load(Ordering::Acquire).as_ref() });
        drop(look);
        result
    }

    /// Replaces the value, and waits until nobody looks at the old one. Within a look this would wait for ever.
    pub fn replace(&self, value: Box<T>) {
        let old = self.value.swap(Box::into_raw(value), Ordering::AcqRel);
        // A load would need sequential consistency to see every look. An addition of 0 is ordered among the additions of
        // the looks: it comes before or after each.
        while self.looks.fetch_add(0, Ordering::AcqRel) != 0 {
            yield_now();
        }
        // SAFETY: no look has begun since the swap that could see it, and those before have ended.
        unsafe { drop_boxed(old) };
    }
}

impl<T> Drop for Current<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else has a reference to this.
        unsafe { drop_boxed(self.value.load(Ordering::Relaxed)) };
    }
}

/// Drops a value, unless the pointer is null.
///
/// # Safety
/// The pointer is null, or it came from a box and nobody looks at the value any more.
unsafe fn drop_boxed<T>(value: *mut T) {
    if !value.is_null() {
        // SAFETY: the caller says so.
        drop(unsafe { Box::from_raw(value) });
    }
}

/// A look that is counted until this is dropped, by a panic within it, too.
struct Look<'c>(&'c AtomicUsize);

impl<'c> Look<'c> {
    fn begin(looks: &'c AtomicUsize) -> Self {
        looks.fetch_add(1, Ordering::Acquire);
        Look(looks)
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
