//! A value that is replaced while others look at it, without a lock: a look never waits.
//!
//! A look sets the mark of a free slot before it reads the pointer, and frees it at its end. A replacement
//! changes the pointer and then waits for the looks that it finds in the slots. Looks that begin later have
//! seen the new pointer, so it waits for none of them, however many there are. Then it drops the old value.
//!
//! As each slot is one look's at a time, a look also gets a scratch of its own there. If all slots are taken,
//! it goes without.
//!
//! It is made of the atomics in [`super::sync`], as [`Slot`] is; `tests/models.rs` puts loom's in their
//! place.

use super::slot::Slot;
use super::sync::{AtomicPtr, Ordering};
use std::cell::UnsafeCell;

/// What looks change, each its own.
pub trait Scratch: Send {
    /// A scratch of nothing.
    fn empty() -> Self;
    /// Forgets everything; what it holds may be half changed. Allocates and frees nothing.
    fn forget(&mut self);
}

/// A value, or none yet, and `N` slots.
pub struct Current<T, S, const N: usize> {
    shown: AtomicPtr<Shown<T, S, N>>,
    slots: [Slot; N],
}

/// A value with a scratch for each slot.
pub struct Shown<T, S, const N: usize> {
    value: T,
    scratches: [UnsafeCell<S>; N],
}

impl<T: Send + Sync, S: Scratch, const N: usize> Current<T, S, N> {
    /// `null` is a null pointer.
    pub const fn new(null: AtomicPtr<Shown<T, S, N>>, slots: [Slot; N]) -> Self {
        Self { shown: null, slots }
    }

    /// Shows the value to `at`; `None` if there is none yet, or no free slot. It waits for nothing and
    /// allocates nothing.
    pub fn look<R>(&self, process: u32, at: impl FnOnce(&T, &mut S) -> R) -> Option<R> {
        let free = self.slots.iter().enumerate().find_map(|(place, slot)| Some((place, slot.take(process)?)));
        let (place, taken) = free?;
        // SAFETY: a value is dropped when the looks have ended that could have seen it.
        let shown = unsafe { self.shown.load(Ordering::Acquire).as_ref() }?;
        // SAFETY: the scratch is that of the slot that this look has.
        let scratch = unsafe { &mut *shown.scratches[place].get() };
        if taken.abandoned {
            scratch.forget();
        }
        let result = at(&shown.value, scratch);
        drop(taken);
        Some(result)
    }

    /// Replaces the value, and waits for the looks at the old one. Within a look this would wait for ever.
    pub fn replace(&self, process: u32, value: T) {
        let scratches = std::array::from_fn(|_| UnsafeCell::new(S::empty()));
        let new = Box::into_raw(Box::new(Shown { value, scratches }));
        let old = self.shown.swap(new, Ordering::AcqRel);
        // All looks go on while one of them is waited for.
        let seen = self.slots.each_ref().map(Slot::see);
        self.slots.iter().zip(seen).for_each(|(slot, seen)| slot.wait(seen, process));
        // SAFETY: the looks have ended that could have seen it.
        unsafe { drop_boxed(old) };
    }
}

impl<T, S, const N: usize> Drop for Current<T, S, N> {
    fn drop(&mut self) {
        // SAFETY: nobody else has a reference to this.
        unsafe { drop_boxed(self.shown.load(Ordering::Relaxed)) };
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
