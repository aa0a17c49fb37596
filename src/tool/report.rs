//! Reports of subcommands: text or JSON on standard output, complaints on standard error, an exit status.

use super::open::Problem;
use serde::{Serialize, Serializer as _};
use std::io::{BufWriter, StdoutLock, Write};
use std::process::ExitCode;

/// How a subcommand ended, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// No findings.
    Fine,
    /// Findings were reported.
    Findings,
    /// An input could not be used.
    Unusable,
}

impl Outcome {
    /// The exit status of the process.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// Standard output, with room to write many small pieces.
pub fn output() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, std::io::stdout().lock())
}

/// Prints on standard output. A reader that has gone away is not worth a complaint.
pub fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize) {
    let mut output = output();
    if serde_json::to_writer_pretty(&mut output, value).is_ok() {
        let _ = output.write_all(b"\n");
    }
}

/// Prints values as an array of JSON, each before the next one is made.
pub fn print_json_array<V: Serialize>(values: impl Iterator<Item = V>) {
    let mut output = output();
    if serde_json::Serializer::pretty(&mut output).collect_seq(values).is_ok() {
        let _ = output.write_all(b"\n");
    }
}

/// Prints on standard error why an input could not be used.
pub fn complain(problem: &Problem) {
    eprintln!("sframe: {problem}");
}

/// An address or offset as JSON readers without 64-bit integers can take it: `0x401000`.
pub fn hexadecimal(value: u64) -> String {
    format!("{value:#x}")
}
