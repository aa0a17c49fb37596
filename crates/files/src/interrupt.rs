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
//!
//! Nothing is allocated under the lock. If memory runs out, the thread that wanted it aborts: a signal that
//! cannot wait, so its handler would wait for the lock of its own thread. So the list is a chain of entries
//! ([`Listed`]), which are made before it is locked.

use crate::spin_lock::{Locked, SpinLock};
use crate::sync::AtomicBool;
use std::ffi::{CStr, CString};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

/// The temporary files of this process.
static TEMPORARIES: SpinLock<Chain> = SpinLock::new(AtomicBool::new(false), Chain(None));

/// Entries of the list, the newest one first.
struct Chain(Option<Box<Listed>>);

/// An entry of the list.
pub(crate) struct Listed {
    /// The path, as the system takes it.
    path: CString,
    older: Chain,
}

impl Listed {
    /// An entry for a file, which is not in the list yet.
    pub fn new(path: CString) -> Box<Listed> {
        Box::new(Listed { path, older: Chain(None) })
    }

    /// The path of the file.
    pub fn path(&self) -> &CStr {
        &self.path
    }
}

/// The list, locked. Signals to this thread wait until this is dropped. Whoever holds it allocates nothing.
pub(crate) struct Temporaries {
    // Fields are dropped in this order: the lock is released before signals arrive.
    chain: Locked<'static, Chain>,
    _blocked: BlockedSignals,
}

impl Temporaries {
    /// Waits for the lock of the list.
    pub fn lock() -> Temporaries {
        let blocked = BlockedSignals::new();
        Temporaries { chain: TEMPORARIES.lock(), _blocked: blocked }
    }

    /// Adds a file to the list.
    pub fn add(&mut self, mut entry: Box<Listed>) {
        entry.older = Chain(self.chain.0.take());
        self.chain.0 = Some(entry);
    }

    /// Removes a file from the list, and returns its entry.
    pub fn forget(&mut self, path: &CStr) -> Option<Box<Listed>> {
        let mut place = &mut self.chain.0;
        while place.as_ref().is_some_and(|entry| entry.path() != path) {
            place = &mut place.as_mut()?.older.0;
        }
        let mut entry = place.take()?;
        *place = entry.older.0.take();
        Some(entry)
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
    let chain = ManuallyDrop::new(TEMPORARIES.lock());
    let mut next = &chain.0;
    while let Some(entry) = next {
        let _ = rustix::fs::unlink(entry.path());
        next = &entry.older.0;
    }
}
