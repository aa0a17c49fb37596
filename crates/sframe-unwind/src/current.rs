//! A value that is replaced while others look at it, without a lock: a look never waits.
//!
//! A signal handler looks at the value. With a lock, it would wait for ever if the thread that it interrupted
//! held the lock. Without any protection, a replacement could free the value while the handler reads it.
//!
//! ```text
//! look:         mark a free slot ─ read the pointer ─ use the value ─ free the slot
//! replacement:  change the pointer ─ see which slots are marked ─ wait for these ─ drop the old value
//! ```
//!
//! A look that begins after the change has seen the new pointer. So a replacement waits for none of these
//! looks, however many there are.
//!
//! Only one look has a slot at a time, so each slot can also give it a scratch of its own. If all slots are
//! taken, a look gets nothing.
//!
//! The atomics come from [`super::sync`], as for [`Slot`]; `tests/models.rs` replaces them by those of loom.

use super::slot::Slot;
use super::sync::{AtomicPtr, Ordering};
use std::cell::UnsafeCell;

/// What each look may change for itself.
pub trait Scratch: Send {
    /// An empty scratch.
    fn empty() -> Self;
    /// Forgets everything. The contents may be half changed. Neither allocates nor frees.
    fn forget(&mut self);
}

/// A value, or none yet, and `N` slots.
pub struct Current<T, S, const N: usize> {
    shown: AtomicPtr<Shown<T, S, N>>,
    slots: [Slot; N],
}

/// A value, with a scratch for each slot.
pub struct Shown<T, S, const N: usize> {
    value: T,
    scratches: [UnsafeCell<S>; N],
}

impl<T: Send + Sync, S: Scratch, const N: usize> Current<T, S, N> {
    /// `null` is a null pointer.
    pub const fn new(null: AtomicPtr<Shown<T, S, N>>, slots: [Slot; N]) -> Self {
        Self { shown: null, slots }
    }

    /// Shows the value to `at`; `None` if there is no value yet or no free slot. It does not wait and does
    /// not allocate.
    pub fn look<R>(&self, process: u32, at: impl FnOnce(&T, &mut S) -> R) -> Option<R> {
        let free = self.slots.iter().enumerate().find_map(|(place, slot)| Some((place, slot.take(process)?)));
        let (place, taken) = free?;
        // SAFETY: a value is only dropped when all looks that could have seen it have ended.
        let shown = unsafe { self.shown.load(Ordering::Acquire).as_ref() }?;
        // SAFETY: the scratch belongs to the slot that this look has.
        let scratch = unsafe { &mut *shown.scratches[place].get() };
        if taken.abandoned {
            scratch.forget();
        }
        let result = at(&shown.value, scratch);
        drop(taken);
        Some(result)
    }

    /// Replaces the value and waits for the looks at the old one. Within a look, this would wait for ever.
    pub fn replace(&self, process: u32, value: T) {
        let scratches = std::array::from_fn(|_| UnsafeCell::new(S::empty()));
        let new = Box::into_raw(Box::new(Shown { value, scratches }));
        let old = self.shown.swap(new, Ordering::AcqRel);
        // While it waits for one look, all others go on.
        let seen = self.slots.each_ref().map(Slot::see);
        self.slots.iter().zip(seen).for_each(|(slot, seen)| slot.wait(seen, process));
        // SAFETY: the looks that could have seen it have ended.
        unsafe { drop_boxed(old) };
    }
}

impl<T, S, const N: usize> Drop for Current<T, S, N> {
    fn drop(&mut self) {
        // SAFETY: nobody else has a reference to it.
        unsafe { drop_boxed(self.shown.load(Ordering::Relaxed)) };
    }
}

/// Drops a value, unless the pointer is null.
///
/// # Safety
/// The pointer is null, or it came from a box and nobody looks at the value any more.
unsafe fn drop_boxed<T>(value: *mut T) {
    if !value.is_null() {
        // SAFETY: the caller promises it.
        drop(unsafe { Box::from_raw(value) });
    }
}
