//! Links around which everything fails: system calls, disks, limits, and other programs that write to the inputs.
//!
//! Whatever happens, a link either makes the output that it would make anyway, or it says what is wrong, exits with
//! status 1, and the old output is still there.

use crate::support::work::{Outcome, linker};
use crate::support::{Work, tools};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;

/// Calls of which one fails, each with an error number that the system gives for it.
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
    ("rename", &[libc::EACCES]),
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

    /// Links, and lets the calls fail from `at` on: that one, and each `every`'th behind it.
    fn fault(&self, at: usize, every: usize, what: &str, calls: &str) -> Outcome {
        self.work.write("folder/out", "old");
        let (at, every) = (at.to_string(), every.to_string());
        let linker = linker().display().to_string();
        let mut words = vec!["calls", &at, &every, what, calls, &linker];
        words.extend(self.arguments.iter().map(String::as_str));
        self.work.command("./faults", &words)
    }

    /// The calls that a link makes, one a line, and how many of them the start of the process makes before the
    /// linker's own code runs: the dynamic loader's, and those of Rust's runtime.
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

    /// Demands the output that the link makes anyway, or the old one and a message.
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
    assert!(
        ["openat", "mmap", "fallocate", "pwrite64", "rename"].iter().all(|call| seen.contains(call)),
        "{seen:?}"
    );
}

/// Interruptions are no errors.
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
    let calls = "openat,write,pwrite64,fallocate,ftruncate,flock,rename,unlink,munmap,mmap,close";
    let Some((made, started)) = bench.calls(calls) else {
        tools::skip("faults::a_link_that_is_killed", "the system lets no process watch another's calls");
        return;
    };
    let mut left = 0;
    for (at, call) in made.iter().enumerate().skip(started) {
        let outcome = bench.fault(at, 0, "kill", calls);
        // How many calls the end makes is not always the same.
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

/// A link that waits, when it has mapped `big.o`, until a version script comes through a pipe.
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
            pipe.write_all(b"{ global: *; };").unwrap();
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
    outcome.fails().says(&["big.o was written to while it was linked"]);
    assert_eq!(work.read("folder/out"), b"old");
}

/// A compiler that replaces its output, as most do, harms no link.
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

/// Limits that shells set, closed descriptors, and an environment without anything.
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

/// An output for which there is no room in the address space, and one that no file can hold.
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

/// Threads that do not start are no error. Limits on processes do not bind root, so another user links.
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

/// Sixteen links at once, to one output and to one each.
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
