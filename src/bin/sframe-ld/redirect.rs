//! `sframe-ld -run COMMAND`: runs a command so that every link of it goes to this linker, whatever name or
//! path a compiler starts.
//!
//! The command gets a library (`crates/sframe-run`) that stands in front of the functions that start
//! programs, by `LD_PRELOAD`, which all programs that it starts inherit. `SFRAME_LD_OPTIONS` chooses the mode
//! of all these links.
//!
//! The wrapper outlives the command, to remove the temporary folder and to end as the command did.

use commands::programs;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

const LIBRARY: &str = "libsframe_run.so";
/// The environment variable that names the library.
const NAMED_LIBRARY: &str = "SFRAME_RUN_LIBRARY";

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
    let library = match library(&own) {
        Ok(library) => library,
        Err(message) => return fail(message),
    };
    catch_signals();
    let said = match TemporaryFolder::below(&std::env::temp_dir()) {
        Ok(said) => said,
        Err(error) => return fail(format!("cannot make a temporary folder: {error}")),
    };
    let name = Preloadable::new(library, &said.0);
    let library = match &name {
        Ok(name) => name.path(),
        Err(message) => return fail(message.clone()),
    };
    let preload: OsString = match std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        Some(others) => [library.as_os_str(), OsStr::new(":"), &others].into_iter().collect(),
        None => library.into(),
    };
    // The shell loads the library and executes the command, so that a command that is a linker is redirected,
    // too.
    let child = Command::new("/bin/sh")
        .args(["-c", "exec \"$@\"", "sframe-ld"])
        .args(command)
        .env("LD_PRELOAD", preload)
        .env("SFRAME_RUN_LINKER", own)
        .env("SFRAME_RUN_SAID", said.0.join("said"))
        .spawn();
    match child.and_then(wait) {
        Ok(status) => {
            drop((said, name));
            end_like(status)
        }
        Err(error) => fail(format!("cannot run /bin/sh: {error}")),
    }
}

/// Lets the command decide what a signal ends. A terminal sends Ctrl-C to the command as well; what asks this
/// process alone to end is handed on. The command does not inherit handlers, and signals that are ignored
/// (`nohup`) stay so.
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
fn wait(mut command: Child) -> io::Result<ExitStatus> {
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
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    // The number may soon be another process's.
    COMMAND.store(0, Ordering::SeqCst);
    command.wait()
}

/// Ends by the signal that ended the command, so that the caller sees why, or gives its exit status.
fn end_like(status: ExitStatus) -> ExitCode {
    let signal = status.signal().unwrap_or(0);
    if signal != 0 {
        // SAFETY: system calls without a handler. The first prevents a core file in the place of the
        // command's.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    let code = status.code().unwrap_or(128 + signal);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// The library that the variable names, else the one beside the linker or where an installation has it.
fn library(own: &Path) -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(NAMED_LIBRARY).filter(|name| !name.is_empty()) {
        let path = Path::new(&named).canonicalize().ok().filter(|path| path.is_file());
        return path.ok_or_else(|| format!("{NAMED_LIBRARY} names {}, which is no file", named.display()));
    }
    let places = [LIBRARY, "../lib/sframe-ld/libsframe_run.so"].map(|name| own.with_file_name(name));
    let found = places.iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok());
    let missing = || {
        let own = own.display();
        format!("{LIBRARY} is neither beside {own} nor in ../lib/sframe-ld; {NAMED_LIBRARY} names it")
    };
    found.ok_or_else(missing)
}

/// A folder that only this user may use, and that is removed when this is dropped.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes one with a name that no other has. The system refuses a name that is there, also as a link.
    fn below(folder: &Path) -> io::Result<Self> {
        for number in 0..1000 {
            let path = folder.join(format!("sframe-ld-run-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A path of the library as `LD_PRELOAD` can hold it: its own, or that of a link to it.
enum Preloadable {
    Itself(PathBuf),
    /// In a folder that is removed at the end.
    Link {
        path: PathBuf,
        _folder: Option<TemporaryFolder>,
    },
}

impl Preloadable {
    /// `folder` is one for temporary files.
    ///
    /// # Errors
    /// There is no folder for a link whose path `LD_PRELOAD` can hold.
    fn new(library: PathBuf, folder: &Path) -> Result<Self, String> {
        if is_preloadable(&library) {
            return Ok(Self::Itself(library));
        }
        let other =
            if is_preloadable(folder) { None } else { TemporaryFolder::below(Path::new("/tmp")).ok() };
        let link = other.as_ref().map_or(folder, |other| &other.0).join(LIBRARY);
        if !is_preloadable(&link) || symlink(&library, &link).is_err() {
            return Err(format!(
                "LD_PRELOAD cannot hold the path {}, because of a space, a colon or a dollar sign in it; \
                 TMPDIR names a folder for a link to it",
                library.display()
            ));
        }
        Ok(Self::Link { path: link, _folder: other })
    }

    fn path(&self) -> &Path {
        let (Self::Itself(path) | Self::Link { path, .. }) = self;
        path
    }
}

/// Whether the dynamic linker takes a path in `LD_PRELOAD` as it is: white space and colons separate paths,
/// and a dollar sign begins a name that it replaces (ld.so(8)).
fn is_preloadable(path: &Path) -> bool {
    let separates = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0x0b | b':' | b'$');
    path.is_absolute() && !path.as_os_str().as_encoded_bytes().iter().any(separates)
}

#[cfg(test)]
mod tests {
    use super::{LIBRARY, Preloadable};
    use std::path::PathBuf;

    #[test]
    fn a_link_stands_for_a_path_that_cannot_be_preloaded() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a b", "a:b", "a$LIB", "a\tb", "a\nb"] {
            let own = folder.path().join(name);
            std::fs::create_dir(&own).unwrap();
            let library = own.join(LIBRARY);
            std::fs::write(&library, "").unwrap();
            let link = Preloadable::new(library.clone(), folder.path()).unwrap();
            assert_eq!(link.path(), folder.path().join(LIBRARY));
            assert_eq!(link.path().canonicalize().unwrap(), library);
            std::fs::remove_file(link.path()).unwrap();
            // The folder for temporary files may have such a name, too.
            let link = Preloadable::new(library.clone(), &own).unwrap();
            let path = link.path().to_owned();
            assert!(path.starts_with("/tmp") && !path.starts_with(&own), "{}", path.display());
            drop(link);
            assert!(!path.exists());
        }
        let plain = PathBuf::from("/plain/ä/libsframe_run.so");
        assert_eq!(Preloadable::new(plain.clone(), folder.path()).unwrap().path(), plain);
    }
}
