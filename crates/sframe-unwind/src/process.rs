//! Tells a process from the one that it was forked from, whose threads it does not have.
//!
//! Each process has a number, which stands in a page that the system empties in the child of a fork, however
//! that is made (`MADV_WIPEONFORK`). Systems and emulators without this empty it by a handler
//! (`pthread_atfork`). Who finds it empty takes the next number; the child's numbers go on behind its
//! parent's, so no two of one line are the same. Asking for the number is a load, not a call to the system.
//!
//! And it keeps forks away from what must not be cut in two by them ([`without_forks`]): the C library leaves
//! the lock of its list of files locked in the child for ever.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The place of the number; null before the first refresh.
static NUMBER: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// Its place where the system gives no page.
static WITHOUT_PAGE: AtomicU32 = AtomicU32::new(0);
/// The last number that this process or one before it had.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The number of this process; `None` before the first [`begin`]. Fit for a signal handler.
pub fn current() -> Option<u32> {
    // SAFETY: it is null or leads to a word that stays.
    unsafe { NUMBER.load(Ordering::Acquire).as_ref() }.map(number)
}

/// The number of this process. Not for a signal handler.
pub fn begin() -> u32 {
    if let Some(number) = current() {
        return number;
    }
    // SAFETY: the handlers allocate nothing. If two threads register them, they run twice.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    let page = page_emptied_by_forks();
    let place = page.unwrap_or((&raw const WITHOUT_PAGE).cast_mut());
    if NUMBER.compare_exchange(null_mut(), place, Ordering::AcqRel, Ordering::Relaxed).is_err()
        && let Some(page) = page
    {
        // SAFETY: another thread was faster, and nobody knows this page.
        unsafe { libc::munmap(page.cast(), size_of::<AtomicU32>()) };
    }
    current().unwrap_or(0)
}

/// A word in a page that the system empties in a child, if it can do that. `None` if it gives no page.
fn page_emptied_by_forks() -> Option<*mut AtomicU32> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place of the system's choice.
    let page = unsafe { libc::mmap(null_mut(), size_of::<AtomicU32>(), access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping was made above. If the call fails, the handler has to do.
    unsafe { libc::madvise(page, size_of::<AtomicU32>(), libc::MADV_WIPEONFORK) };
    Some(page.cast())
}

/// The thread that keeps forks away, or forks; 0 if none does.
static HOLDER: AtomicU32 = AtomicU32::new(0);
/// How often it holds that beyond the first time.
static AGAIN: AtomicU32 = AtomicU32::new(0);

/// Runs `work`, and lets no other thread fork meanwhile. `work` must not wait for other threads of this
/// program, which may wait for a fork.
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
        // A handler of this program's may fork in the midst of `work`, or these handlers may be registered
        // twice.
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
    // It is another number in the child of a fork in the midst of `work`.
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
