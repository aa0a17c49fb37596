//! The programs to sample: a running process, or a command that waits until everything is ready.

use super::request::Target;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;

/// A program to sample.
pub struct Started {
    pid: u32,
    /// For a command that this process started: the pipe that lets it start, and the pipe that says why it
    /// could not.
    child: Option<(Option<File>, File)>,
    status: Option<i32>,
}

/// Finds the process, or forks one that waits to execute the command.
///
/// # Errors
/// A sentence: there is no such process, or a new process cannot be made.
pub fn start(target: &Target) -> Result<Started, String> {
    match target {
        Target::Process(pid) => {
            if threads_of(*pid).is_empty() {
                return Err(format!("there is no process {pid}"));
            }
            Ok(Started { pid: *pid, child: None, status: None })
        }
        Target::Command(words) => fork(words).map_err(|error| format!("cannot start a process: {error}")),
    }
}

/// The threads of a process.
pub fn threads_of(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut threads: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable();
    threads
}

impl Started {
    /// The threads of the program.
    ///
    /// # Errors
    /// It has ended.
    pub fn threads(&self) -> Result<Vec<u32>, String> {
        let threads = threads_of(self.pid);
        if threads.is_empty() { Err(format!("process {} has ended", self.pid)) } else { Ok(threads) }
    }

    /// Makes a command start.
    ///
    /// # Errors
    /// It cannot be executed.
    pub fn go(&mut self) -> Result<(), String> {
        let Some((start, failure)) = &mut self.child else { return Ok(()) };
        if let Some(mut start) = start.take() {
            let _ = start.write_all(b"x");
        }
        let mut code = [0; 4];
        match failure.read_exact(&mut code) {
            // The child has reported the error and ended.
            Ok(()) => {
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes(code));
                self.wait(false);
                Err(format!("cannot execute the command: {error}"))
            }
            // Executing the program has closed the pipe.
            Err(_) => Ok(()),
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.child.is_some() {
            self.collect(libc::WNOHANG);
            return self.status.is_some();
        }
        threads_of(self.pid).is_empty()
    }

    /// Waits for a command's end and returns its status. `None`: the target is a process. If the recording
    /// was stopped, this first asks the command to end.
    pub fn wait(&mut self, stopped: bool) -> Option<i32> {
        self.child.as_ref()?;
        if self.status.is_none() {
            if stopped {
                // SAFETY: it is a child that was not waited for, so no other process has its number.
                unsafe { libc::kill(self.pid as i32, libc::SIGTERM) };
            }
            self.collect(0);
        }
        self.status
    }

    fn collect(&mut self, flags: i32) {
        if self.status.is_some() {
            return;
        }
        let mut status = 0;
        // SAFETY: it only writes the status.
        if unsafe { libc::waitpid(self.pid as i32, &raw mut status, flags) } == self.pid as i32 {
            self.status = Some(if libc::WIFSIGNALED(status) {
                128 + libc::WTERMSIG(status)
            } else {
                libc::WEXITSTATUS(status)
            });
        }
    }
}

impl Drop for Started {
    /// If a command has never been started, closing its pipe ends it.
    fn drop(&mut self) {
        if let Some((start @ Some(_), _)) = &mut self.child {
            *start = None;
            self.collect(0);
        }
    }
}

/// A pipe that closes when a program is executed: the end to read from and the end to write to.
fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: it writes the two numbers; nobody else has them.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])))
    }
}

/// Makes a process that waits for a byte and then executes the command.
fn fork(words: &[OsString]) -> io::Result<Started> {
    let words: Result<Vec<CString>, _> = words.iter().map(|word| CString::new(word.as_bytes())).collect();
    let words = words?;
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    let Some(&program) = pointers.first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    pointers.push(std::ptr::null());
    let (start_read, start) = pipe()?;
    let (failure, failure_write) = pipe()?;
    let (wait_on, tell) = (start_read.as_raw_fd(), failure_write.as_raw_fd());
    let start_fd = start.as_raw_fd();
    // SAFETY: the child calls only functions that may be called after fork: close, read, execvp, write,
    // _exit. All memory that they look at was made before.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            // Otherwise the child itself would keep the pipe open when the recorder ends.
            libc::close(start_fd);
            let mut byte = 0u8;
            if libc::read(wait_on, (&raw mut byte).cast(), 1) == 1 {
                libc::execvp(program, pointers.as_ptr());
                let code = *libc::__errno_location();
                libc::write(tell, (&raw const code).cast(), 4);
            }
            libc::_exit(127);
        }
        pid
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Started { pid: pid as u32, child: Some((Some(start), failure)), status: None })
}
