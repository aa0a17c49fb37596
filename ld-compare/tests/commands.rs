//! Tests every subcommand on a tiny case, with the system's assembler and linker.

use ld_compare::machine::Machine;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The machine, if this system has its assembler and linker.
fn machine() -> Option<Machine> {
    let found = ["as", "ld"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    if !found {
        eprintln!("skipped: no as or no ld here");
    }
    Machine::native().filter(|_| found)
}

fn ld_compare(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ld-compare"));
    command.current_dir(folder).env("SFRAME_PEERS", folder.join("no-peers")).env_remove("SFRAME_LD");
    command.args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Makes a linker that claims another name and version, and adds options of its own.
fn pretender(folder: &Path, name: &str, version: &str, options: &str) -> String {
    let path = folder.join(name);
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in --version) echo '{version}';; *) exec ld \"$@\" {options};; esac\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    format!("--linker={name}={}", path.display())
}

/// Assembles a source into an object.
fn assemble(source: &Path, object: &Path) {
    let status = Command::new("as").arg("-o").arg(object).arg(source).status();
    assert!(status.unwrap().success());
}

/// A case in a folder, built from assembly.
fn case(folder: &Path) -> PathBuf {
    let case = folder.join("case");
    std::fs::create_dir_all(&case).unwrap();
    std::fs::write(
        case.join("a.s"),
        "\t.globl _start\n_start:\t.long 1\n\t.data\n\t.globl other\nother:\t.long 2\n",
    )
    .unwrap();
    let file =
        r#"{"build": [["as", "-o", "a.o", "a.s"]], "steps": [{"arguments": ["a.o"], "output": "out"}]}"#;
    std::fs::write(case.join("case.json"), file).unwrap();
    case
}

#[test]
fn run_compares_and_holds_against_a_baseline() {
    if machine().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    case(folder);
    let linkers = [
        pretender(folder, "bfd", "GNU ld 1", ""),
        pretender(folder, "lld", "LLD 1", ""),
        pretender(folder, "mold", "mold 1", "--defsym=extra=5"),
    ];
    let linkers: Vec<&str> = linkers.iter().map(String::as_str).collect();
    let reports = ["--json=report.json", "--html=report.html"];
    let output = ld_compare(folder, &[&["run", "case"], &linkers[..], &reports].concat());
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("symbols: global absolute instead of absent (extra)"),
        "{}",
        text(&output)
    );
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("report.json")).unwrap()).unwrap();
    let results = report["cases"][0]["results"].as_array().unwrap();
    let counts: Vec<usize> = results.iter().map(|r| r["differences"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [0, 0, 1]);
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("<details>") && !page.contains("http"), "{page}");

    let with = |more: &[&str]| {
        ld_compare(folder, &[&["run", "case", "--baseline=b.json"], &linkers[..], more].concat())
    };
    assert!(with(&["--record-baseline"]).status.success());
    assert_eq!(with(&[]).status.code(), Some(0));
    pretender(folder, "mold", "mold 1", "--defsym=extra=5 --defsym=more=6");
    let worse = with(&[]);
    assert_eq!(worse.status.code(), Some(1), "{}", text(&worse));
    pretender(folder, "mold", "mold 2", "--defsym=extra=5 --defsym=more=6");
    let newer = with(&[]);
    assert!(
        newer.status.success() && text(&newer).contains("not in the baseline: mold 2"),
        "{}",
        text(&newer)
    );
}

#[test]
fn captured_links_run_again() {
    if machine().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = case(folder).join("a.s");
    let object = folder.join("a.o");
    assemble(&source, &object);
    let output = ld_compare(folder, &["capture", "--log=log", "--setup=bin"]);
    assert!(output.status.success(), "{}", text(&output));
    let linked =
        Command::new(folder.join("bin/ld")).current_dir(folder).args(["a.o", "-o", "program"]).output();
    let linked = linked.unwrap();
    assert!(linked.status.success() && folder.join("program").exists(), "{}", text(&linked));
    let version = Command::new(folder.join("bin/ld")).arg("--version").output().unwrap();
    assert!(text(&version).contains("GNU ld"));
    // A recorded link does not need the original files.
    std::fs::remove_file(object).unwrap();
    let again = ld_compare(folder, &["run", "log", "--linker=real=ld"]);
    assert!(again.status.success() && text(&again).contains("0001-program"), "{}", text(&again));
    assert_eq!(
        std::fs::read_dir(folder.join("log")).unwrap().flatten().filter(|e| e.path().is_dir()).count(),
        1
    );
}

/// A script in a sysroot names files below the sysroot. In a copy elsewhere, these names would mean the
/// machine's own files.
#[test]
fn links_with_a_sysroot_are_captured_with_it() {
    if machine().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = case(folder).join("a.s");
    let library = folder.join("root/lib");
    std::fs::create_dir_all(&library).unwrap();
    assemble(&source, &library.join("a.o"));
    std::fs::write(library.join("libscript.so"), "INPUT(/lib/a.o)\n").unwrap();
    std::fs::write(folder.join("empty.s"), "").unwrap();
    assemble(&folder.join("empty.s"), &folder.join("empty.o"));
    let output = ld_compare(folder, &["capture", "--log=log", "--setup=bin"]);
    assert!(output.status.success(), "{}", text(&output));
    let root = format!("--sysroot={}", folder.join("root").display());
    let words = ["empty.o", &root, "-Lroot/lib", "-lscript", "-o", "program"];
    let linked = Command::new(folder.join("bin/ld")).current_dir(folder).args(words).output().unwrap();
    assert!(linked.status.success(), "{}", text(&linked));
    std::fs::remove_file(folder.join("empty.o")).unwrap();
    let again = text(&ld_compare(folder, &["run", "log", "--linker=real=ld"]));
    let row = again.lines().find(|line| line.trim_start().starts_with("real"));
    assert!(row.is_some_and(|row| row.contains("ok")), "{again}");
}

