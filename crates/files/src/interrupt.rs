//! Temporary files that a signal must not leave behind.
//!
//! This crate installs no signal handler. It keeps a list of the temporary files of this process. A command's
//! own handler calls [`remove_temporaries`] when a signal ends the process.
//!
//! A handler may run at any moment on any thread. So a spin lock guards the list, and a thread holds it only
//! while all signals are blocked. If a handler finds the lock taken, the holder is another thread than the
//! one that the handler interrupted, and it goes on and releases the lock. With an ordinary lock, the handler
//! could wait for ever for its own thread. Files are made and renamed under the lock too, so that a signal
//! never finds a temporary file that is not in the list.

use crate::spin_lock::{Locked, SpinLock};
use crate::sync::AtomicBool;
use std::ffi::CString;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Paths of the temporary files of this process, as the system takes them.
static TEMPORARIES: SpinLock<Vec<CString>> = SpinLock::new(AtomicBool::new(false), Vec::new());

/// The list, locked. Signals to this thread wait until this is dropped.
pub struct Temporaries {
    // Fields are dropped in this order: the lock is released before signals arrive.
    paths: Locked<'static, Vec<CString>>,
    _blocked: BlockedSignals,
}

impl Temporaries {
    /// Waits for the lock of the list.
    pub fn lock() -> Temporaries {
        let blocked = BlockedSignals::new();
        Temporaries { paths: TEMPORARIES.lock(), _blocked: blocked }
    }

    /// Adds a file to the list. A name with a zero byte names no file and is ignored.
    pub fn add(&mut self, path: &Path) {
        self.paths.extend(CString::new(path.as_os_str().as_bytes()));
    }

    /// Removes a file from the list.
    pub fn forget(&mut self, path: &Path) {
        let name = path.as_os_str().as_bytes();
        self.paths.retain(|listed| listed.as_bytes() != name);
    }
}

/// While a value of this type exists, signals to this thread wait.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn new() -> Self {
        BlockedSignals { before: change_mask(&all_signals()) }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        change_mask(&self.before);
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

/// Blocks exactly these signals in this thread, and returns those that were blocked before.
fn change_mask(signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both sets are valid, because zeros are a set too. The call cannot fail.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, ptr::from_ref(signals), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Removes the temporary files of this process, which is about to end. No thread can make a new one
/// afterwards: the lock is never released, and a link that tries waits for ever.
///
/// A signal handler may call this, if it runs with all other signals blocked: the function only makes system
/// calls, allocates nothing, and takes no lock that the interrupted thread could hold.
pub fn remove_temporaries() {
    let paths = ManuallyDrop::new(TEMPORARIES.lock());
    for path in paths.iter() {
        let _ = rustix::fs::unlink(path.as_c_str());
    }
}
