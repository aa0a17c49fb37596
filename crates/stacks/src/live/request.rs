//! The request for a recording.

use std::ffi::OsString;
use std::time::Duration;

/// The programs to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process, its threads, and those that they start from now on.
    Process(u32),
    /// A command and its arguments; it is started.
    Command(Vec<OsString>),
}

/// A request for a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The programs.
    pub target: Target,
    /// Samples for each second of a processor's time.
    pub frequency: u64,
    /// Bytes of the stack that are copied for each sample.
    pub stack_size: u32,
    /// The time after which to stop, if the programs still run.
    pub duration: Option<Duration>,
}