#[test]
fn the_lab_lists_the_linkers_that_refuse() {
    let Some(machine) = machine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let machine = format!("--machine={}", machine.name());
    let words = ["lab", &machine, "--shape=data", "--shape=eh-frame", "--linker=real=ld", "--json=lab.json"];
    let output = ld_compare(folder.path(), &[&words[..], &["--html=lab.html"]].concat());
    assert!(output.status.success(), "{}", text(&output));
    // The command shows that it is at work, and says nothing about linkers, shapes or pages that took no
    // part.
    assert!(String::from_utf8_lossy(&output.stderr).contains("of 8 links"), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let page = std::fs::read_to_string(folder.path().join("lab.html")).unwrap();
    for report in [&said, &page] {
        assert!(report.contains("links that break the rule"), "{report}");
        for absent in ["mold", "sframe-ld", "sframe-group", "linker-semantics", "notes said"] {
            assert!(!report.contains(absent), "{absent}: {report}");
        }
    }
    let matrix: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("lab.json")).unwrap()).unwrap();
    let verdict = |shape: &str, mode: &str| {
        let rows = matrix["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["shape"] == shape && row["mode"] == mode).unwrap();
        (
            row["verdicts"][0]["said"].as_str().unwrap().to_owned(),
            row["verdicts"][0]["made"].as_str().unwrap().to_owned(),
        )
    };
    // The rules of GNU ld (the linker's `elf_action_discarded`).
    assert_eq!(verdict("data", "final").0, "error");
    assert_eq!(verdict("eh-frame", "final"), ("ok".into(), "4 of 4 functions".into()));
    assert_eq!(verdict("eh-frame", "gc"), ("ok".into(), "3 of 3 functions".into()));
}

/// If a result cannot be written, the command says so before the first link.
#[test]
fn reports_and_folders_are_checked_before_any_link() {
    if machine().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    case(folder);
    let marker = folder.join("linked");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in --version) echo 'GNU ld 1';; *) touch {};; esac\n",
        marker.display()
    );
    std::fs::write(folder.join("marking"), script).unwrap();
    std::fs::set_permissions(folder.join("marking"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    std::fs::write(folder.join("file"), "").unwrap();
    for words in [
        &["run", "case", "--json=none/x.json"][..],
        &["run", "case", "--html=none/x.html"],
        &["run", "case", "--html=x", "--json=x"],
        &["run", "case", "--baseline=none/b.json", "--record-baseline"],
        &["lab", "--html=none/x.html"],
        &["lab", "--cases=file/x"],
        &["random", "--json=none/x.json"],
        &["random", "--keep=file/x"],
        &["reduce", "case", "--output=file/x"],
        &["capture", "--log=file/x", "--setup=bin"],
    ] {
        let linker = format!("--linker=marking={}", folder.join("marking").display());
        let more: &[&str] = if words[0] == "capture" { &[] } else { &[&linker] };
        let output = ld_compare(folder, &[words, more].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
        assert!(!text(&output).contains("os error"), "{}", text(&output));
        assert!(!marker.exists(), "{words:?}");
    }
}

#[test]
fn reduce_finds_the_two_files() {
    let Some(machine) = machine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = format!("--machine={}", machine.name());
    let output = ld_compare(folder, &["lab", &name, "--shape=data", "--linker=real=ld", "--cases=cases"]);
    assert!(output.status.success(), "{}", text(&output));
    let case = format!("cases/{}-data-final", machine.name());
    let mut words =
        vec!["reduce".to_owned(), "--output=small".into(), "--linker=real=ld".into(), "--".into()];
    words.push(format!("{case}/a.o"));
    for number in 0..12 {
        let (source, object) = (folder.join("f.s"), format!("f{number}.o"));
        std::fs::write(&source, format!("\t.globl f{number}\nf{number}:\t.long {number}\n")).unwrap();
        let status = Command::new("as").current_dir(folder).args(["-o", &object, "f.s"]).status().unwrap();
        assert!(status.success());
        words.push(object);
    }
    words.extend([format!("{case}/b.o"), "--build-id".into()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = ld_compare(folder, &words);
    assert!(output.status.success(), "{}", text(&output));
    let small = folder.join("small");
    let objects: Vec<(String, u64)> = std::fs::read_dir(&small)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "o"))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap().len()))
        .collect();
    assert!(objects.len() == 2 && objects.iter().all(|(_, size)| *size < 1000), "{objects:?}");
    let repro = Command::new(small.join("repro.sh")).arg("ld").output().unwrap();
    assert!(text(&repro).contains("discarded section"), "{}", text(&repro));
    let readme = std::fs::read_to_string(small.join("README.md")).unwrap();
    assert!(readme.contains("assembled, they show it too"), "{readme}");
}
