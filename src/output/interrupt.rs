//! Temporary files that a signal must not leave behind.
//!
//! The library installs no handler. It keeps a list of the temporary files of this process, and a
//! command that gets a signal to end calls [`remove_temporaries`] from the handler of the signal.
//!
//! A handler may run at any moment on any thread, so the list is guarded by a spin lock that is
//! only held with all signals blocked: the holder is never the thread that the handler interrupted,
//! and goes on to release it. Making or renaming a temporary happens under the lock as well; a
//! signal can therefore never find a file without its entry.

use std::cell::UnsafeCell;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Paths of the temporary files of this process, as the system takes them.
struct Registry {
    locked: AtomicBool,
    paths: UnsafeCell<Vec<CString>>,
}

// SAFETY: `paths` is only touched by the thread that has set `locked`.
unsafe impl Sync for Registry {}

static TEMPORARIES: Registry =
    Registry { locked: AtomicBool::new(false), paths: UnsafeCell::new(Vec::new()) };

impl Registry {
    fn acquire(&self) {
        while self.locked.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// The list, locked; signals to this thread wait until it is dropped.
pub struct Temporaries {
    signals: libc::sigset_t,
}

impl Temporaries {
    /// Waits for the list.
    pub fn lock() -> Temporaries {
        let signals = change_mask(&all_signals());
        TEMPORARIES.acquire();
        Temporaries { signals }
    }

    /// Takes a file into the list. A name with a zero byte names no file and is passed by.
    pub fn add(&mut self, path: &Path) {
        self.extend(CString::new(path.as_os_str().as_bytes()));
    }

    /// Takes a file from the list.
    pub fn forget(&mut self, path: &Path) {
        let name = path.as_os_str().as_bytes();
        self.retain(|listed| listed.as_bytes() != name);
    }
}

impl Deref for Temporaries {
    type Target = Vec<CString>;

    fn deref(&self) -> &Vec<CString> {
        // SAFETY: a value of this type exists only while this thread holds the lock.
        unsafe { &*TEMPORARIES.paths.get() }
    }
}

impl DerefMut for Temporaries {
    fn deref_mut(&mut self) -> &mut Vec<CString> {
        // SAFETY: as above, and the borrow of `self` is exclusive.
        unsafe { &mut *TEMPORARIES.paths.get() }
    }
}

impl Drop for Temporaries {
    fn drop(&mut self) {
        TEMPORARIES.locked.store(false, Ordering::Release);
        change_mask(&self.signals);
    }
}

fn all_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    // SAFETY: the call fills the whole set.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        all.assume_init()
    }
}

/// Blocks just these signals in this thread and gives back those that were blocked.
fn change_mask(signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both sets are valid; the call cannot fail, and zeroes are a set too.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, ptr::from_ref(signals), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Removes the temporary files of this process, whose end is near: afterwards no thread can make
/// one: the lock is never given back, and a link that tries waits for ever.
///
/// It may be called by a signal's handler (only system calls, no allocation, no lock that the
/// interrupted thread could hold), if the handler runs with all other signals blocked.
pub fn remove_temporaries() {
    TEMPORARIES.acquire();
    // SAFETY: this thread holds the lock and never gives it back.
    let paths = unsafe { &*TEMPORARIES.paths.get() };
    for path in paths {
        let _ = rustix::fs::unlink(path.as_c_str());
    }
}
