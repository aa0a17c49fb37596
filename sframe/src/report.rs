//! Reports of subcommands: text or JSON on standard output, complaints on standard error, an exit status.

use super::open::Problem;
use diagnostics::Severity;
use serde::Serialize;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

/// The name in messages.
const PROGRAM: &str = "sframe";

/// How a subcommand ended, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// There are no findings.
    Fine,
    /// There are findings.
    Findings,
    /// An input could not be used, or an output could not be written.
    Unusable,
}

impl Outcome {
    /// `Fine`, or `Unusable` with a complaint.
    pub fn of(result: Result<(), Problem>) -> Self {
        match result {
            Ok(()) => Self::Fine,
            Err(problem) => {
                complain(&problem);
                Self::Unusable
            }
        }
    }

    /// The exit status of the process.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// Writes on standard output, through a buffer for many small pieces. If the reader has gone away, that is no
/// error.
///
/// # Errors
/// A part of the output could not be written.
pub fn write(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Problem> {
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match write(&mut output).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Problem::new("standard output", format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints on standard output.
///
/// # Errors
/// As [`write()`].
pub fn print(text: &str) -> Result<(), Problem> {
    write(|output| output.write_all(text.as_bytes()))
}

/// Prints a value as JSON.
///
/// # Errors
/// As [`write()`].
pub fn print_json(value: &impl Serialize) -> Result<(), Problem> {
    write(|output| {
        serde_json::to_writer_pretty(&mut *output, value)?;
        output.write_all(b"\n")
    })
}

/// Prints on standard error why an input could not be used, or an output could not be written.
pub fn complain(problem: &Problem) {
    commands::tell(PROGRAM, Severity::Error, &problem.to_string());
}

/// Prints a warning on standard error.
pub fn warn(text: &str) {
    commands::tell(PROGRAM, Severity::Warning, text);
}

/// Prints on standard error what was done.
pub fn tell(text: &str) {
    commands::tell(PROGRAM, Severity::Note, text);
}

/// Writes an address or offset in a form that JSON readers without 64-bit integers can take: `0x401000`.
pub fn hexadecimal(value: u64) -> String {
    format!("{value:#x}")
}
