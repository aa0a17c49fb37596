//! Reports of a link: map, cross references, reasons for extraction, dependencies.

use crate::need;
use crate::support::{Work, tools};

const START: &str = ".globl _start\n_start: call f\n ret\n";

/// `main.o` needs `f` from an archive, which needs `g` from another member.
fn with_archive(work: &Work) -> (String, String) {
    let main = work.s("main", START);
    let f = work.s("f", ".globl f\nf: call g\n ret\n");
    let g = work.s("g", ".globl g\ng: ret\n.section .unused,\"ax\"\n ret\n");
    let spare = work.s("spare", ".globl spare\nspare: ret\n");
    (main, work.ar("libf.a", "", &[&spare, &f, &g]))
}

const WRITTEN: [&str; 7] = [
    "-Map=",
    "--dependency-file=",
    "--reproduce=",
    "--time-trace=",
    "--why-extract=",
    "--print-symbol-order=",
    "--explain-discarded=",
];

/// make takes a new output for a finished target, even if its rule failed.
#[test]
fn a_report_that_cannot_be_written_leaves_the_old_output() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    std::fs::create_dir(work.path("folder.map")).unwrap();
    std::fs::create_dir_all(work.path("folder/out.map")).unwrap();
    for option in WRITTEN {
        // The last place can be opened but not written, if there is anything to write.
        let mut places = vec!["missing/file", if option == "-Map=" { "folder" } else { "folder.map" }];
        places.extend(
            (!["--print-symbol-order=", "--explain-discarded="].contains(&option)).then_some("/dev/full"),
        );
        for place in places {
            work.write("out", "old");
            let report = format!("{option}{place}");
            let outcome = work.ld(&["-o", "out", &start, &report]).fails();
            outcome.says(&["cannot write the", place]);
            assert_eq!(work.read("out"), b"old", "{report}");
        }
    }
    work.ld(&["-o", "out", &start, "-Map=map", "--time-trace=trace", "--dependency-file=d"]).quiet();
    assert!(["map", "trace", "d"].iter().all(|name| !work.read(name).is_empty()));
}

/// Reports are opened first. If the link fails before it writes them, it leaves nothing behind.
#[test]
fn a_link_that_fails_leaves_old_reports_and_no_new_ones() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: call gone\n");
    for option in WRITTEN.iter().filter(|option| !["--reproduce=", "--time-trace="].contains(option)) {
        work.write("old", "old report");
        for name in ["old", "new"] {
            work.ld(&["-o", "out", &start, "missing.o", &format!("{option}{name}")]).fails();
        }
        assert_eq!(work.read("old"), b"old report", "{option}");
        assert!(!work.exists("new"), "{option}");
    }
}

#[test]
fn extraction_has_reasons() {
    let work = Work::new();
    let (main, archive) = with_archive(&work);
    work.ld(&["-o", "program", &main, &archive, "-u", "spare", "--why-extract=why.txt"]).quiet();
    let text = String::from_utf8(work.read("why.txt")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows[0], ["reference", "extracted", "symbol"]);
    let row = |symbol: &str| rows.iter().find(|row| row[2] == symbol).unwrap();
    assert!(row("f")[0].ends_with("main.o") && row("f")[1].ends_with("libf.a(f.o)"), "{text}");
    assert!(row("g")[0].ends_with("libf.a(f.o)") && row("g")[1].ends_with("libf.a(g.o)"), "{text}");
    assert_eq!(row("spare")[0], "<internal>");
    let library = work.shared("needy", "int spare(void); int needy(void) { return spare(); }", &[]);
    work.ld(&["-o", "program", &main, &library, &archive, "--why-extract=why.txt"]).quiet();
    let text = String::from_utf8(work.read("why.txt")).unwrap();
    assert!(text.contains("libneedy.so\tlibf.a(spare.o)\tspare\n"), "{text}");
}

