//! Lets the command end when the output can run, while a child of it still writes the debug file.
//!
//! The child makes the whole link, because threads do not survive a fork. The command waits for a byte from
//! it, which says that the output is in its place, and then ends with success. If the child ends without a
//! word, the link has failed, and the command ends as the child did.
//!
//! The build reads the pipes that it gave to the linker until nobody holds them any more, so the child lets
//! go of them when it releases the command. An error after that shows on a terminal or in a file, and
//! otherwise in that there is no debug file: it gets its name when it is complete.

use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::c_int;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsRawFd;

/// The child's end of the pipe on which the command waits.
pub struct Waiting(File);

/// Makes the child, and returns in it. `None`: there is no child, and this process has to do everything.
pub fn start() -> Option<Waiting> {
    let (end, start) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let (end, start) = (File::from(end), File::from(start));
    let parent = std::process::id();
    // SAFETY: there are no other threads yet, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => None,
        0 => {
            end_with(parent);
            Some(Waiting(start))
        }
        child => {
            drop(start);
            wait(end, child)
        }
    }
}

/// Asks for an end by a signal if the command that waits is ended: a build that was interrupted gets no
/// output.
fn end_with(parent: u32) {
    // SAFETY: the calls take and return numbers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        // It may have ended before.
        if libc::getppid() as u32 != parent {
            libc::raise(libc::SIGTERM);
        }
    }
}

/// Waits for the word of the child, and ends this process.
fn wait(mut end: File, child: libc::pid_t) -> ! {
    let mut word = [0];
    if end.read_exact(&mut word).is_ok() {
        // SAFETY: nothing runs behind it in this process.
        unsafe { libc::_exit(word[0].into()) }
    }
    let mut status: c_int = 0;
    // SAFETY: the pointer is valid. Nothing runs behind the exit; a signal that ended the child is the
    // default one again, so it ends this process, too.
    unsafe {
        while libc::waitpid(child, &mut status, 0) < 0
            && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
        if libc::WIFSIGNALED(status) {
            libc::signal(libc::WTERMSIG(status), libc::SIG_DFL);
            libc::raise(libc::WTERMSIG(status));
        }
        libc::_exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1 })
    }
}

impl Waiting {
    /// Lets the command end with success, and goes on without it.
    pub fn release(&self) {
        let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") else { return };
        // SAFETY: the calls take and return numbers; the standard descriptors may be replaced at any time.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, 0);
            libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO);
            libc::dup2(nothing.as_raw_fd(), libc::STDOUT_FILENO);
            if !is_kept(&std::io::stderr()) {
                libc::dup2(nothing.as_raw_fd(), libc::STDERR_FILENO);
            }
        }
        // The command may have been ended; the debug file is written in any case.
        let _ = (&self.0).write_all(&[0]);
    }
}

/// Whether nobody waits for the end of what is written there: a terminal, or a file.
fn is_kept(stderr: &std::io::Stderr) -> bool {
    let is_file = |file: std::os::fd::BorrowedFd<'_>| {
        let kind = rustix::fs::fstat(file).map(|found| rustix::fs::FileType::from_raw_mode(found.st_mode));
        kind.is_ok_and(|kind| kind.is_file())
    };
    stderr.is_terminal() || is_file(std::os::fd::AsFd::as_fd(stderr))
}
