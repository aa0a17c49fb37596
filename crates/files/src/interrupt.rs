//! Temporary files that a signal must not leave behind.
//!
//! This crate installs no handler. It keeps a list of the temporary files of this process, and a
//! command that gets a signal to end calls [`remove_temporaries`] from the handler of the signal.
//!
//! A handler may run at any moment on any thread, so the list is guarded by a spin lock that is
//! only held with all signals blocked: the holder is never the thread that the handler interrupted,
//! and goes on to release it. Making or renaming a temporary happens under the lock as well; a
//! signal can therefore never find a file without its entry.

use crate::spin_lock::{Locked, SpinLock};
use crate::sync::AtomicBool;
use std::ffi::CString;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Paths of the temporary files of this process, as the system takes them.
static TEMPORARIES: SpinLock<Vec<CString>> = SpinLock::new(AtomicBool::new(false), Vec::new());

/// The list, locked; signals to this thread wait until it is dropped.
pub struct Temporaries {
    // Fields are dropped in this order: the lock is given back before signals come.
    paths: Locked<'static, Vec<CString>>,
    _blocked: BlockedSignals,
}

impl Temporaries {
    /// Waits for the list.
    pub fn lock() -> Temporaries {
        let blocked = BlockedSignals::new();
        Temporaries { paths: TEMPORARIES.lock(), _blocked: blocked }
    }

    /// Takes a file into the list. A name with a zero byte names no file and is passed by.
    pub fn add(&mut self, path: &Path) {
        self.paths.extend(CString::new(path.as_os_str().as_bytes()));
    }

    /// Takes a file from the list.
    pub fn forget(&mut self, path: &Path) {
        let name = path.as_os_str().as_bytes();
        self.paths.retain(|listed| listed.as_bytes() != name);
    }
}

/// Signals to this thread wait while a value of this type exists.
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

/// Blocks just these signals in this thread and gives back those that were blocked.
fn change_mask(signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both sets are valid; the call cannot fail, and zeroes are a set too.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, ptr::from_ref(signals), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Removes the temporary files of this process, which is about to end. No thread can make one afterwards:
/// the lock is never given back, and a link that tries waits for ever.
///
/// It may be called by a signal's handler (only system calls, no allocation, no lock that the
/// interrupted thread could hold), if the handler runs with all other signals blocked.
pub fn remove_temporaries() {
    let paths = ManuallyDrop::new(TEMPORARIES.lock());
    for path in paths.iter() {
        let _ = rustix::fs::unlink(path.as_c_str());
    }
}
