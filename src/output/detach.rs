//! Ends a large link sooner: its memory is taken apart after the command has ended.
//!
//! The system takes a process apart before it tells the parent of its end: it unmaps gigabytes of
//! inputs page by page, and frees the blocks of the file that the output replaced. No one waits for
//! that but the build. So the command makes, as its last act, a process that shares its memory and
//! holds the replaced file, closes every other descriptor, waits for the command's end, and ends.
//! The last process that shares a memory takes it apart.
//!
//! Nothing can go wrong unnoticed: the output is in its place before. The process
//! stays in the session and the process group of the command, and holds no pipe of the build's.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::ptr;

/// Peak memory, in KiB, above which the process is made. Making it takes as long as taking a few
/// megabytes apart.
const PAYS_FROM: i64 = 64 << 10;

/// Words of the stack of the process, which calls the system a few times.
const STACK_WORDS: usize = 4096;

/// The state that the process is handed. It lives until both processes have ended.
struct Waiter {
    /// Reading end of a pipe, whose other end is closed by the command's end.
    end: RawFd,
    /// Keeps the replaced file.
    kept: Option<RawFd>,
}

/// Makes the process, if the memory of this one is large. It is the last act of a command that is
/// about to exit: the memory that both share must not be freed by anyone.
pub fn leave_memory_behind(replaced: Option<&File>) {
    if peak_memory() < PAYS_FROM || is_watched() {
        return;
    }
    let Ok((end, open_end)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else { return };
    let waiter: &'static Waiter = Box::leak(Box::new(Waiter {
        end: end.into_raw_fd(),
        kept: replaced.map(|file| file.as_fd().as_raw_fd()),
    }));
    // It must stay open in this process until it ends.
    let _ = open_end.into_raw_fd();
    let stack: &'static mut [u128] = Box::leak(vec![0; STACK_WORDS].into_boxed_slice());
    // SAFETY: the sets are valid. `wait` runs on a stack of its own that is never freed, gets a
    // pointer to a value that is never freed, and only calls the system; signals, whose handlers
    // could run on both sides of the shared memory, are blocked in it for good.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let top = stack.as_mut_ptr_range().end;
        // Without CLONE_FILES it has descriptors of its own, and without CLONE_VFORK this one goes on.
        libc::clone(wait, top.cast(), libc::CLONE_VM, ptr::from_ref(waiter).cast_mut().cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
    }
}

/// Whether a tool such as valgrind emulates the processor. It hides the vDSO from the program, and cannot
/// follow a process of this kind.
fn is_watched() -> bool {
    // SAFETY: the call only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) == 0 }
}

/// The peak of this process's memory so far, in KiB.
fn peak_memory() -> i64 {
    // SAFETY: the structure is valid, and the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_maxrss
    }
}

/// The whole life of the process. It shares the variables of the C library with a command that is
/// ending, so it calls the system past that library.
extern "C" fn wait(waiter: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the pointer is that of `leave_memory_behind`; descriptors are this process's own.
    unsafe {
        let waiter = &*waiter.cast::<Waiter>();
        if close_others(waiter) {
            let mut byte = [0u8; 1];
            // All signals are blocked, so only the end of the pipe ends it.
            let _ = rustix::io::read(BorrowedFd::borrow_raw(waiter.end), &mut byte);
        }
        libc::syscall(libc::SYS_exit_group, 0);
    }
    0
}

/// Closes all descriptors but those that the waiter names; `false` if the system is too old for
/// that. A pipe of the build's that stays open would keep the build waiting.
///
/// # Safety
/// No one else may use the descriptors of this process.
unsafe fn close_others(waiter: &Waiter) -> bool {
    let mut keep = [Some(waiter.end), waiter.kept];
    keep.sort_unstable();
    let mut first = 0;
    for kept in keep.into_iter().flatten() {
        // SAFETY: the caller's promise.
        if first < kept && !unsafe { close_range(first, kept - 1) } {
            return false;
        }
        first = kept + 1;
    }
    // SAFETY: the caller's promise.
    unsafe { close_range(first, RawFd::MAX) }
}

/// Closes a range of descriptors, both ends included; whether the system can.
///
/// # Safety
/// No one else may use them.
unsafe fn close_range(first: RawFd, last: RawFd) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
}
