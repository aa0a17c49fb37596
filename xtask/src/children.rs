//! Waits for a child process and says what it cost.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Waits until a child has ended. The usage is that of the child and of the descendants that it waited for.
pub fn wait(child: Child) -> (ExitStatus, libc::rusage) {
    // SAFETY: the child is this process's own, and nobody else waits for it. `rusage` is plain data that may
    // be all zeros, and both pointers outlive the call.
    unsafe {
        let (mut status, mut usage) = (0, std::mem::zeroed::<libc::rusage>());
        while libc::wait4(child.id() as i32, &mut status, 0, &mut usage) < 0 {}
        (ExitStatus::from_raw(status), usage)
    }
}

/// The processor time of all children that have ended and of the descendants that they waited for.
pub fn processor_time_so_far() -> Duration {
    // SAFETY: `rusage` is plain data that may be all zeros, and the call fills it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    processor_time(&usage)
}

/// The processor time that the program used, and the system on its behalf.
pub fn processor_time(usage: &libc::rusage) -> Duration {
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Runs a command to its end, but no longer than `limit`: then it is killed, and the status says so.
///
/// # Errors
/// It cannot be started or waited for.
pub fn output_within(command: &mut Command, limit: Duration) -> std::io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn()?;
    let process = child.id() as libc::pid_t;
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(sender.send(child.wait_with_output())));
        match ended.recv_timeout(limit) {
            Ok(output) => output,
            Err(_) => {
                // SAFETY: no pointers are involved. The child has not been waited for, so the number is still
                // its own. If it ends at this very moment, the signal is lost, which does no harm.
                unsafe { libc::kill(process, libc::SIGKILL) };
                ended.recv().map_err(std::io::Error::other)?
            }
        }
    })
}
