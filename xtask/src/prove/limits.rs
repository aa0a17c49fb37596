//! Runs a program under limits, and says how it ended.

use crate::children;
use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// What a program may use.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Seconds of processor time.
    pub processor: u64,
    /// Seconds of wall time.
    pub clock: u32,
    /// Bytes of address space.
    pub address_space: u64,
    /// Bytes of each file that it writes.
    pub file: u64,
}

/// How a program ended.
pub struct Ended {
    pub status: ExitStatus,
    /// The start of what it wrote on standard error.
    pub said: String,
    /// Peak memory in KiB.
    pub memory: i64,
}

impl Ended {
    /// The signal that ended it, or the one that a script around it reports.
    pub fn signal(&self) -> Option<i32> {
        let reported =
            self.status.code().map(|code| code - 128).filter(|signal| (1..=libc::SIGSYS).contains(signal));
        self.status.signal().or(reported)
    }
}

/// How many bytes of its messages are kept.
const SAID: usize = 1 << 16;

/// Runs a command to its end. Its messages go to `log`.
pub fn run(command: &mut Command, limits: Limits, log: &Path) -> Result<Ended> {
    let said = File::create(log)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    // SAFETY: between fork and exec, only system calls are made.
    unsafe {
        command.pre_exec(move || {
            for (what, soft, hard) in [
                (libc::RLIMIT_CPU, limits.processor, limits.processor + 1),
                (libc::RLIMIT_AS, limits.address_space, limits.address_space),
                (libc::RLIMIT_FSIZE, limits.file, limits.file),
                (libc::RLIMIT_CORE, 0, 0),
            ] {
                libc::setrlimit(what, &libc::rlimit { rlim_cur: soft, rlim_max: hard });
            }
            // The alarm survives the start of the program.
            libc::alarm(limits.clock);
            Ok(())
        });
    }
    let (status, usage) = children::wait(command.spawn().context("cannot start")?);
    let mut said = std::fs::read(log)?;
    said.truncate(SAID);
    Ok(Ended { status, said: String::from_utf8_lossy(&said).into_owned(), memory: usage.ru_maxrss })
}
