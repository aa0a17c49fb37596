//! Tells a process from the one that it was forked from, whose threads it does not have.
//!
//! Each process has a number. It is in a page that the system clears in the child of a fork, however the fork
//! is made (`MADV_WIPEONFORK`). On systems and emulators without this, a handler clears it
//! (`pthread_atfork`). Whoever finds no number takes the next one. A child's numbers continue after its
//! parent's, so no two processes of one line have the same. To ask for the number takes one load, and no
//! system call.
//!
//! This module also prevents forks during work that a fork must not cut in two ([`without_forks`]). For
//! example, a fork while the C library holds the lock of its list of files would leave that lock locked in
//! the child for ever.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Where the number is; null before the first refresh.
static NUMBER: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// Where the number is if the system gives no page.
static WITHOUT_PAGE: AtomicU32 = AtomicU32::new(0);
/// The last number of this process or of an ancestor.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The number of this process; `None` before the first [`begin`]. A signal handler may call it.
pub fn current() -> Option<u32> {
    // SAFETY: it is null or points to a word that is never freed.
    unsafe { NUMBER.load(Ordering::Acquire).as_ref() }.map(number)
}

/// The number of this process. A signal handler must not call it.
pub fn begin() -> u32 {
    if let Some(number) = current() {
        return number;
    }
    // SAFETY: the handlers do not allocate. If two threads register them, they run twice.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    let page = page_emptied_by_forks();
    let place = page.unwrap_or((&raw const WITHOUT_PAGE).cast_mut());
    if NUMBER.compare_exchange(null_mut(), place, Ordering::AcqRel, Ordering::Relaxed).is_err()
        && let Some(page) = page
    {
        // SAFETY: another thread was faster, so nobody knows this page.
        unsafe { libc::munmap(page.cast(), size_of::<AtomicU32>()) };
    }
    current().unwrap_or(0)
}

/// A word in a page that the system clears in a child, if it can do that; `None` if it gives no page.
fn page_emptied_by_forks() -> Option<*mut AtomicU32> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: this makes a new mapping at a place that the system chooses.
    let page = unsafe { libc::mmap(null_mut(), size_of::<AtomicU32>(), access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping was made above. If the call fails, the handler has to suffice.
    unsafe { libc::madvise(page, size_of::<AtomicU32>(), libc::MADV_WIPEONFORK) };
    Some(page.cast())
}

/// The thread that forks or prevents forks; 0 if there is none.
static HOLDER: AtomicU32 = AtomicU32::new(0);
/// How many more times that thread has taken it.
static AGAIN: AtomicU32 = AtomicU32::new(0);

/// Runs `work` and lets no other thread fork meanwhile. `work` must not wait for other threads of this
/// program, because they may be waiting for a fork.
pub fn without_forks<R>(work: impl FnOnce() -> R) -> R {
    before_fork();
    let result = work();
    after_fork();
    result
}

fn this_thread() -> u32 {
    // C libraries before glibc 2.30 have no function for it.
    // SAFETY: a system call without arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

extern "C" fn before_fork() {
    let this = this_thread();
    while let Err(holder) = HOLDER.compare_exchange(0, this, Ordering::Acquire, Ordering::Relaxed) {
        // A handler of the program may fork during `work`, or these handlers may be registered twice.
        if holder == this {
            AGAIN.fetch_add(1, Ordering::Relaxed);
            return;
        }
        std::thread::yield_now();
    }
}

extern "C" fn after_fork() {
    if AGAIN.load(Ordering::Relaxed) > 0 {
        AGAIN.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    // After a fork during `work`, the child's thread has another number.
    let _ = HOLDER.compare_exchange(this_thread(), 0, Ordering::Release, Ordering::Relaxed);
}

extern "C" fn in_child() {
    AGAIN.store(0, Ordering::Relaxed);
    HOLDER.store(0, Ordering::Relaxed);
    // SAFETY: as in `current`.
    if let Some(word) = unsafe { NUMBER.load(Ordering::Acquire).as_ref() } {
        word.store(0, Ordering::Relaxed);
    }
}

fn number(word: &AtomicU32) -> u32 {
    match word.load(Ordering::Relaxed) {
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => next,
                Err(other) => other,
            }
        }
        number => number,
    }
}
