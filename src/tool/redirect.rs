//! `sframe-ld -run COMMAND`: runs a command so that every link of it goes to this linker, whatever name or
//! path a compiler starts.
//!
//! The command gets a library (`crates/sframe-run`) that stands in front of the functions that start
//! programs, by `LD_PRELOAD`, which all programs that it starts inherit. `SFRAME_LD_OPTIONS` chooses the mode
//! of all these links.
//!
//! The wrapper outlives the command, to remove the temporary folder and to end as the command did.

use super::programs;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

const LIBRARY: &str = "libsframe_run.so";

/// The process of the command while it exists, else 0.
static COMMAND: AtomicI32 = AtomicI32::new(0);
/// The last signal to hand on to the command; 0 if there was none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The command of a command line, without the program's name, that begins with `-run`.
pub fn command(arguments: &[OsString]) -> Option<&[OsString]> {
    let (first, rest) = arguments.split_first()?;
    (first == "-run" || first == "--run").then_some(rest)
}

/// Runs the command. The exit status, or the signal that ends this process, is its own.
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
    catch_signals();
    let Ok(said) = tempfile::tempdir() else { return fail("cannot make a temporary folder".into()) };
    let preload = match std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        Some(others) => [library.as_os_str(), OsStr::new(":"), &others].into_iter().collect(),
        None => library.into_os_string(),
    };
    // The shell loads the library and executes the command, so that a command that is a linker is redirected, too.
    let child = Command::new("/bin/sh")
        .args(["-c", "exec \"$@\"", "sframe-ld"])
        .args(command)
        .env("LD_PRELOAD", preload)
        .env("SFRAME_RUN_LINKER", own)
        .env("SFRAME_RUN_SAID", said.path().join("said"))
        .spawn();
    match child.and_then(wait) {
        Ok(status) => {
            drop(said);
            end_like(status)
        }
        Err(error) => fail(format!("cannot run /bin/sh: {error}")),
    }
}

/// Lets the command decide what a signal ends. A terminal sends Ctrl-C to the command as well; what asks this process
/// alone to end is handed on. The command does not inherit handlers, and signals that are ignored (`nohup`) stay so.
fn catch_signals() {
    extern "C" fn pass(_: libc::c_int) {}
    extern "C" fn hand_on(signal: libc::c_int) {
        SIGNAL.store(signal, Ordering::SeqCst);
        send(signal);
    }
    let (pass, hand_on) = (pass as extern "C" fn(libc::c_int), hand_on as extern "C" fn(libc::c_int));
    let signals =
        [(libc::SIGINT, pass), (libc::SIGQUIT, pass), (libc::SIGTERM, hand_on), (libc::SIGHUP, hand_on)];
    for (signal, handler) in signals {
        // SAFETY: the handlers only use atomic variables and a system call that handlers may make.
        unsafe {
            if libc::signal(signal, handler as libc::sighandler_t) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

/// Sends a signal to the command, if it exists.
fn send(signal: i32) {
    let command = COMMAND.load(Ordering::SeqCst);
    if command > 0 {
        // SAFETY: a system call; the command was not waited for yet, so the number is still its own.
        unsafe { libc::kill(command, signal) };
    }
}

/// Waits for the end of the command.
fn wait(mut command: Child) -> std::io::Result<ExitStatus> {
    COMMAND.store(command.id().cast_signed(), Ordering::SeqCst);
    // One that came before the command existed.
    let signal = SIGNAL.load(Ordering::SeqCst);
    if signal != 0 {
        send(signal);
    }
    let mut ended = std::mem::MaybeUninit::<libc::siginfo_t>::uninit();
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: the call writes to a structure of its type, which nothing reads.
    while unsafe { libc::waitid(libc::P_PID, command.id(), ended.as_mut_ptr(), options) } != 0
        && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
    {}
    // The number may soon be another process's.
    COMMAND.store(0, Ordering::SeqCst);
    command.wait()
}

/// Ends by the signal that ended the command, so that the caller sees why, or gives its exit status.
fn end_like(status: ExitStatus) -> ExitCode {
    let signal = status.signal().unwrap_or(0);
    if signal != 0 {
        // SAFETY: system calls without a handler. The first prevents a core file in the place of the command's.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    let code = status.code().unwrap_or(128 + signal);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// The library, beside the linker or where an installation has it.
fn library(own: &Path) -> Option<PathBuf> {
    let named = std::env::var_os("SFRAME_RUN_LIBRARY").filter(|name| !name.is_empty()).map(PathBuf::from);
    let folder = own.parent()?;
    let places = [folder.join(LIBRARY), folder.join("../lib/sframe-ld").join(LIBRARY)];
    named.into_iter().chain(places).find(|path| path.is_file()).and_then(|path| path.canonicalize().ok())
}
