//! Reports of `sframe` to a standard output that does not accept them.

use crate::support::{Work, built};
use std::fs::File;
use std::process::{Command, Output, Stdio};

/// Every subcommand that prints, in each of its output forms.
const COMMANDS: [&[&str]; 12] = [
    &["--version"],
    &["dump", "--help"],
    &["dump", "program"],
    &["dump", "--json", "program"],
    &["dump", "--readelf", "program"],
    &["verify", "program"],
    &["verify", "--json", "program"],
    &["stat", "program"],
    &["lookup", "program", "_start"],
    &["unwind", "--registers", "registers", "program"],
    &["unwind", "--format", "json", "--registers", "registers", "program"],
    &["split", "--verbose", "-o", "split.o", "object.o"],
];

/// A program, an object, and registers of the program.
fn work() -> Work {
    let work = Work::new();
    let copy = |fixture: &str, name: &str| work.write(name, work.read(&work.fixture(fixture)));
    copy("linked/prog.x86_64.ld2.47", "program");
    copy("v3-gas2.47/demo_function_sections.x86_64.o", "object.o");
    work.write("registers", "rip 0x401080\nrsp 0x7ffe00001000\nrbp 5\n");
    work
}

fn printed_on(work: &Work, stdout: impl Into<Stdio>, words: &[&str]) -> Output {
    let mut command = Command::new(built::sframe());
    command.args(words).current_dir(work.path("")).stdin(Stdio::null()).stdout(stdout);
    command.output().unwrap()
}

#[test]
fn lost_output_is_an_error() {
    let work = work();
    for words in COMMANDS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = printed_on(&work, full, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(
            said.contains("sframe: error: standard output: cannot write: No space left"),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn a_reader_that_has_gone_away_is_no_error() {
    let work = work();
    for words in COMMANDS {
        let read = printed_on(&work, Stdio::piped(), words);
        assert!(!read.stdout.is_empty(), "{words:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unread = printed_on(&work, writer, words);
        assert_eq!((unread.status, unread.stderr), (read.status, read.stderr), "{words:?}");
    }
}
