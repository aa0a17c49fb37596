//! Tests the lock-free parts with loom. It tries every order of their steps, and every value that the memory
//! model allows a load to return. If a value is dropped while somebody looks at it, or two threads use it,
//! the test fails.

// Some parts are only used by the library.
#![allow(dead_code)]

#[path = "../src/current.rs"]
mod current;
#[path = "../src/slot.rs"]
mod slot;

/// loom's atomics and `yield_now` replace those of the library.
mod sync {
    pub use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
    pub use loom::thread::yield_now;
}

use current::{Current, Scratch};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;
use slot::{Guarded, Slot};
use std::ptr::null_mut;
use sync::{AtomicPtr, AtomicU64};

/// The number of the process, and the number of a child.
const HERE: u32 = 1;
const CHILD: u32 = 2;

/// A value that nobody may read after it is dropped. The drop writes it, and loom reports a read that is not
/// ordered with that write.
struct Watched(UnsafeCell<u32>);

impl Watched {
    fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn read(&self) -> u32 {
        // SAFETY: loom rejects a run in which another thread writes.
        self.0.with(|value| unsafe { *value })
    }
}

// SAFETY: loom watches the cell.
unsafe impl Sync for Watched {}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: loom rejects a run in which another thread reads or writes.
        self.0.with_mut(|value| unsafe { *value = u32::MAX });
    }
}

/// Counts its uses. loom rejects a run in which two threads use it.
struct Uses(UnsafeCell<u32>);

impl Scratch for Uses {
    fn empty() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn forget(&mut self) {
        // SAFETY: loom rejects a run in which two threads write.
        self.0.with_mut(|uses| unsafe { *uses = 0 });
    }
}

type Shared = Current<Watched, Uses, 2>;

fn slot() -> Slot {
    Slot::new(AtomicU64::new(0))
}

fn nothing_yet() -> Shared {
    Current::new(AtomicPtr::new(null_mut()), [slot(), slot()])
}

/// Reads the value with a look that also uses the scratch.
fn read(current: &Shared) -> Option<u32> {
    current.look(HERE, |value, uses| {
        // SAFETY: loom rejects a run in which two threads write.
        uses.0.with_mut(|uses| unsafe { *uses += 1 });
        value.read()
    })
}

/// Checks all orders with at most this number of interruptions. Without a limit, the tests would take
/// minutes.
fn check(interruptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut models = loom::model::Builder::new();
    models.preemption_bound = Some(interruptions);
    models.check(model);
}

#[test]
fn a_value_outlives_all_looks_at_it() {
    check(2, || {
        let current = Arc::new(nothing_yet());
        current.replace(HERE, Watched::new(1));
        let lookers: Vec<_> = (0..2)
            .map(|_| {
                let current = Arc::clone(&current);
                spawn(move || read(&current))
            })
            .collect();
        current.replace(HERE, Watched::new(2));
        let seen = read(&current);
        assert!(matches!(seen, Some(2) | None), "a look after the replacement saw {seen:?}");
        for looker in lookers {
            let seen = looker.join().expect("the looker ends");
            assert!(matches!(seen, Some(1 | 2) | None), "{seen:?}");
        }
    });
}

/// A thread that looks again and again takes the slot that the replacement waits for. The replacement must
/// not wait for looks that begin after it, and these must see the new value.
#[test]
fn a_replacement_waits_for_no_look_that_begins_after_it() {
    check(3, || {
        let current = Arc::new(nothing_yet());
        current.replace(HERE, Watched::new(1));
        let looker = {
            let current = Arc::clone(&current);
            spawn(move || [read(&current), read(&current), read(&current)])
        };
        current.replace(HERE, Watched::new(2));
        let seen = looker.join().expect("the looker ends");
        assert!(seen.is_sorted() && seen.iter().all(|it| matches!(it, Some(1 | 2))), "{seen:?}");
    });
}

#[test]
fn looks_within_looks_and_looks_before_the_first_value() {
    check(3, || {
        let current = Arc::new(nothing_yet());
        let looker = {
            let current = Arc::clone(&current);
            spawn(move || {
                let before = read(&current);
                (before, current.look(HERE, |value, _| (value.read(), read(&current))))
            })
        };
        current.replace(HERE, Watched::new(1));
        let (before, nested) = looker.join().expect("the looker ends");
        assert!(matches!(before, None | Some(1)) && matches!(nested, None | Some((1, Some(1)))));
        assert!(before <= nested.map(|(outer, _)| outer), "{before:?} was seen before {nested:?}");
    });
}

/// If threads of the parent had taken slots at the time of the fork, these slots are free in the child, with
/// an empty scratch. Nobody waits for those threads.
#[test]
fn a_child_does_not_wait_for_the_threads_of_its_parent() {
    check(3, || {
        let current = Arc::new(nothing_yet());
        current.replace(HERE, Watched::new(1));
        // Two looks that never end in the child: in the model, they free their slots after the child has
        // ended.
        current.look(HERE, |_, outer| {
            // SAFETY: nobody else uses the scratch.
            outer.0.with_mut(|uses| unsafe { *uses = 7 });
            current.look(HERE, |_, _| {
                assert!(read(&current).is_none(), "both slots are taken");
                let walker = {
                    let current = Arc::clone(&current);
                    spawn(move || current.look(CHILD, |value, uses| (value.read(), used(uses))))
                };
                let look = |value: &Watched, uses: &mut Uses| (value.read(), used(uses));
                let here = current.look(CHILD, look);
                assert!(matches!(here, Some((1, 0))), "{here:?}");
                let there = walker.join().expect("the walker ends");
                assert!(matches!(there, Some((1, 0)) | None), "{there:?}");
            });
        });
        current.replace(CHILD, Watched::new(2));
        let seen = current.look(CHILD, |value, _| value.read());
        assert_eq!(seen, Some(2));
    });
}

/// How often a scratch was used.
fn used(uses: &Uses) -> u32 {
    // SAFETY: loom rejects a run in which another thread writes.
    uses.0.with(|uses| unsafe { *uses })
}

#[test]
fn one_thread_at_a_time_uses_a_guarded_value() {
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(AtomicU64::new(0), UnsafeCell::new(0)));
        let fresh = || UnsafeCell::new(100);
        // SAFETY: loom rejects a run in which two threads write.
        let add = |cell: &mut UnsafeCell<u32>| cell.with_mut(|value| unsafe { *value += 1 });
        let user = {
            let guarded = Arc::clone(&guarded);
            spawn(move || guarded.with(HERE, fresh, add))
        };
        guarded.with(HERE, fresh, add);
        user.join().expect("the user ends");
        // SAFETY: the other thread has ended.
        let read = |cell: &mut UnsafeCell<u32>| cell.with(|value| unsafe { *value });
        assert_eq!(guarded.with(HERE, fresh, read), 2);
        // A value that is in use at a fork stays as it is.
        let child = guarded.with(HERE, fresh, |_| guarded.with(CHILD, fresh, read));
        assert_eq!(child, 100);
    });
}