#[test]
fn the_map_tells_members_discarded_sections_and_commands() {
    let work = Work::new();
    let (main, archive) = with_archive(&work);
    let options = ["-o", "program", &main, &archive, "--gc-sections", "-Map=out.map"];
    work.ld(&options).quiet();
    let text = String::from_utf8(work.read("out.map")).unwrap();
    let position = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in\n{text}"));
    let order = [
        "Archive member included to satisfy reference by file (symbol)",
        "libf.a(f.o)",
        "Discarded input sections",
        " .unused",
        "Memory Configuration",
        "*default*",
        "Linker script and memory map",
        "LOAD ",
        "\n.text ",
        " *(.text ",
        "OUTPUT(program elf64-x86-64)",
    ];
    let places: Vec<usize> = order.iter().map(|part| position(part)).collect();
    assert!(places.is_sorted(), "{places:?}\n{text}");
    let address = work.elf("program").symbol("g").value;
    assert!(text.contains(&format!("{address:#018x}                g\n")), "{text}");
    work.ld(&[&options[..], &["--no-print-map-discarded"]].concat()).quiet();
    assert!(!String::from_utf8(work.read("out.map")).unwrap().contains("Discarded input sections"));
}

#[test]
fn cross_references_name_the_definition_first() {
    let work = Work::new();
    let (main, archive) = with_archive(&work);
    let printed = work.ld(&["-o", "program", &main, &archive, "--cref"]).ok().stdout;
    let table = printed.split("Cross Reference Table").nth(1).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    let row = lines.iter().position(|line| line.starts_with("f ")).unwrap();
    assert!(lines[row].ends_with("libf.a(f.o)"), "{table}");
    assert!(lines[row + 1].starts_with(' ') && lines[row + 1].ends_with("main.o"), "{table}");
}

#[test]
fn dependencies_are_a_rule_for_make() {
    let work = Work::new();
    let (main, archive) = with_archive(&work);
    let script = work.write("v.map", "{ global: f; local: *; };");
    let version = format!("--version-script={script}");
    work.ld(&["-shared", "-o", "out.so", &main, &archive, &version, "--dependency-file=out.d"]).quiet();
    let text = String::from_utf8(work.read("out.d")).unwrap();
    assert!(text.starts_with("out.so: \\\n  "), "{text}");
    for file in [&main, &archive, &script] {
        assert!(text.contains(&format!("\n{file}:\n")), "{file} has no rule of its own:\n{text}");
    }
}

#[test]
fn messages_are_coloured_on_a_terminal_unless_the_user_objects() {
    use std::io::Read;
    use std::os::fd::FromRawFd;
    let work = Work::new();
    let shown = |variables: &[(&str, &str)], options: &[&str]| {
        let (mut terminal, mut program) = (0, 0);
        use std::ptr::{null, null_mut};
        // SAFETY: both numbers are written, and the other arguments may be null.
        assert_eq!(unsafe { libc::openpty(&mut terminal, &mut program, null_mut(), null(), null()) }, 0);
        // SAFETY: both were opened a moment ago and belong to nobody else.
        let (mut terminal, program) =
            unsafe { (std::fs::File::from_raw_fd(terminal), std::fs::File::from_raw_fd(program)) };
        let mut command = std::process::Command::new(crate::support::work::linker());
        command.args(["-o", "out", "missing.o"]).args(options).current_dir(work.path("."));
        command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied()).stderr(program);
        command.status().unwrap();
        drop(command);
        let mut text = Vec::new();
        // Reading ends with an error when nobody has the other end open.
        let _ = terminal.read_to_end(&mut text);
        assert!(String::from_utf8_lossy(&text).contains("missing.o"), "{text:?}");
        text.contains(&0x1b)
    };
    assert!(shown(&[], &[]));
    assert!(shown(&[("NO_COLOR", "")], &[]), "an empty value is none");
    assert!(!shown(&[("NO_COLOR", "1")], &[]));
    assert!(!shown(&[("TERM", "dumb")], &[]));
    assert!(shown(&[("NO_COLOR", "1")], &["--color-diagnostics=always"]), "an option is stronger");
}

