//! Runs the conformance suite: this project's linker and reader keep every rule, and a tool that breaks one
//! is found.

use ld_compare::conformance::record::Record;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program of the workspace, beside the one under test. A test that lacks it is skipped, and counted.
fn program(name: &str, test: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_ld-compare")).with_file_name(name);
    if !path.is_file() {
        let reason = format!("{name} is not built");
        peers::tree::skip(Path::new(env!("CARGO_TARGET_TMPDIR")), test, &reason);
        return None;
    }
    Some(path)
}

fn conformance(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ld-compare"));
    command.arg("conformance").args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Links every case for a machine by this project's linker.
fn our_linker_keeps_every_rule(machine: &str) {
    let Some(linker) = program("sframe-ld", &format!("our linker for {machine}")) else { return };
    let cases = format!("linker/*/{machine}");
    let output = conformance(&["--linker", &format!("ours={}", linker.display()), "--case", &cases]);
    assert!(output.status.success(), "{}", text(&output));
    // It has all options, so every case is for it.
    assert!(text(&output).contains(" 0 are not for it"), "{}", text(&output));
}

#[test]
fn our_linker_keeps_every_rule_for_x86_64() {
    our_linker_keeps_every_rule("x86_64");
}

#[test]
fn our_linker_keeps_every_rule_for_aarch64() {
    our_linker_keeps_every_rule("aarch64");
}

#[test]
fn our_linker_keeps_every_rule_for_s390x() {
    our_linker_keeps_every_rule("s390x");
}

#[test]
fn our_reader_shows_every_row() {
    let Some(reader) = program("sframe", "our_reader_shows_every_row") else { return };
    // A relative path: cases run in other folders.
    let mut command = Command::new(env!("CARGO_BIN_EXE_ld-compare"));
    command.current_dir(reader.parent().unwrap()).args(["conformance", "--reader", "./sframe dump --json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("reader sframe: "), "{}", text(&output));
}

/// A linker that marks every blob as sorted, whatever is in it.
fn boastful(folder: &Path, linker: &Path) -> PathBuf {
    let path = folder.join("boastful-ld");
    let script = format!(
        "#!/bin/sh\n'{}' \"$@\" || exit\nfor word; do\n  [ \"$last\" = -o ] && LC_ALL=C sed -i \
         's/\\xe2\\xde\\x03\\x04/\\xe2\\xde\\x03\\x05/g' \"$word\"\n  last=$word\ndone\nexit 0\n",
        linker.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_linker_that_breaks_a_rule_is_found() {
    let Some(linker) = program("sframe-ld", "a_linker_that_breaks_a_rule_is_found") else { return };
    let folder = tempfile::tempdir().unwrap();
    let bad = format!("bad={}", boastful(folder.path(), &linker).display());
    let cases = ["one-blob-or-unsorted", "type"].map(|name| format!("linker/container/{name}/x86_64"));
    let cases = ["--case", &cases[0], "--case", &cases[1]];
    let output = conformance(&[&["--linker", &bad, "--format", "json"], &cases[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["tools"][0]["hold"], 1);
    let verdicts: Vec<_> =
        report["cases"].as_array().unwrap().iter().map(|case| &case["results"][0]["verdict"]).collect();
    assert!(verdicts.iter().any(|verdict| **verdict == "holds"), "{report}");
    let failing = verdicts.iter().find_map(|verdict| verdict["fails"].get(0)).unwrap();
    assert_eq!(
        (&failing["fact"], &failing["source"]["standard"]),
        (&"one-blob-or-unsorted".into(), &"proposal".into())
    );

    // Against a baseline of the sound linker, the loss is a change for the worse.
    let baseline = folder.path().join("known.json").display().to_string();
    let good = format!("bad={}", linker.display());
    let blessed =
        conformance(&[&["--linker", &good, "--baseline", &baseline, "--bless"], &cases[..]].concat());
    assert!(blessed.status.success(), "{}", text(&blessed));
    let output = conformance(&[&["--linker", &bad, "--baseline", &baseline], &cases[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("does not hold any more: linker/container/one-blob-or-unsorted"),
        "{}",
        text(&output)
    );
}

#[test]
fn results_have_several_forms() {
    let Some(reader) = program("sframe", "results_have_several_forms") else { return };
    let reader = format!("ours={} dump --json", reader.display());
    let of = |format: &str| {
        let output = conformance(&["--reader", &reader, "--case", "reader/flags/*", "--format", format]);
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let junit = of("junit");
    assert!(
        junit.contains("<testsuite name=\"reader ours\"") && junit.ends_with("</testsuites>\n"),
        "{junit}"
    );
    assert!(of("html").contains("<table>"));
    let markdown = of("markdown");
    assert!(markdown.contains("| flags/sorted-v3 | ✓ |"), "{markdown}");
}

#[test]
fn cases_are_listed_and_written() {
    let list = text(&conformance(&["--list"]));
    let count: usize = list.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(count >= 250, "{count} cases");
    assert!(
        list.contains("[gABI,") && list.contains("[SFrame specification,") && list.contains("[proposal,")
    );
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("case").display().to_string();
    let output = conformance(&["--reproduce", "linker/objects/one-v3/s390x", "--into", &into]);
    assert!(output.status.success(), "{}", text(&output));
    let script = std::fs::read_to_string(Path::new(&into).join("repro.sh")).unwrap();
    assert!(script.contains("$LD -m elf64_s390 -o out a.o"), "{script}");
    assert!(Path::new(&into).join("a.o").is_file() && Path::new(&into).join("README.md").is_file());
    let output = conformance(&["--case", "no/such/*"]);
    assert!(text(&output).contains("no case is named no/such/*"), "{}", text(&output));
}

/// The record in the tree: whatever does not hold has a reason, and every reason's page is there.
#[test]
fn everything_that_does_not_hold_has_a_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let record = Record::load(&folder.join("conformance.json"), false).unwrap();
    assert_eq!(record.loose_ends(), Vec::<String>::new());
    for page in record.reasons.iter().filter_map(|reason| reason.page.as_deref()) {
        assert!(folder.join("../docs/defects").join(page).is_file(), "docs/defects/{page} is missing");
    }
    let ours: Vec<_> = record.tools.iter().filter(|tool| tool.name.starts_with("sframe")).collect();
    assert!(ours.len() >= 2 && ours.iter().all(|tool| tool.fails.is_empty()), "{ours:?}");
}
