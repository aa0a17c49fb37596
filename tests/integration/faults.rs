//! Links while everything around them fails: system calls, disks, limits, and other programs that write to
//! the inputs.
//!
//! In each case, the link must make its usual output. Otherwise it must say what is wrong, exit with status
//! 1, and leave the old output as it is.

use crate::support::work::{Outcome, linker};
use crate::support::{Work, tools};
use sframe_ld::Memory;
use sframe_ld::cli::{self, Environment, Invocation};
use sframe_ld::diag::Sink;
use sframe_ld::input::{FileBytes, InputSource};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// System calls that fail, one at a time, each with the error numbers that the system can give for it.
const CALLS: &[(&str, &[i32])] = &[
    ("openat", &[libc::EMFILE, libc::EIO]),
    ("read", &[libc::EIO, libc::EINTR]),
    ("statx", &[libc::EIO]),
    ("mmap", &[libc::ENOMEM]),
    ("madvise", &[libc::EINVAL]),
    ("clone3", &[libc::EAGAIN]),
    ("fstatfs", &[libc::ENOSYS]),
    ("flock", &[libc::ENOLCK]),
    ("fallocate", &[libc::ENOSPC, libc::EOPNOTSUPP, libc::EINTR]),
    ("ftruncate", &[libc::ENOSPC]),
    ("pwrite64", &[libc::ENOSPC, libc::EIO, libc::EINTR]),
    ("renameat", &[libc::EACCES]),
];

/// A link of an object, an archive and a library, with an output of some pages.
struct Bench {
    work: Work,
    arguments: Vec<String>,
    expected: Vec<u8>,
}

impl Bench {
    fn new() -> Bench {
        let work = Work::new();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/support/faults.c");
        work.command("gcc", &["-O1", "-o", "faults", source]).ok();
        let main = work.s(
            "main",
            ".globl _start\n_start: call f\ncall g@PLT\n.data\n.rept 9000\n.quad 0x0123456789abcdef\n.endr\n",
        );
        let f =
            work.s("f", ".globl f\nf: ret\n.section .rodata.str1.1,\"aMS\",@progbits,1\n.string \"words\"\n");
        let archive = work.ar("libf.a", "", &[&f]);
        let g = work.s("g", ".globl g\ng: ret\n");
        work.ld(&["-shared", "-o", "libg.so", &g]).quiet();
        work.write("keep", "{ f; };");
        let arguments =
            ["--threads=1", "-o", "folder/out", &main, &archive, "-L.", "-lg", "--dynamic-list=keep"];
        let arguments: Vec<String> = arguments.map(str::to_owned).into();
        work.write("folder/out", "old");
        let mut bench = Bench { work, arguments, expected: Vec::new() };
        bench.link().quiet();
        bench.expected = bench.work.read("folder/out");
        bench
    }

