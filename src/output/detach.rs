//! Ends a large link sooner: a second process frees the memory after the command has ended.
//!
//! When a process ends, the system frees its memory before it tells the parent. For a large link, it unmaps
//! gigabytes of inputs page by page and frees the blocks of the file that the output replaced. Only the build
//! waits for that. So the last act of the command is to make a process that shares its memory and holds the
//! replaced file. That process closes every other descriptor, waits for the command's end, and ends. The
//! system frees a memory when the last process that shares it ends, so the command itself ends at once.
//!
//! An error cannot go unnoticed, because the output is already in place. The process stays in the session and
//! the process group of the command, and holds no pipe of the build.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::ptr;

/// Peak memory in KiB from which the process pays. Making the process takes as long as freeing a few
/// megabytes.
const MIN_PEAK_MEMORY: i64 = 64 << 10;

/// Size in words of the process's stack. The process makes only a few system calls.
const STACK_WORDS: usize = 4096;

/// The arguments of the process. They live until both processes have ended.
struct Waiter {
    /// Reading end of a pipe. The system closes the other end when the command ends.
    end: RawFd,
    /// The handle that keeps the replaced file.
    kept: Option<RawFd>,
}

/// Makes the process, if this one uses much memory. A command must call it right before it exits: the two
/// processes share memory, which nobody may free any more.
pub fn free_memory_after_exit(replaced: Option<&File>) {
    if peak_memory() < MIN_PEAK_MEMORY || is_emulated() {
        return;
    }
    let Ok((end, open_end)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else { return };
    let waiter: &'static Waiter = Box::leak(Box::new(Waiter {
        end: end.into_raw_fd(),
        kept: replaced.map(|file| file.as_fd().as_raw_fd()),
    }));
    // The pipe must stay open in this process until the process ends.
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
        // Without CLONE_FILES, the new process has its own descriptors. Without CLONE_VFORK, this process
        // goes on.
        libc::clone(wait, top.cast(), libc::CLONE_VM, ptr::from_ref(waiter).cast_mut().cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
    }
}

/// Whether a tool such as valgrind emulates the processor. Such a tool hides the vDSO from the program, and
/// cannot follow a process of this kind.
fn is_emulated() -> bool {
    // SAFETY: the call only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) == 0 }
}

/// The peak memory of this process so far, in KiB.
fn peak_memory() -> i64 {
    // SAFETY: the structure is valid, and the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_maxrss
    }
}

/// The main function of the process. The process shares the C library's variables with a command that is
/// ending, so it makes its system calls without that library.
extern "C" fn wait(waiter: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the pointer is that of `free_memory_after_exit`; descriptors are this process's own.
    unsafe {
        let waiter = &*waiter.cast::<Waiter>();
        if close_others(waiter) {
            let mut byte = [0u8; 1];
            // All signals are blocked, so only the end of the pipe interrupts the read.
            let _ = rustix::io::read(BorrowedFd::borrow_raw(waiter.end), &mut byte);
        }
        libc::syscall(libc::SYS_exit_group, 0);
    }
    0
}

/// Closes all descriptors except the waiter's. `false`: the system is too old to do it. An open pipe of the
/// build would keep the build waiting.
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

/// Closes a range of descriptors, both ends included. `false`: the system is too old to do it.
///
/// # Safety
/// No one else may use them.
unsafe fn close_range(first: RawFd, last: RawFd) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
}
