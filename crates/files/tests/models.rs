//! The lock of the temporary files under loom, which tries every order of its steps, and every value that the
//! memory model lets a load give.

#[path = "../src/spin_lock.rs"]
mod spin_lock;

/// Loom's parts in the place of the linker's.
mod sync {
    pub use loom::sync::atomic::{AtomicBool, Ordering};
    pub use loom::thread::yield_now;
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;
use spin_lock::SpinLock;
use sync::AtomicBool;

#[test]
fn one_thread_at_a_time_holds_the_spin_lock() {
    const THREADS: u32 = 2;
    loom::model(|| {
        let lock = Arc::new(SpinLock::new(AtomicBool::new(false), UnsafeCell::new(0)));
        // SAFETY: loom refuses a run in which two threads touch the cell at a time.
        let add = |cell: &mut UnsafeCell<u32>| cell.with_mut(|value| unsafe { *value += 1 });
        let others: Vec<_> = (1..THREADS)
            .map(|_| {
                let lock = Arc::clone(&lock);
                spawn(move || add(&mut lock.lock()))
            })
            .collect();
        add(&mut lock.lock());
        for other in others {
            other.join().expect("the thread ends");
        }
        // SAFETY: as above.
        let sum = lock.lock().with(|value| unsafe { *value });
        assert_eq!(sum, THREADS);
    });
}
