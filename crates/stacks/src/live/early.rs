//! Threads that run before the programs that they sample.
//!
//! A process that lives two milliseconds has ended before a thread's turn comes on a machine that is busy. So
//! the threads that tell the kernel's program of processes ask for short turns, which come earlier, and for
//! more of them as far as the user may. They use little time: what takes long is on another thread
//! (`tables`).

use std::mem::MaybeUninit;

/// How nice such a thread is.
const NICE: i32 = -10;
/// Length of its turns, in nanoseconds: the shortest that Linux takes, from 6.12 on. Before, it ignores this.
const TURN: u64 = 100_000;

/// `struct sched_attr`, as its first version was.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<Attributes>() as u32;

/// The calling thread runs early until this is dropped.
pub struct Early {
    before: Attributes,
    /// The thread, and no other one, must end it.
    _of_thread: std::marker::PhantomData<*const ()>,
}

impl Early {
    /// Makes the calling thread run early, as far as the system allows it. `None`: it has a policy of its
    /// own, or nothing is allowed.
    pub fn start() -> Option<Self> {
        let before = own().filter(|own| own.policy == libc::SCHED_OTHER as u32)?;
        let short = Attributes { runtime: TURN, ..before };
        let more = Attributes { nice: before.nice.min(NICE), ..short };
        let set = set(&more) || set(&short);
        set.then_some(Self { before, _of_thread: std::marker::PhantomData })
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        set(&self.before);
    }
}

/// How the calling thread is scheduled.
fn own() -> Option<Attributes> {
    let mut own = MaybeUninit::<Attributes>::zeroed();
    // SAFETY: the kernel writes at most so many bytes.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, own.as_mut_ptr(), SIZE, 0) };
    // SAFETY: all bytes are set, and any are integers.
    (got == 0).then(|| Attributes { size: SIZE, ..unsafe { own.assume_init() } })
}

/// Changes it, and says whether the kernel has done so.
fn set(attributes: &Attributes) -> bool {
    // SAFETY: the kernel reads the structure, whose size it says.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::{Early, own};

    #[test]
    fn a_thread_runs_early_for_a_while() {
        let nice = || own().map(|own| own.nice);
        let before = nice();
        if let Some(early) = Early::start() {
            assert!(nice() <= before);
            drop(early);
        }
        assert_eq!(nice(), before);
    }
}