#[test]
fn a_time_trace_holds_the_passes_and_what_threads_ran() {
    need!(tools::own_linker());
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: ret\n");
    let events = |file: &str| {
        let text = std::fs::read_to_string(work.path(file)).unwrap();
        let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(trace["beginningOfTime"].as_u64().unwrap() > 0);
        trace["traceEvents"].as_array().unwrap().clone()
    };
    work.ld(&["--time-trace=trace.json", "--time-trace-granularity=0", "-o", "p", &a]).quiet();
    let all = events("trace.json");
    let passes: Vec<_> = all.iter().filter(|event| event["ph"] == "X" && event["tid"] == 0).collect();
    for name in ["link", "open inputs", "lay out", "write output"] {
        assert!(passes.iter().any(|event| event["name"] == name), "{name}: {passes:?}");
    }
    assert!(passes.iter().all(|event| event["dur"].is_u64() && event["ts"].is_u64()));
    assert!(all.iter().any(|event| event["ph"] == "X" && event["tid"] != 0), "no thread ran");
    work.ld(&["--time-trace", "--time-trace-granularity=100000000", "-o", "p", &a]).quiet();
    let long: Vec<_> = events("p.time-trace").into_iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(long.len(), 1, "only the whole link is shown: {long:?}");
    work.ld(&["--time-trace=no/such/folder", "-o", "q", &a]).fails().says(&["no/such/folder"]);
}

/// Names of files and symbols come from other people. No name may end a line of a report, or reach a terminal
/// as a command.
#[test]
fn control_characters_in_names_are_shown_escaped() {
    let work = Work::new();
    let main = work.s("main", START);
    let name = "b\n\x1b[31mSECTIONS.o";
    let f = work.s("f", ".globl f\nf: ret\n.section .unused,\"ax\"\n ret\n");
    work.write(name, work.read(&f));
    let path = work.path(name).display().to_string();
    let reports = [
        "-Map=out.map",
        "--cref",
        "--trace",
        "-yf",
        "--gc-sections",
        "--print-gc-sections",
        "--why-live=f",
        "--verbose",
        "--dependency-file=out.d",
    ];
    let outcome = work.ld(&[&["-o", "program", &main, &path][..], &reports].concat()).ok();
    let map = String::from_utf8(work.read("out.map")).unwrap();
    for text in [&map, &outcome.stdout, &outcome.stderr] {
        assert!(!text.contains('\x1b'), "{text}");
        assert!(text.lines().all(|line| !line.contains("[31mSECTIONS") || line.contains("b\\n\\x1b[31m")));
    }
    assert!(map.contains("b\\n\\x1b[31mSECTIONS.o"), "{map}");
    // make reads the file name with everything but its newline.
    let rule = String::from_utf8(work.read("out.d")).unwrap();
    assert!(rule.contains("b\\n\x1b[31mSECTIONS.o:\n"), "{rule}");
    let outcome = work.ld(&["-o", "program", &main, "/none/\x1b[2J\nld: all is well.o"]).fails();
    assert!(!outcome.stderr.contains('\x1b') && !outcome.stderr.contains("\nld: "), "{outcome}");
    assert!(!outcome.stderr.contains("os error"), "{outcome}");
}

/// Each step of the path to the last one looks for the function that encloses a reference.
#[test]
fn functions_that_keep_each_other_in_a_row() {
    let work = Work::new();
    let last = 60_000;
    let function = |n: usize| format!(".section .text.f{n},\"ax\"\nf{n}: jmp f{}\n.size f{n}, .-f{n}", n + 1);
    let text = crate::proportion::lines(last, function);
    let object = work.s(
        "row",
        &format!(".globl _start\n_start: jmp f0\n{text}.section .text.f{last},\"ax\"\nf{last}: ret\n"),
    );
    let why = format!("--why-live=f{last}");
    let said = crate::proportion::within(&work, &["--gc-sections", &why, &object]).ok().stdout;
    assert!(
        said.starts_with("live symbol: ") && said.contains("(f30000)"),
        "{}",
        &said[..200.min(said.len())]
    );
    assert!(said.trim_end().ends_with("(entry point)"), "{}", &said[said.len().saturating_sub(200)..]);
}
