//! `sframe-ld -run COMMAND`: runs a command so that every link of it goes to this linker, whatever name or
//! path a compiler starts.
//!
//! The command gets a library (`crates/sframe-run`) that stands in front of the functions that start
//! programs, by `LD_PRELOAD`, which all programs that it starts inherit. `SFRAME_LD_OPTIONS` chooses the mode
//! of all these links.

use super::programs;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const LIBRARY: &str = "libsframe_run.so";

/// The command of a command line, without the program's name, that begins with `-run`.
pub fn command(arguments: &[OsString]) -> Option<&[OsString]> {
    let (first, rest) = arguments.split_first()?;
    (first == "-run" || first == "--run").then_some(rest)
}

/// Runs the command. The exit status is its own.
pub fn run(command: &[OsString]) -> ExitCode {
    let fail = |message: String| {
        eprintln!("sframe-ld -run: {message}");
        ExitCode::FAILURE
    };
    if command.is_empty() {
        return fail("no command behind it".into());
    }
    let Some(own) = programs::own() else { return fail("cannot tell where sframe-ld is".into()) };
    let Some(library) = library(&own) else {
        return fail(format!(
            "{LIBRARY} is neither beside {} nor in ../lib/sframe-ld; SFRAME_RUN_LIBRARY names it",
            own.display()
        ));
    };
    let Ok(said) = tempfile::tempdir() else { return fail("cannot make a temporary folder".into()) };
    let preload = match std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        Some(others) => [library.as_os_str(), OsStr::new(":"), &others].into_iter().collect(),
        None => library.into_os_string(),
    };
    // The shell loads the library and executes the command, so that a command that is a linker is redirected, too.
    let status = Command::new("/bin/sh")
        .args(["-c", "exec \"$@\"", "sframe-ld"])
        .args(command)
        .env("LD_PRELOAD", preload)
        .env("SFRAME_RUN_LINKER", own)
        .env("SFRAME_RUN_SAID", said.path().join("said"))
        .status();
    match status {
        Ok(status) => {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            ExitCode::from(u8::try_from(code).unwrap_or(1))
        }
        Err(error) => fail(format!("cannot run /bin/sh: {error}")),
    }
}

/// The library, beside the linker or where an installation has it.
fn library(own: &Path) -> Option<PathBuf> {
    let named = std::env::var_os("SFRAME_RUN_LIBRARY").filter(|name| !name.is_empty()).map(PathBuf::from);
    let folder = own.parent()?;
    let places = [folder.join(LIBRARY), folder.join("../lib/sframe-ld").join(LIBRARY)];
    named.into_iter().chain(places).find(|path| path.is_file()).and_then(|path| path.canonicalize().ok())
}
