//! A value that is replaced while others look at it, without a lock: who looks never waits.
//!
//! Who looks says so in a count before reading the pointer. Who replaces the value waits, after changing the pointer, until
//! nobody looks, and then drops the old value. Both change the count, by additions that are ordered among themselves: either
//! the one that waits sees a look, or the look begins after it and reads the new pointer.
//!
//! It is made of the parts in [`super::sync`]; `tests/models.rs` gives it loom's in their place, which try every order of its
//! steps and every value that a processor may read in them.

use super::sync::{AtomicPtr, AtomicUsize, Ordering, yield_now};

/// A value, or none yet.
pub struct Current<T> {
    value: AtomicPtr<T>,
    /// Looks that are under way.
    looks: AtomicUsize,
}

impl<T: Sync> Current<T> {
    /// `null` is a null pointer and `zero` a count of nothing.
    pub const fn new(null: AtomicPtr<T>, zero: AtomicUsize) -> Self {
        Self { value: null, looks: zero }
    }

    /// Shows the value. It waits for nothing and allocates nothing.
    pub fn look<R>(&self, at: impl FnOnce(Option<&T>) -> R) -> R {
        let look = Look::begin(&self.looks);
        // SAFETY: a value is dropped when no look is under way that could have seen it.
        let result = at(unsafe { self.value.load(Ordering::Acquire).as_ref() });
        drop(look);
        result
    }

    /// Puts a value in the old one's place, and waits until nobody looks at the old one. Not from within a look.
    pub fn replace(&self, value: Box<T>) {
        let old = self.value.swap(Box::into_raw(value), Ordering::AcqRel);
        // A load would do for the processor's sake only with an order of all loads and stores. An addition of nothing is
        // among the additions of looks, and comes before or behind each.
        while self.looks.fetch_add(0, Ordering::AcqRel) != 0 {
            yield_now();
        }
        // SAFETY: no look has begun since the swap that could see it, and those before have ended.
        unsafe { drop_boxed(old) };
    }
}

impl<T> Drop for Current<T> {
    fn drop(&mut self) {
        // SAFETY: whoever drops this is the only one that has it.
        unsafe { drop_boxed(self.value.load(Ordering::Relaxed)) };
    }
}

/// Drops a value, if it is one.
///
/// # Safety
/// It is null, or came from a box and nobody looks at it any more.
unsafe fn drop_boxed<T>(value: *mut T) {
    if !value.is_null() {
        // SAFETY: the caller says so.
        drop(unsafe { Box::from_raw(value) });
    }
}

/// One that is counted, until this is dropped: a panic within it ends it, too.
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
