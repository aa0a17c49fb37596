//! Tests of the page with a flame graph, in an interpreter of JavaScript and in a browser.

mod common;

use common::unwound::{Unwound, fixture, unwind};
use common::{Writer, words};
use sframe_format::Abi;
use stacks::files::{Files, Options};
use stacks::kernel::Kernel;
use stacks::process::Place;
use stacks::profile::Profile;
use stacks::session::{Frame, Settings, Stack};
use stacks::statistics::{End, Statistics};
use stacks::write::{Format, Kept, write, write_difference};
use std::path::Path;
use tempfile::NamedTempFile;

const STACK: u64 = 0x7ffe_0000_1000;

/// Samples of a program with these instructions, called from `_start`, above which the stack is cut off.
fn samples(name: &str, instructions: &[u64]) -> Unwound {
    let mut writer = Writer::default();
    writer.comm(7, name, true, 1);
    let program = fixture("../../tests/fixtures/sframe/linked/prog.x86_64.ld2.47");
    writer.mmap(7, (0x40_1000, 0x1000, 0x1000), &program, 2);
    for (time, instruction) in (10..).zip(instructions) {
        writer.sample(7, time, [STACK, 5, *instruction], &[], &words(&[0x40_1049, 0, 0x1234]));
    }
    Unwound::of(&writer)
}

fn saved(page: &[u8]) -> NamedTempFile {
    let file = tempfile::Builder::new().suffix(".html").tempfile().unwrap();
    std::fs::write(file.path(), page).unwrap();
    file
}

fn page() -> NamedTempFile {
    saved(&samples("prog", &[0x40_1080, 0x40_1100]).written(Format::Html))
}

#[test]
fn the_page_draws_finds_and_zooms() {
    let interpreter = peers::tree::folder().join("quickjs/qjs");
    if !interpreter.is_file() {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        return peers::tree::skip(scratch, "the_page_draws_finds_and_zooms", "no qjs (cargo xtask peers)");
    }
    let page = page();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page.js");
    let mut command = std::process::Command::new(interpreter);
    let output = command.arg("--std").arg(script).arg(page.path()).arg("^LEAF$").output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("drawn: all prog [stack cut off]") && lines[0].contains("_start"), "{text}");
    assert_eq!(lines[1], "2 samples, 0.00 % from the root on");
    assert_eq!(
        lines[2..],
        [
            "a bad pattern: told",
            "found: 50.00 %",
            "keys zoom to [stack cut off]",
            "the mouse zooms to prog",
            "then all",
            "inverted: all leaf _start",
            "4 functions"
        ]
    );
}

/// What a reader sees who does the same with keys and mouse in Chromium. `None`: there is none. It is too
/// large to fetch for every test, so `cargo xtask prove stacks` gives its path in `SFRAME_BROWSER`, and that
/// of the Node.js that drives it in `SFRAME_NODE`.
fn seen_in_chromium(page: &NamedTempFile) -> Option<Vec<String>> {
    let [Some(browser), Some(node)] = ["SFRAME_BROWSER", "SFRAME_NODE"].map(std::env::var_os) else {
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser.js");
    let mut command = std::process::Command::new(node);
    let output = command.arg(script).arg(browser).arg(page.path()).arg("^LEAF$").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[test]
fn the_page_finds_and_zooms_in_chromium() {
    let Some(seen) = seen_in_chromium(&page()) else { return };
    let expected = [
        "2 samples, 0.00 % from the root on",
        "a bad pattern: told",
        "found: 50.00 %",
        "keys zoom to [stack cut off]",
        "the mouse zooms to prog",
        "then all",
        "inverted, bigframe has no search",
        "4 functions, those with the most first",
        "a process: 2 samples",
        "a range: 1 sample",
        "by its address: 1 sample",
    ];
    assert_eq!(seen, expected);
}

/// The thread has another name in the second profile.
#[test]
fn the_page_compares_in_chromium() {
    let before = samples("prog", &[0x40_1080, 0x40_1100]);
    let after = samples("prog.new", &[0x40_1080, 0x40_1080, 0x40_1100, 0x40_1080]);
    let mut page = Vec::new();
    before.with_names(|before| after.with_names(|after| write_difference(before, after, &mut page))).unwrap();
    let Some(seen) = seen_in_chromium(&saved(&page)) else { return };
    let expected = [
        "a <test>: 2 samples; a <test>: 4 samples",
        "a bad pattern: told",
        "found: 75.00 %",
        "keys zoom to [stack cut off]",
        "the mouse zooms to prog.new",
        "then all",
        "inverted, leaf has no search",
        "4 functions, those with the most first",
        "a process: a <test>: 2 samples; a <test>: 4 samples",
        "a range: a <test>: 1 sample; a <test>: 2 samples",
        "by its address: a <test>: 1 sample; a <test>: 2 samples",
    ];
    assert_eq!(seen, expected);
}

/// Time that was not sampled is no stack that is cut off, and no sample.
#[test]
fn time_that_was_not_sampled_stands_below_its_thread() {
    let frames = [Frame { address: 0, place: Place::NotSampled, returns: false, source: None }];
    let (name, time) = (b"prog".as_slice(), Some(5));
    let stack = Stack {
        pid: 7,
        tid: 7,
        process: name,
        thread: name,
        event: 0,
        cpu: None,
        time,
        period: 1_000_000,
        frames: &frames,
        end: End::NotSampled,
        in_kernel: false,
    };
    let mut profile = Profile::new(false);
    profile.add(&stack);
    let files = Files::new(Abi::Amd64, Options::default());
    let kept = Kept::new(profile, (&files, &Kernel::default()), &Statistics::default(), false, "a test");
    let written = |format| {
        let mut bytes = Vec::new();
        write(format, kept.named(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(written(Format::Folded), "prog;[not sampled] 1\n");
    let page = written(Format::Html);
    assert!(page.contains("[not sampled]") && !page.contains("\"[stack cut off]\""), "{page}");
    assert!(page.contains("\"samples\":[0]"), "{page}");
    let read: serde_json::Value = serde_json::from_str(&written(Format::Json)).unwrap();
    assert_eq!(read[0]["stopped"], "time that was not sampled");
    assert_eq!(read[0]["frames"][0]["function"], "[not sampled]");
    // A file for perf tells it, too.
    let mut recording = Vec::new();
    write(Format::PerfData, kept.named(), &mut recording).unwrap();
    let unwound = unwind(recording, Settings::default());
    let [row] = unwound.profile.rows[..] else { panic!("{:?}", unwound.profile.rows) };
    assert_eq!((row.end, row.period, row.time), (End::NotSampled, 1_000_000, Some(5)));
    assert_eq!((unwound.statistics.samples, unwound.statistics.coverage.unsampled), (0, 1_000_000));
    assert_eq!(unwound.written(Format::Folded), b"prog;[not sampled] 1\n");
}