    fn link(&self) -> Outcome {
        self.work.ld(&self.arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Links, and makes these calls fail: the call `at`, and every `every`-th one after it.
    fn fault(&self, at: usize, every: usize, what: &str, calls: &str) -> Outcome {
        self.work.write("folder/out", "old");
        let (at, every) = (at.to_string(), every.to_string());
        let linker = linker().display().to_string();
        let mut words = vec!["calls", &at, &every, what, calls, &linker];
        words.extend(self.arguments.iter().map(String::as_str));
        self.work.command("./faults", &words)
    }

    /// The calls of a link, one per line. Also returns how many of them come before the linker's own code
    /// runs: those of the dynamic loader and of Rust's runtime.
    fn calls(&self, calls: &str) -> Option<(Vec<String>, usize)> {
        let linker = linker().display().to_string();
        if self.work.command("./faults", &["calls", "99999", "0", "0", calls, &linker, "--version"]).code
            != Some(0)
        {
            return None;
        }
        let started = String::from_utf8(self.work.read("calls")).unwrap().lines().count();
        self.fault(99_999, 0, "0", calls).quiet();
        let text = String::from_utf8(self.work.read("calls")).unwrap();
        Some((text.lines().map(str::to_owned).collect(), started))
    }

    /// Checks that the link made its usual output, or left the old one and printed a message.
    #[track_caller]
    fn judge(&self, outcome: Outcome, what: &str) {
        let output = self.work.read("folder/out");
        if outcome.code == Some(0) {
            assert!(output == self.expected, "{what}: another output: {outcome}");
        } else {
            let outcome = outcome.fails();
            assert!(output == b"old", "{what}: the old output is gone: {outcome}");
        }
        assert_eq!(names(&self.work), ["out"], "{what}");
    }
}

fn names(work: &Work) -> Vec<String> {
    let entries = fs::read_dir(work.path("folder")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn any_system_call_may_fail() {
    let bench = Bench::new();
    let mut seen = BTreeSet::new();
    for (call, errors) in CALLS {
        let Some((made, started)) = bench.calls(call) else {
            tools::skip(
                "faults::any_system_call_may_fail",
                "the system lets no process watch another's calls",
            );
            return;
        };
        for at in started..made.len() {
            let error = errors[at % errors.len()];
            bench.judge(bench.fault(at, 0, &error.to_string(), call), &format!("{call} {at}, error {error}"));
            seen.insert(*call);
        }
    }
    assert!(["openat", "mmap", "pwrite64", "renameat"].iter().all(|call| seen.contains(call)), "{seen:?}");
    // The file gets its room by one or the other.
    assert!(seen.contains("fallocate") || seen.contains("ftruncate"), "{seen:?}");
}

/// An interruption is no error.
#[test]
fn interrupted_calls_are_made_again() {
    let bench = Bench::new();
    for call in ["openat", "read", "pwrite64", "fallocate", "flock", "futex"] {
        let Some((_, started)) = bench.calls(call) else {
            tools::skip("faults::interrupted_calls_are_made_again", "no process may watch another's calls");
            return;
        };
        bench.fault(started, 2, &libc::EINTR.to_string(), call).ok();
        assert!(bench.work.read("folder/out") == bench.expected, "{call}");
    }
}

#[test]
fn a_link_that_is_killed_before_any_call_leaves_the_old_output_or_the_new_one() {
    let bench = Bench::new();
    let calls = "openat,write,pwrite64,fallocate,ftruncate,flock,renameat,unlinkat,unlink,munmap,mmap,close";
    let Some((made, started)) = bench.calls(calls) else {
        tools::skip("faults::a_link_that_is_killed", "the system lets no process watch another's calls");
        return;
    };
    let mut left = 0;
    for (at, call) in made.iter().enumerate().skip(started) {
        let outcome = bench.fault(at, 0, "kill", calls);
        // The number of calls at the end of a link varies.
        assert!(matches!(outcome.code, Some(0 | 137)), "call {at}: {outcome}");
        let output = bench.work.read("folder/out");
        assert!(output == b"old" || output == bench.expected, "killed at call {at}, {call}");
        left += usize::from(names(&bench.work).len() > 1);
        if names(&bench.work).len() > 1 {
            bench.link().quiet();
            assert_eq!(names(&bench.work), ["out"], "after a link that was killed at call {at}, {call}");
        }
    }
    assert!(left > 0, "no link was killed while it wrote");
}

/// A disk in memory that others fill up while the link runs: the first look at its room, which fails here,
/// says nothing then. Pages are made through the mapping (a large section) and by system calls.
#[test]
fn a_disk_in_memory_that_fills_up_is_an_error() {
    let bench = Bench::new();
    let work = &bench.work;
    let data = ".globl _start\n_start: ret\n.data\n.fill SIZE, 8, 0x0123456789abcdef\n";
    std::fs::create_dir(work.path("disk")).unwrap();
    for (name, words) in [("large", 1_200_000), ("small", 400_000)] {
        let object = work.s(name, &data.replace("SIZE", &words.to_string()));
        for at in 0..4 {
            let script = format!(
                "mount -t tmpfs -o size=2m none disk && echo old > disk/out && \
                 ./faults calls {at} 0 {} fstatfs {} -o disk/out {object}; echo status $?; cat disk/out; ls -A disk",
                libc::ENOSYS,
                linker().display()
            );
            let outcome = work.command("unshare", &["-m", "sh", "-c", &script]);
            if outcome.stdout.is_empty() || outcome.stdout.contains("status 120") {
                tools::skip(
                    "faults::a_disk_in_memory_that_fills_up_is_an_error",
                    "nothing can be mounted or watched",
                );
                return;
            }
            assert_eq!(outcome.stdout, "status 1\nold\nout\n", "{name}, {at}: {outcome}");
            outcome.says(&["cannot write disk/out: No space left on device"]);
        }
    }
}

/// A link that maps `big.o`, then waits until a version script comes through a pipe.
fn while_mapped(change: impl FnOnce(PathBuf) + Send) -> (Work, Outcome) {
    let work = Work::new();
    let small = work.s("small", ".globl _start\n_start: ret\n");
    let big = work.s("big", ".globl f\nf: ret\n.data\n.rept 90000\n.quad 0x0123456789abcdef\n.endr\n");
    work.command("mkfifo", &["versions"]).ok();
    work.write("folder/out", "old");
    let path = work.path("big.o");
    let outcome = std::thread::scope(|scope| {
        let pipe = work.path("versions");
        scope.spawn(move || {
            // This waits for the linker.
            let mut pipe = OpenOptions::new().write(true).open(pipe).unwrap();
            change(path);
            // The linker may have seen the change and ended by now; then nobody reads the script.
            if let Err(error) = pipe.write_all(b"{ global: *; };") {
                assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            }
        });
        work.ld(&["-shared", "-o", "folder/out", &small, &big, "--version-script=versions"])
    });
    assert_eq!(names(&work), ["out"]);
    (work, outcome)
}

#[test]
fn an_input_that_becomes_shorter_while_it_is_linked_is_an_error() {
    for length in [0, 4096, 100_000] {
        let (work, outcome) =
            while_mapped(|path| OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap());
        outcome.fails().says(&["big.o", "shorter"]);
        assert_eq!(work.read("folder/out"), b"old");
    }
}

#[test]
fn an_input_that_is_written_to_while_it_is_linked_is_an_error() {
    let (work, outcome) = while_mapped(|path| {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(b"changed!", 20_000).unwrap();
    });
    outcome.fails().says(&["big.o was written to while it was linked", "let that finish, then link again"]);
    assert_eq!(work.read("folder/out"), b"old");
}

/// Most compilers replace their output when they write it, which must not harm a link.
#[test]
fn an_input_that_is_replaced_while_it_is_linked_is_linked_as_it_was() {
    let (work, outcome) = while_mapped(|path| {
        fs::write(path.with_extension("new"), "no object").unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    });
    outcome.quiet();
    assert!(work.read("folder/out").windows(8).any(|bytes| bytes == 0x0123_4567_89ab_cdef_u64.to_le_bytes()));
    let (_, outcome) = while_mapped(|path| fs::remove_file(path).unwrap());
    outcome.quiet();
}

/// Limits that shells set, closed descriptors, and an empty environment.
#[test]
fn poor_surroundings_change_nothing_or_are_told() {
    let bench = Bench::new();
    let link = format!("{} {}", linker().display(), bench.arguments.join(" "));
    for (surroundings, same) in [
        ("ulimit -n 8; exec LINK", true),
        ("ulimit -n 4; exec LINK", false),
        ("ulimit -v 150000; exec LINK", false),
        ("ulimit -v 400000; exec LINK", false),
        ("exec LINK >&-", true),
        ("exec LINK 2>&-", true),
        ("exec LINK <&- >&- 2>&-", true),
        ("exec env -i LINK", true),
        ("exec env -u HOME -u PATH -u TMPDIR LC_ALL=C LINK", true),
        ("exec env LC_ALL=no_SUCH.locale LINK", true),
        ("trap '' PIPE HUP INT; exec LINK", true),
        ("exec LINK --print-map >/dev/full", true),
    ] {
        bench.work.write("folder/out", "old");
        let outcome = bench.work.command("sh", &["-c", &surroundings.replace("LINK", &link)]);
        if same {
            let outcome = outcome.ok();
            assert!(bench.work.read("folder/out") == bench.expected, "{surroundings}: {outcome}");
        } else {
            bench.judge(outcome, surroundings);
        }
    }
}

/// An output that does not fit the address space, and one that is too large for any file.
#[test]
fn an_output_without_memory_is_an_error() {
    let bench = Bench::new();
    for size in ["0x30000000", "0x4000000000000000"] {
        bench
            .work
            .write("large.ld", format!("SECTIONS {{ .data : {{ *(.data) FILL(0x90) . += {size}; }} }}"));
        bench.work.write("folder/out", "old");
        let script = format!(
            "ulimit -v 400000; exec {} -o folder/out -T large.ld main.o libf.a libg.so",
            linker().display()
        );
        let outcome = bench.work.command("sh", &["-c", &script]).fails();
        bench.judge(outcome, size);
    }
}

/// Wherever memory runs out inside the linker, the result is an error like any other.
#[test]
fn a_link_that_runs_out_of_memory_says_so() {
    let work = Work::new();
    let symbols: String = (0..150_000).map(|n| format!(".globl s{n}\ns{n}:\n")).collect();
    let object = work.s("many", &symbols);
    fs::create_dir(work.path("folder")).unwrap();
    let mut said = false;
    for step in 0..16 {
        work.write("folder/out", "old");
        let script = format!(
            "ulimit -c 0; ulimit -v {}; exec {} --threads=2 -shared -o folder/out {object}",
            100_000 + step * 15_000,
            linker().display()
        );
        let outcome = work.command("sh", &["-c", &script]).no_crash();
        said |= outcome.stderr.contains("the system has no more memory");
        assert!(outcome.code == Some(0) || work.read("folder/out") == b"old", "{outcome}");
        assert_eq!(names(&work), ["out"], "{outcome}");
    }
    assert!(said, "no link ran out of memory");
}

/// What is left when a command starts may be too little for its stack.
#[test]
fn a_command_that_starts_with_hardly_any_memory_says_so() {
    let work = Work::new();
    for limit in (100_000..200_000).step_by(1_000) {
        let script = format!("ulimit -c 0; ulimit -v {limit}; exec {} --version", linker().display());
        work.command("sh", &["-c", &script]).no_crash();
    }
}

/// If threads do not start, that is no error. Limits on processes do not apply to root, so another user
/// links.
#[test]
fn a_link_without_threads_is_the_same_link() {
    let bench = Bench::new();
    let name = "faults::a_link_without_threads_is_the_same_link";
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for file in ["main.o", "libf.a", "libg.so", "keep"] {
        fs::copy(bench.work.path(file), folder.path().join(file)).unwrap();
    }
    fs::copy(linker(), folder.path().join("linker")).unwrap();
    let arguments = bench.arguments[1..].join(" ").replace("folder/out", "out");
    let script = format!(
        "cd {} && ulimit -u 1 && exec ./linker --threads=8 --build-id=md5 --compress-debug-sections=zstd {arguments}",
        folder.path().display()
    );
    let user = ["--reuid=54321", "--regid=54321", "--clear-groups", "bash", "-c"];
    let outcome = bench.work.command("setpriv", &[&user[..], &[&script]].concat());
    if outcome.stderr.contains("setpriv:") {
        return tools::skip(name, "this user cannot become another");
    }
    outcome.quiet();
    bench
        .work
        .ld(&[
            &["--build-id=md5", "--compress-debug-sections=zstd"][..],
            &bench.arguments.iter().map(String::as_str).collect::<Vec<_>>(),
        ]
        .concat())
        .quiet();
    assert!(fs::read(folder.path().join("out")).unwrap() == bench.work.read("folder/out"));
}

/// Sixteen links at the same time, to the same output and to different ones.
#[test]
fn links_at_the_same_time_do_not_disturb_each_other() {
    let bench = Bench::new();
    let rest = &bench.arguments[3..];
    std::thread::scope(|scope| {
        for number in 0..16 {
            let bench = &bench;
            scope.spawn(move || {
                let output =
                    if number % 2 == 0 { "folder/out".to_owned() } else { format!("folder/out-{number}") };
                let mut arguments = vec!["-o", output.as_str()];
                arguments.extend(rest.iter().map(String::as_str));
                for _ in 0..3 {
                    bench.work.ld(&arguments).quiet();
                    assert!(bench.work.read(&output) == bench.expected);
                }
            });
        }
    });
    assert_eq!(names(&bench.work).len(), 9);
}

/// A source of files in which one read fails, or returns only the start of the file.
struct Faulty {
    reads: AtomicUsize,
    fails: usize,
    fault: Fault,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Error(io::ErrorKind),
    /// This many hundredths of the file are read.
    Short(usize),
}

impl InputSource for Faulty {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let mut bytes = fs::read(path)?;
        if self.reads.fetch_add(1, Ordering::Relaxed) == self.fails {
            match self.fault {
                Fault::Error(kind) => return Err(kind.into()),
                Fault::Short(parts) => bytes.truncate(bytes.len() * parts / 100),
            }
        }
        Ok(FileBytes::Owned(bytes))
    }

    fn exists(&self, path: &Path) -> bool {
        path.is_file()
    }
}

/// Each read of a link fails in turn, or returns too little. The linker must say so, or make the same output
/// if it only probed that file.
#[test]
fn any_read_may_fail_or_be_short() {
    let bench = Bench::new();
    let place = |word: &String| {
        let path = bench.work.path(word);
        if path.exists() { path.into_os_string() } else { word.into() }
    };
    let mut arguments: Vec<OsString> = bench.arguments.iter().map(place).collect();
    arguments.extend([
        OsString::from("-L"),
        bench.work.path(".").into(),
        "-T".into(),
        bench.work.path("script.ld").into(),
    ]);
    arguments.push(format!("--dynamic-list={}", bench.work.path("keep").display()).into());
    arguments.retain(|word| word != "--dynamic-list=keep" && word != "-L.");
    bench.work.write("script.ld", "SECTIONS { INCLUDE included.ld .data : { *(.data) } }");
    bench.work.write("included.ld", ".text : { *(.text) }");
    arguments.extend(["-L".into(), bench.work.path(".").into()]);
    let sink = Sink::default();
    let environment =
        Environment { program: "ld", options: None, identity: None, run_path: None, enter: None };
    let invocation = cli::parse(&arguments, &environment, &|path: &Path| fs::read(path), &sink);
    let Ok(Invocation::Link(config, inputs)) = invocation else { panic!("{:?}", sink.into_sorted()) };
    let link = |fails, fault| {
        bench.work.write("folder/out", "old");
        let source = Faulty { reads: AtomicUsize::new(0), fails, fault };
        let outcome = sframe_ld::link(&config, &inputs, &source, Vec::new(), Memory::Freed);
        (outcome, source.reads.into_inner())
    };
    let (outcome, reads) = link(usize::MAX, Fault::Short(0));
    assert!(outcome.succeeded, "{:?}", outcome.diagnostics);
    let expected = bench.work.read("folder/out");
    assert!(reads >= 5, "{reads} reads");
    let kinds = [io::ErrorKind::Other, io::ErrorKind::PermissionDenied, io::ErrorKind::OutOfMemory];
    let faults = kinds.map(Fault::Error).into_iter().chain([1, 10, 50, 90, 99].map(Fault::Short));
    for fault in faults {
        for fails in 0..reads {
            let (outcome, _) = link(fails, fault);
            let output = bench.work.read("folder/out");
            if !outcome.succeeded {
                assert!(!outcome.diagnostics.is_empty() && output == b"old", "read {fails}, {fault:?}");
            } else if let Fault::Error(kind) = fault {
                // As in GNU ld, a search skips files that may not be read.
                let skipped = kind == io::ErrorKind::PermissionDenied;
                assert!(output == expected || skipped, "read {fails}, {fault:?}");
            }
        }
    }
}
