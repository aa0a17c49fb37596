//! A request for a recording.

use std::ffi::OsString;
use std::time::Duration;

/// The programs to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process with its threads, and the threads that these start from now on.
    Process(u32),
    /// A command with its arguments. It will be started.
    Command(Vec<OsString>),
}

/// A request for a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The programs.
    pub target: Target,
    /// Samples for each second of a processor's time.
    pub frequency: u64,
    /// Bytes of the stack to copy for each sample.
    pub stack_size: u32,
    /// When to stop, if the programs are still running.
    pub duration: Option<Duration>,
}
