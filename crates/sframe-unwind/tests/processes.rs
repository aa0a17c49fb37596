//! Tests stacks in children of a fork, whatever the parent's other threads did at that moment, and in
//! processes for which the kernel refuses to copy memory.

#![cfg(not(miri))]

use sframe_unwind::local::{End, Frame, Local};
use std::sync::atomic::{AtomicBool, Ordering};

static STACKS: Local = Local::new();

/// Seconds after which a signal ends a child that hangs.
const PATIENCE: u32 = 60;

fn walk() -> (usize, End) {
    STACKS.walk_from_here(&mut [Frame::default(); 64])
}

fn walk_on() {
    walk();
}

/// Runs `child` in a child process, which has only this thread. The result of `child` is the child's exit
/// status.
fn in_child(fork: fn() -> libc::pid_t, child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child ends without the parent's destructors and handlers.
    unsafe {
        let process = fork();
        assert!(process >= 0, "no child");
        if process == 0 {
            libc::alarm(PATIENCE);
            libc::_exit(child());
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(process, &raw mut status, 0), process);
        if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
    }
}

fn fork() -> libc::pid_t {
    // SAFETY: the caller knows what the child may call.
    unsafe { libc::fork() }
}

/// A fork that the C library does not know about, so it calls no handlers.
fn fork_in_silence() -> libc::pid_t {
    let (flags, none) = (libc::c_long::from(libc::SIGCHLD), 0 as libc::c_long);
    // SAFETY: as above. Without a stack of its own, the child continues on a copy of this one.
    unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) as libc::pid_t }
}

/// Asks threads to stop when it is dropped, even by a panic.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `meanwhile` while threads repeat `work`.
fn beside<R>(threads: usize, work: fn(), meanwhile: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        let _stop = Stop(&stop);
        meanwhile()
    })
}

/// What a child reports about its walks.
fn walks(refresh: bool) -> i32 {
    if refresh {
        STACKS.refresh();
    }
    let (count, end) = walk();
    match end {
        End::Root if count > 1 => 0,
        End::Busy => 1,
        _ => 2,
    }
}

#[test]
fn children_of_a_process_that_walks_refresh_and_walk() {
    STACKS.refresh();
    // There are as many threads as caches. At a fork most caches are taken, and some threads are in the
    // middle of a walk.
    beside(16, walk_on, || {
        for turn in 0..6 {
            assert_eq!(in_child(fork, || walks(false)), 0, "child {turn} walks");
            assert_eq!(in_child(fork, || walks(true)), 0, "child {turn} refreshes");
            // The child may only do what a signal handler may do.
            assert_eq!(in_child(fork_in_silence, || walks(false)), 0, "child {turn} of no handlers walks");
        }
        // Each child in a line of children leaves threads behind.
        let line = in_child(fork, || {
            beside(4, walk_on, || {
                in_child(fork, || walks(false)) + in_child(fork, || walks(true)) + walks(true)
            })
        });
        assert_eq!(line, 0, "children of children walk");
    });
}

#[test]
fn children_of_a_process_that_refreshes_refresh_and_walk() {
    STACKS.refresh();
    beside(
        2,
        || STACKS.refresh(),
        || {
            for turn in 0..6 {
                assert_eq!(in_child(fork, || walks(turn % 2 == 0) + walks(true)), 0, "child {turn}");
            }
        },
    );
}

/// More threads walk than there are processors, so there is no moment without a walk.
#[test]
fn a_refresh_ends_though_threads_walk_all_the_time() {
    STACKS.refresh();
    let ended = in_child(fork, || {
        beside(8, walk_on, || (0..20).for_each(|_| STACKS.refresh()));
        0
    });
    assert_eq!(ended, 0);
}

/// From now on, makes the kernel refuse to copy memory in this process, with an error.
fn refuse_copies(error: i32) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let word = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        word(LOAD, 0, 0, 0),
        word(JUMP, 0, 1, libc::SYS_process_vm_readv as u32),
        word(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        word(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter has this length.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// Walks from a context whose registers point to memory that is gone or never existed.
fn walk_from_anywhere(places: &[u64]) -> usize {
    let code = [walk as *const () as u64, walks as *const () as u64];
    let mut steps = 0;
    for (&place, pc) in places.iter().flat_map(|place| code.map(|code| (place, code))) {
        for offset in 0..40 {
            let mut context = [place; 256];
            context.iter_mut().step_by(2).for_each(|word| *word = pc + offset);
            // Another stack than that of the place, which points there.
            for shift in 0..2 {
                let mut frames = [Frame::default(); 64];
                // SAFETY: there are more words than the structure has.
                let (count, _) = unsafe { STACKS.walk(context[shift..].as_ptr().cast(), &mut frames) };
                steps += count;
            }
        }
    }
    steps
}

#[test]
fn no_pointer_ends_a_process_in_which_the_kernel_refuses_to_copy_memory() {
    for error in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
        let ended = in_child(fork, || {
            refuse_copies(error);
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let size = 1 << 20;
            // SAFETY: this is a new mapping, and nothing refers to it.
            let gone = unsafe {
                let gone = libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0);
                gone.cast::<u8>().write_bytes(1, size);
                // It existed when the files were read.
                STACKS.refresh();
                libc::munmap(gone.byte_add(size / 2), size / 2);
                gone as u64
            };
            let half = gone + size as u64 / 2;
            let places =
                [gone, half - 8, half - 4, half, half + 8, 0, 8, 1 << 47, 1 << 63, u64::MAX - 7, u64::MAX];
            let steps = walk_from_anywhere(&places);
            // It still walks if the pointers are right, also in a thread that began later.
            let there = std::thread::spawn(|| walks(false)).join().unwrap_or(9);
            i32::from(steps == 0) + walks(false) + there
        });
        assert_eq!(ended, 0, "error {error}");
    }
}
