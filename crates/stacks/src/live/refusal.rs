//! Why a recording cannot begin.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a recording cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A sentence, with what helps.
    pub message: String,
    /// The system's number of the error, as in `errno`.
    pub code: i32,
}

impl Refusal {
    pub(crate) fn new(error: &io::Error, message: String) -> Self {
        Self { message, code: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// The reason is not the system's.
    pub(crate) fn other(code: i32, message: impl Into<String>) -> Self {
        Self { message: message.into(), code }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Refusal {}
