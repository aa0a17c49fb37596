//! The command `sframe` if the system lets it down: no memory, no threads, inputs that become shorter, and a
//! signal in the middle of its work. It must say what is wrong and exit with status 2, as for an input that
//! it cannot use.

use crate::support::{Work, built, tools};
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

/// A library with many functions that `.eh_frame` describes.
fn library(work: &Work) {
    let functions: String = (0..30_000)
        .map(|n| format!(".cfi_startproc\nf{n}: push %rbx\n.cfi_def_cfa_offset 16\nret\n.cfi_endproc\n"))
        .collect();
    let object = work.s("many", &functions);
    work.ld(&["-shared", "--sframe-from-eh-frame=all", "-o", "many.so", &object]).quiet();
}

/// Starts the command, so that a test can disturb it while it runs.
fn start(work: &Work, words: &[&str]) -> Child {
    let mut command = Command::new(built::sframe());
    command.args(words).current_dir(work.path("")).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Wherever memory runs out, the command says so, and no signal ends it.
#[test]
fn a_command_that_runs_out_of_memory_says_so() {
    let work = Work::new();
    library(&work);
    for command in ["stat --derived", "verify", "dump --json", "table"] {
        let mut said = false;
        for step in 0..10 {
            let limit = 28_000 + step * 3_000;
            let sframe = built::sframe();
            let words = format!("ulimit -c 0; ulimit -v {limit}; exec {sframe} {command} many.so");
            let outcome = work.command("bash", &["-c", &words]);
            let refused = outcome.stderr.contains("the system has no more memory");
            assert!(!refused || outcome.code == Some(2), "{outcome}");
            // 127: the program could not even be loaded.
            assert!(matches!(outcome.code, Some(0 | 2 | 127)), "{outcome}");
            assert!(!outcome.stderr.contains("panicked"), "{outcome}");
            said |= refused;
        }
        assert!(said, "sframe {command} never ran out of memory");
    }
}

/// Several threads read files. If none can be started, the first one does all the work. Limits on processes
/// do not apply to root, so another user runs the command.
#[test]
fn a_command_without_threads_does_the_same() {
    let name = "sframe_faults::a_command_without_threads_does_the_same";
    let work = Work::new();
    library(&work);
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for copy in 0..9 {
        fs::copy(work.path("many.so"), folder.path().join(format!("many{copy}.so"))).unwrap();
    }
    fs::copy(built::sframe(), folder.path().join("sframe")).unwrap();
    for command in ["verify --verbose .", "stat .", "stat many0.so"] {
        let run = |limit: &str| {
            let script = format!("cd {} && {limit} exec ./sframe {command}", folder.path().display());
            let user = ["--reuid=54321", "--regid=54321", "--clear-groups", "bash", "-c", &script];
            work.command("setpriv", &user)
        };
        let alone = run("ulimit -u 1;");
        if alone.stderr.contains("setpriv:") {
            return tools::skip(name, "this user cannot become another");
        }
        assert_eq!(alone.quiet().stdout, run("").quiet().stdout);
    }
}

/// The end of the input goes away after the command has mapped it.
#[test]
fn an_input_that_becomes_shorter_is_an_error() {
    let work = Work::new();
    library(&work);
    let mut said = String::new();
    for _ in 0..50 {
        fs::copy(work.path("many.so"), work.path("short.so")).unwrap();
        let mut command = start(&work, &["verify", "short.so"]);
        let maps = format!("/proc/{}/maps", command.id());
        while command.try_wait().unwrap().is_none()
            && !fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("short.so"))
        {}
        OpenOptions::new().write(true).open(work.path("short.so")).unwrap().set_len(4096).unwrap();
        let status = command.wait().unwrap();
        said.clear();
        command.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        // It may have read all of the input before.
        assert!(matches!(status.code(), Some(0 | 2)), "{status} {said}");
        if status.code() == Some(2) && said.starts_with("sframe: error: ") {
            break;
        }
    }
    assert!(said.contains("short.so cannot be read: it became shorter"), "{said}");
}

/// If a signal asks the command to end while it writes a file, it leaves the old file and nothing else.
#[test]
fn a_signal_leaves_no_temporary_file() {
    let work = Work::new();
    library(&work);
    let folder = work.path("folder");
    fs::create_dir(&folder).unwrap();
    let old = work.read("many.so");
    let count = || fs::read_dir(&folder).unwrap().count();
    let mut interrupted = 0;
    for _ in 0..100 {
        fs::copy(work.path("many.so"), folder.join("many.so")).unwrap();
        let mut command = start(&work, &["attach", "folder/many.so"]);
        while count() < 2 && command.try_wait().unwrap().is_none() {}
        // SAFETY: this is a system call. Nobody has waited for the process, or it is gone and the call fails.
        unsafe { libc::kill(command.id().cast_signed(), libc::SIGTERM) };
        let status = command.wait().unwrap();
        assert_eq!(count(), 1, "a temporary file is left");
        assert!(status.success() || work.read("folder/many.so") == old, "{status}");
        interrupted += usize::from(status.signal() == Some(libc::SIGTERM));
        if interrupted == 3 {
            return;
        }
    }
    assert!(interrupted > 0, "no command was interrupted while it wrote");
}
