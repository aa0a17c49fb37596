//! The programs to sample: running processes, or a command that waits until everything is ready.

use super::members::Members;
use super::refusal::Refusal;
use super::request::{Request, Target};
use crate::present::{numbers_in, threads_of};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// The programs to sample, and a command whose end is that of the recording.
pub struct Started {
    /// The sampled processes. Empty: all that the kernel tells of.
    pids: Vec<u32>,
    child: Option<Child>,
    /// Processes that run before the recording.
    found: Vec<u32>,
}

/// A command that this process has started.
struct Child {
    pid: u32,
    /// Whether it is sampled, and does not only run beside.
    sampled: bool,
    /// The pipe that lets it start.
    start: Option<File>,
    /// The pipe that says why it could not.
    failure: File,
    status: Option<i32>,
    asked: Option<Instant>,
}

/// Finds the processes, or forks one that waits to execute the command.
///
/// # Errors
/// There is no such process, or a new process cannot be made.
pub fn start(request: &Request) -> Result<Started, Refusal> {
    let fork = |words, sampled| {
        fork(words, sampled).map_err(|error| Refusal::new(&error, format!("cannot start a process: {error}")))
    };
    let mut child = None;
    if !request.meanwhile.is_empty() {
        child = Some(fork(&request.meanwhile, false)?);
    }
    let (pids, found) = match &request.target {
        Target::Processes(pids) => {
            if let Some(pid) = pids.iter().find(|&&pid| has_ended(pid)) {
                let error = io::Error::from_raw_os_error(libc::ESRCH);
                return Err(Refusal::new(&error, format!("there is no process {pid}")));
            }
            (pids.clone(), pids.clone())
        }
        Target::Command(words) => {
            let sampled = fork(words, true)?;
            let pids = vec![sampled.pid];
            child = Some(sampled);
            (pids, Vec::new())
        }
        Target::Machine => (Vec::new(), numbers_in(Path::new("/proc"))),
        Target::Group(folder) => (Vec::new(), processes_of(folder)),
    };
    Ok(Started { pids, child, found })
}

/// The processes of a control group and of the groups inside it.
fn processes_of(folder: &Path) -> Vec<u32> {
    let mut left = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = left.pop() {
        let list = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        found.extend(list.lines().filter_map(|line| line.parse::<u32>().ok()));
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.map(|entry| entry.path()));
    }
    found
}

/// Whether a process has ended. One that nobody has waited for still has a folder, with its first thread.
fn has_ended(pid: u32) -> bool {
    let is_dead = |thread: &u32| {
        let stat = std::fs::read(format!("/proc/{pid}/task/{thread}/stat")).unwrap_or_default();
        // The name before the state may contain anything.
        let behind = stat.iter().rposition(|&byte| byte == b')').map(|at| &stat[at..]);
        behind.is_none_or(|rest| matches!(rest.get(2), Some(b'Z' | b'X') | None))
    };
    // As long as its first thread lives, the others need no list.
    is_dead(&pid) && threads_of(pid).iter().all(is_dead)
}

impl Started {
    /// The threads of the sampled processes.
    pub fn threads(&self) -> Vec<u32> {
        self.pids.iter().flat_map(|&pid| threads_of(pid)).collect()
    }

    /// The sampled processes. None: all that the kernel tells of.
    pub fn processes(&self) -> &[u32] {
        &self.pids
    }

    /// Processes that ran before the recording.
    pub fn found(&self) -> &[u32] {
        &self.found
    }

    /// Whether the sampled program is a command that waits to be executed.
    pub fn waits(&self) -> bool {
        self.child.as_ref().is_some_and(|child| child.sampled)
    }

    /// The sampled processes among all.
    pub fn members(&self) -> Members {
        match &self.child {
            Some(Child { pid, sampled: true, .. }) => Members::command(*pid),
            _ => Members::running(&self.pids),
        }
    }

    /// Makes a command start.
    ///
    /// # Errors
    /// It cannot be executed.
    pub fn go(&mut self) -> Result<(), Refusal> {
        let Some(child) = &mut self.child else { return Ok(()) };
        if let Some(mut start) = child.start.take() {
            let _ = start.write_all(b"x");
        }
        let mut code = [0; 4];
        match child.failure.read_exact(&mut code) {
            // The child has reported the error and ended.
            Ok(()) => {
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes(code));
                child.collect(0);
                Err(Refusal::new(&error, format!("cannot execute the command: {error}")))
            }
            // Executing the program has closed the pipe.
            Err(_) => Ok(()),
        }
    }

    /// Whether the recording has nothing more to wait for.
    pub fn has_ended(&mut self) -> bool {
        if let Some(child) = &mut self.child {
            child.collect(libc::WNOHANG);
            return child.status.is_some() || child.asked.is_some_and(|asked| asked.elapsed() > GRACE);
        }
        !self.pids.is_empty() && self.pids.iter().all(|&pid| has_ended(pid))
    }

    /// Whether no command of this process runs.
    pub fn runs_nothing(&self) -> bool {
        self.child.as_ref().is_none_or(|child| child.status.is_some())
    }

    /// Asks the command to end, once.
    pub fn stop(&mut self) {
        if let Some(child) =
            self.child.as_mut().filter(|child| child.status.is_none() && child.asked.is_none())
        {
            // SAFETY: it is a child that was not waited for, so no other process has its number.
            unsafe { libc::kill(child.pid as i32, libc::SIGTERM) };
            child.asked = Some(Instant::now());
        }
    }

    /// The status of a command that has ended.
    pub fn status(&self) -> Option<i32> {
        self.child.as_ref()?.status
    }
}

impl Child {
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

impl Drop for Child {
    /// If a command has never been started, closing its pipe ends it.
    fn drop(&mut self) {
        if self.start.take().is_some() {
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
fn fork(words: &[OsString], sampled: bool) -> io::Result<Child> {
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
    Ok(Child { pid: pid as u32, sampled, start: Some(start), failure, status: None, asked: None })
}
