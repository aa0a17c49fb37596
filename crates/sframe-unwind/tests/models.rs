//! The lock-free parts under loom, which tries every order of their steps, and every value that the memory model lets a
//! load give. A value that is dropped while somebody looks at it, or used by two threads, ends a run.

// Parts that only the library uses.
#![allow(dead_code)]

#[path = "../src/current.rs"]
mod current;
#[path = "../src/pool.rs"]
mod pool;

/// Loom's atomics and `yield_now`, in place of those that the library uses.
mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
    pub use loom::thread::yield_now;
}

use current::Current;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;
use pool::Pool;
use std::ptr::null_mut;
use sync::{AtomicPtr, AtomicUsize};

/// A value that must not be read any more once it is dropped: loom counts a read beside the drop's write as a fault.
struct Watched(UnsafeCell<u32>);

impl Watched {
    fn new(value: u32) -> Box<Self> {
        Box::new(Self(UnsafeCell::new(value)))
    }

    fn read(&self) -> u32 {
        // SAFETY: loom refuses a run in which another thread writes.
        self.0.with(|value| unsafe { *value })
    }
}

// SAFETY: loom watches the cell.
unsafe impl Sync for Watched {}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: loom refuses a run in which another thread reads or writes.
        self.0.with_mut(|value| unsafe { *value = u32::MAX });
    }
}

fn nothing_yet() -> Current<Watched> {
    Current::new(AtomicPtr::new(null_mut()), AtomicUsize::new(0))
}

#[test]
fn a_value_outlives_all_looks_at_it() {
    // All orders with this number of interruptions at most; without a bound the test takes a minute.
    let mut models = loom::model::Builder::new();
    models.preemption_bound = Some(3);
    models.check(|| {
        let current = Arc::new(nothing_yet());
        current.replace(Watched::new(1));
        let lookers: Vec<_> = (0..2)
            .map(|_| {
                let current = Arc::clone(&current);
                spawn(move || current.look(|value| value.map(Watched::read)))
            })
            .collect();
        current.replace(Watched::new(2));
        let seen = current.look(|value| value.map(Watched::read));
        assert_eq!(seen, Some(2), "a look after the replacement saw the old value");
        for looker in lookers {
            let seen = looker.join().expect("the looker ends");
            assert!(matches!(seen, Some(1 | 2)), "{seen:?}");
        }
    });
}

#[test]
fn looks_within_looks_and_looks_before_the_first_value() {
    loom::model(|| {
        let current = Arc::new(nothing_yet());
        let looker = {
            let current = Arc::clone(&current);
            spawn(move || {
                let inner = || current.look(|value| value.map(Watched::read));
                current.look(|value| (value.map(Watched::read), inner()))
            })
        };
        current.replace(Watched::new(1));
        let (outer, inner) = looker.join().expect("the looker ends");
        assert!(outer <= inner, "{outer:?} was seen before {inner:?}");
    });
}

#[test]
fn one_thread_at_a_time_uses_a_value_of_a_pool() {
    loom::model(|| {
        let pool = Arc::new(Pool::new([UnsafeCell::new(0)].into_iter()));
        // SAFETY: loom refuses a run in which two threads write.
        let add = |cell: &mut UnsafeCell<u32>| cell.with_mut(|value| unsafe { *value += 1 });
        let user = {
            let pool = Arc::clone(&pool);
            spawn(move || pool.with_any(add).is_some())
        };
        let here = pool.with_any(add).is_some();
        let there = user.join().expect("the user ends");
        assert!(here || there, "nobody found a free value");
        // SAFETY: the other thread has ended.
        let sum = pool.with_any(|cell| cell.with(|value| unsafe { *value }));
        assert_eq!(sum, Some(u32::from(here) + u32::from(there)));
    });
}
