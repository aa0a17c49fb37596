//! A request for a recording.

use super::choice::Choice;
use sframe_format::Abi;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The architecture of this machine, if it has SFrame.
pub const NATIVE: Option<Abi> = if cfg!(target_arch = "x86_64") {
    Some(Abi::Amd64)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(Abi::AArch64Little)
} else if cfg!(target_arch = "s390x") {
    Some(Abi::S390x)
} else {
    None
};

/// The programs to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Processes with their threads, and the threads and processes that these start from now on.
    Processes(Vec<u32>),
    /// A command with its arguments. It will be started.
    Command(Vec<OsString>),
    /// Everything that runs on this machine.
    Machine,
    /// The processes of a control group and of the groups inside it. The path is that of its folder.
    Group(PathBuf),
}

/// Whose clock asks for samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// That of each processor for commands, if the kernel allows it; otherwise that of each thread.
    #[default]
    Auto,
    /// Each thread has a clock that runs while the thread does. Threads that end before it has gone round
    /// once have no samples.
    Thread,
    /// Each processor has a clock, whatever runs there. Samples of other programs are dropped.
    Processor,
}

/// A request for a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The programs.
    pub target: Target,
    /// A command to start that is not sampled by itself. The recording ends with it. Empty: none.
    pub meanwhile: Vec<OsString>,
    /// What to sample. Empty: processor time.
    pub events: Vec<Choice>,
    /// Samples for each second of a processor's time.
    pub frequency: u64,
    /// Bytes of the stack to copy for each sample. `None`: 32 KiB, or less where rings are small.
    pub stack_size: Option<u32>,
    /// When to stop, if the programs are still running.
    pub duration: Option<Duration>,
    /// Whose clock asks for samples.
    pub clock: Clock,
    /// Whether threads that wait are sampled, too: where, and how long.
    pub off_cpu: bool,
}

impl Request {
    /// A request with the usual settings.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            meanwhile: Vec::new(),
            events: Vec::new(),
            frequency: 997,
            stack_size: None,
            duration: None,
            clock: Clock::Auto,
            off_cpu: false,
        }
    }
}
