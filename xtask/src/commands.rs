//! Runs the commands that chores need, and reads what they print.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// It cannot be started, or it fails; the error contains its messages.
pub fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("{program} failed with {}:\n{out}{err}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command and returns the first line of its standard output.
///
/// # Errors
/// Those of [`output`].
pub fn first_line(command: &mut Command) -> Result<String> {
    Ok(output(command)?.lines().next().unwrap_or("").to_owned())
}

/// The first line that a program prints for `--version`.
///
/// # Errors
/// Those of [`output`].
pub fn version(program: impl AsRef<std::ffi::OsStr>) -> Result<String> {
    first_line(Command::new(program).arg("--version"))
}
