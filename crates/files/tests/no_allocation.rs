//! Nothing is allocated while the list of temporary files is locked: if memory ran out there, the handler of
//! the signal that ends the process would wait for ever for the lock of its own thread.

use files::temporary::Temporary;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;

thread_local! {
    /// How often this thread wanted memory, and how often while it let signals wait, as under the lock.
    static WANTED: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

struct Watching;

/// Whether signals to this thread wait.
fn signals_wait() -> bool {
    let mut blocked = MaybeUninit::zeroed();
    // SAFETY: the call fills the set, and zeros are a set too.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr());
        libc::sigismember(blocked.as_ptr(), libc::SIGABRT) == 1
    }
}

// SAFETY: it passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (all, locked) = WANTED.get();
        WANTED.set((all + 1, locked + u32::from(signals_wait())));
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

#[test]
fn nothing_is_allocated_under_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    // The standard library copies longer paths than 384 bytes into the heap.
    let long = folder.path().join("f".repeat(200)).join("g".repeat(200));
    std::fs::create_dir_all(&long).unwrap();
    let before = WANTED.get();
    for output in [folder.path().join("out"), long.join("out")] {
        let first = Temporary::create(&output, 0o666).unwrap();
        let others: Vec<_> = (0..20).map(|_| Temporary::create(&output, 0o666).unwrap()).collect();
        first.persist(&output).unwrap();
        drop(others);
        Temporary::create(&output, 0o666)
            .unwrap()
            .persist(&folder.path().join("no/such/folder"))
            .unwrap_err();
    }
    Temporary::create(&folder.path().join("no/such/folder"), 0o666).err().unwrap();
    let after = WANTED.get();
    assert!(after.0 > before.0);
    assert_eq!(after.1, before.1);
}
