//! Tests of `sframe record`. Where the kernel does not allow to take samples, they see that it says so.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What a recording has left: its exit status, its samples, its statistics, and what it said.
struct Recorded {
    status: Option<i32>,
    samples: Vec<Value>,
    statistics: Value,
    said: String,
}

/// Records, with the output `stacks.json` in an empty folder. `None`: the kernel does not allow it.
fn record(words: &[&str]) -> Option<Recorded> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stacks.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sframe"));
    command.args(["record", "--stats=json", "-o"]).arg(&path).args(words);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let refusals = ["does not allow", "takes no samples"];
    if output.status.code() == Some(2) && refusals.iter().any(|refusal| said.contains(refusal)) {
        return None;
    }
    let read = |path: &Path| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
    let samples = read(&path).unwrap_or_default();
    let report = said.lines().find(|line| line.starts_with('{'));
    let statistics = report.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    Some(Recorded { status: output.status.code(), samples, statistics, said })
}

impl Recorded {
    fn of_process(&self, name: &str) -> usize {
        self.samples.iter().filter(|sample| sample["process"] == name).count()
    }
}

/// As `perf record` takes it: what follows the command belongs to it, and `--` may stand before it.
#[test]
fn a_command_needs_no_mark_before_it() {
    for words in [&["sh", "-c", "exit 3", "--stats"][..], &["--", "sh", "-c", "exit 3"]] {
        let Some(recorded) = record(words) else { return };
        assert_eq!(recorded.status, Some(3), "{}", recorded.said);
    }
}

/// A hundred processes that each end before a clock of their own has gone round.
const SHORT: &str = "i=0; while [ $i -lt 200 ]; do i=$((i + 1)); /bin/true; done; exit 3";

#[test]
fn processes_shorter_than_a_period_are_seen_by_the_clocks_of_processors() {
    let Some(seen) = record(&["--per-processor", "--", "sh", "-c", SHORT]) else { return };
    assert_eq!(seen.status, Some(3), "{}", seen.said);
    assert!(
        seen.of_process("true") > 20,
        "{} of {}: {}",
        seen.of_process("true"),
        seen.samples.len(),
        seen.said
    );
    let names = ["sh", "true"];
    let others: Vec<_> =
        seen.samples.iter().filter(|sample| !names.iter().any(|name| sample["process"] == *name)).collect();
    assert!(others.is_empty(), "samples of other programs: {:?}", others.first());
    let share = seen.statistics["coverage"]["share"].as_f64().unwrap();
    let lost = seen.statistics["lost"].as_u64().unwrap();
    assert!(lost > 0 || (0.8..1.3).contains(&share), "{share}: {}", seen.said);
    let Some(missed) = record(&["--per-thread", "--", "sh", "-c", SHORT]) else { return };
    assert_eq!(missed.status, Some(3), "{}", missed.said);
    assert!(missed.statistics["coverage"]["processor_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_command_is_asked_to_end_when_the_time_is_over() {
    let Some(recorded) = record(&["--duration", "0.2", "--", "sleep", "1000"]) else { return };
    assert_eq!(recorded.status, Some(128 + libc::SIGTERM), "{}", recorded.said);
    let deaf = "exec 2> /dev/null; trap '' TERM; i=0; while [ $i -lt 10 ]; do sleep 1; i=$((i + 1)); done";
    let Some(recorded) = record(&["--duration", "0.2", "--", "sh", "-c", deaf]) else { return };
    assert_eq!(recorded.status, Some(0), "{}", recorded.said);
    assert!(!recorded.samples.is_empty(), "{}", recorded.said);
}

#[test]
fn several_processes_and_the_whole_machine_are_sampled_while_a_command_runs() {
    let busy = "while :; do :; done";
    let start = || Command::new("sh").args(["-c", busy]).spawn().unwrap();
    let (mut one, mut other) = (start(), start());
    let (first, second) = (u64::from(one.id()), u64::from(other.id()));
    let pids = format!("{first},{second}");
    let both = record(&["-p", &pids, "--", "sh", "-c", "sleep 0.5; exit 4"]);
    let all = record(&["--all", "-F", "199", "--", "sh", "-c", "sleep 0.5; exit 5"]);
    for child in [&mut one, &mut other] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let pids = |recorded: &Recorded| {
        let pids = recorded.samples.iter().filter_map(|sample| sample["pid"].as_u64());
        pids.collect::<std::collections::BTreeSet<_>>()
    };
    if let Some(both) = both {
        assert_eq!(both.status, Some(4), "{}", both.said);
        assert_eq!(pids(&both), [first, second].into(), "{}", both.said);
    }
    if let Some(all) = all {
        assert_eq!(all.status, Some(5), "{}", all.said);
        assert!(pids(&all).is_superset(&[first, second].into()), "{}", all.said);
    }
}

#[test]
fn other_events_are_sampled_and_wrong_ones_named() {
    let Some(faults) = record(&["-e", "page-faults/1,cpu-clock", "--", "sh", "-c", SHORT]) else { return };
    let of = |name: &str| faults.samples.iter().filter(|sample| sample["event"] == name).count();
    assert!(of("page-faults") > 10, "{}", faults.said);
    assert_eq!(of("page-faults") + of("cpu-clock"), faults.samples.len());
    let wrong = record(&["-e", "cycels", "--", "true"]).unwrap();
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.said.contains("there is no event \"cycels\"; expected cpu-clock"), "{}", wrong.said);
    let Some(nowhere) = record(&["--cgroup", "/proc", "--", "true"]) else { return };
    assert!(nowhere.said.contains("/proc is not a control group"), "{}", nowhere.said);
}

#[test]
fn threads_that_wait_are_sampled_with_the_time_that_they_wait() {
    let script = "sleep 0.2; i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
    let Some(recorded) = record(&["--off-cpu", "--", "sh", "-c", script]) else { return };
    assert_eq!(recorded.status, Some(0), "{}", recorded.said);
    let waits = |sample: &&Value| sample["event"] == "off-cpu" && sample["process"] == "sleep";
    let waited: u64 =
        recorded.samples.iter().filter(waits).filter_map(|sample| sample["period"].as_u64()).sum();
    assert!(waited >= 150_000_000, "{waited} ns: {}", recorded.said);
    assert!(recorded.samples.iter().any(|sample| sample["event"] != "off-cpu"), "{}", recorded.said);
}

/// Where the output is no terminal, tables follow one another until the time is over.
#[test]
fn the_functions_that_run_now_are_shown() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sframe"));
    command.args(["top", "--interval", "0.2", "--duration", "0.7", "--", "sh", "-c", "while :; do :; done"]);
    let output = command.output().unwrap();
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(2)
        && ["does not allow", "takes no samples"].iter().any(|no| said.contains(no))
    {
        return;
    }
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM), "{said}");
    assert!(shown.contains("   self    total  function\n"), "{shown}{said}");
    assert!(!shown.contains('\x1b') && shown.lines().any(|line| line.contains("%  ")), "{shown}");
}

/// A program that keeps frame pointers, and an object that it loads by itself and tells gdb of. In the
/// object's code, the frame pointer is that of its caller.
fn program_with_made_code(folder: &Path, options: &[&str]) -> [String; 2] {
    let paths = ["program", "made.o"].map(|name| folder.join(name).to_str().unwrap().to_owned());
    let source = |name: &str| format!("{}/tests/jit/{name}", env!("CARGO_MANIFEST_DIR"));
    let gcc = |words: &[&str], path: &String| {
        let status = Command::new("gcc").args(words).args(["-O2", "-o", path]).status();
        assert!(status.unwrap().success());
    };
    gcc(&[&["-fno-omit-frame-pointer", &source("main.c")], options].concat(), &paths[0]);
    gcc(&["-fomit-frame-pointer", "-ffixed-rbp", "-c", &source("made.c")], &paths[1]);
    paths
}

/// The program has loaded an object file by itself, and told gdb of it.
#[test]
fn code_that_gdb_is_told_of_has_names_and_frames() {
    let folder = tempfile::tempdir().unwrap();
    let [program, object] = program_with_made_code(folder.path(), &[]);
    for options in [&["--", &program, &object][..], &["--bpf", "--", &program, &object]] {
        let Some(recorded) = record(options) else { return };
        assert_eq!(recorded.status, Some(0), "{}", recorded.said);
        let caller = |sample: &Value| {
            let frames = sample["frames"].as_array().unwrap();
            let place = frames.iter().position(|frame| frame["function"] == "made")?;
            assert_eq!(frames[place]["file"], "[code in memory]");
            Some(frames.get(place + 1)?["function"].clone())
        };
        let all: Vec<_> = recorded.samples.iter().filter(|sample| sample["process"] == "program").collect();
        let callers: Vec<Value> = all.iter().filter_map(|sample| caller(sample)).collect();
        assert!(callers.iter().all(|caller| caller == "main"), "{callers:?}");
        let (called, all) = (callers.len(), all.len());
        assert!(called > 0 && called * 10 >= all * 8, "{called} of {all}: {}", recorded.said);
    }
}

/// The stack goes on behind a frame that is larger than the copy of it, or that has a page to which nobody
/// has written, where the kernel ends the copy. Such stacks are unwound in user space, since the program in
/// the kernel does not know the made code, but it says what is behind the frame.
#[test]
fn a_frame_that_is_larger_than_the_copy_is_left_by_its_frame_pointer() {
    for room in ["-DROOM=200000", "-DROOM=20000"] {
        let folder = tempfile::tempdir().unwrap();
        let [program, object] = program_with_made_code(folder.path(), &[room]);
        let Some(recorded) = record(&["--bpf", "--", &program, &object]) else { return };
        assert_eq!(recorded.status, Some(0), "{}", recorded.said);
        let names = |sample: &Value| {
            let frames = sample["frames"].as_array().unwrap().iter();
            frames.map(|frame| frame["function"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let stacks = recorded.samples.iter().filter(|sample| sample["process"] == "program").map(names);
        let made: Vec<Vec<String>> = stacks.filter(|names| names.iter().any(|name| name == "made")).collect();
        let whole = made.iter().filter(|names| {
            let place = names.iter().position(|name| name == "made").unwrap_or(0);
            let called = names.get(place + 1).is_some_and(|caller| caller == "main");
            called && names.last().is_some_and(|name| name == "_start")
        });
        let (whole, all) = (whole.count(), made.len());
        // The kernel leaves made code by its frame pointer until it is told that the process describes it.
        let in_kernel = recorded.statistics["in_kernel"].as_u64().unwrap_or_default() as usize;
        assert!(
            whole * 2 > all && (whole + in_kernel) * 100 >= all * 98,
            "{whole} of {all}: {}",
            recorded.said
        );
        let Some(copied) = record(&["--no-bpf", "--", &program, &object]) else { return };
        let said =
            ["the copy of the stack ended", "the copy of the stack ended at a page that was not there"];
        let [ended, missing] = said.map(|end| copied.statistics["ends"][end].as_u64().unwrap_or_default());
        let all = copied.of_process("program") as u64;
        assert!(missing * 10 > all * 9 && ended == 0, "{missing} and {ended} of {all}: {}", copied.said);
        assert!(copied.said.contains("to which nobody has written yet"), "{}", copied.said);
    }
}

/// A program with a heap of code as Java's virtual machine keeps it.
fn program_with_virtual_machine(folder: &Path) -> String {
    let program = folder.join("program").to_str().unwrap().to_owned();
    let source = format!("{}/tests/jit/hotspot.c", env!("CARGO_MANIFEST_DIR"));
    let words = ["-O2", "-rdynamic", "-o", &program, &source];
    assert!(Command::new("gcc").args(words).status().unwrap().success());
    program
}

/// A program with a heap of code as Java's virtual machine keeps it. Its compiled methods use the frame
/// pointer for a value, and an adapter moves the stack pointer between one of them and the interpreter.
#[test]
fn code_of_a_virtual_machine_of_java_has_names_and_frames() {
    let folder = tempfile::tempdir().unwrap();
    let program = program_with_virtual_machine(folder.path());
    let known = [
        &["work", "org.Fake.run", "org.Fake.call", "main"][..],
        &["org.Fake.run", "org.Fake.call", "main"],
        &["I2C/C2I adapters", "org.Fake.call", "main"],
        &["org.Fake.call", "main"],
        &["org.Fake.spin", "main"],
        &["main"],
    ];
    for options in [&["--no-bpf", "--", &program][..], &["--bpf", "--", &program]] {
        let Some(recorded) = record(options) else { return };
        assert_eq!(recorded.status, Some(0), "{}", recorded.said);
        // Up to `main`, without what the kernel and the C library do: `main` maps memory at first.
        let stack = |sample: &Value| {
            let frames = sample["frames"].as_array().unwrap().iter();
            let of_others = |file: &Value| {
                file.as_str().is_some_and(|file| file == "[kernel]" || file.contains("libc.so"))
            };
            let own = frames.filter(|frame| !of_others(&frame["file"]));
            let names: Vec<Value> = own.map(|frame| frame["function"].clone()).collect();
            names.iter().position(|name| name == "main").map(|main| names[..=main].to_vec())
        };
        let all: Vec<_> = recorded.samples.iter().filter(|sample| sample["process"] == "program").collect();
        let stacks: Vec<Vec<Value>> = all.iter().filter_map(|sample| stack(sample)).collect();
        let wrong = stacks.iter().find(|stack| !known.iter().any(|known| stack == known));
        assert_eq!(wrong, None, "{}", recorded.said);
        let of = |known: &[&str]| stacks.iter().filter(|stack| *stack == known).count();
        let (whole, all) = (stacks.len(), all.len());
        assert!(whole > 0 && whole * 10 >= all * 8, "{whole} of {all}: {}", recorded.said);
        // Not even the first stacks were left by a frame pointer that the code does not keep.
        let made = &recorded.statistics["ends"]["code that was made as the program ran"];
        assert!(made.as_u64().unwrap_or_default() * 50 <= all as u64, "{}", recorded.said);
        assert!(of(known[0]) * 10 > whole && of(known[4]) * 10 > whole, "{stacks:?}");
    }
}

/// Of code that the virtual machine has freed, nothing says how it is left, and a frame pointer that leads
/// somewhere is its caller's. The stack ends there.
#[test]
fn code_that_a_virtual_machine_has_freed_is_not_left_by_a_frame_pointer() {
    let folder = tempfile::tempdir().unwrap();
    let program = program_with_virtual_machine(folder.path());
    for options in [&["--no-bpf", "--", &program, "freed"][..], &["--bpf", "--", &program, "freed"]] {
        let Some(recorded) = record(options) else { return };
        assert_eq!(recorded.status, Some(0), "{}", recorded.said);
        let (mut ended, mut callers) = (0, Vec::new());
        for sample in &recorded.samples {
            let frames = sample["frames"].as_array().unwrap();
            if let Some(place) = frames.iter().position(|frame| frame["file"] == "[anonymous code]") {
                ended += 1;
                callers.extend(frames.get(place + 1).map(|frame| frame["function"].clone()));
            }
        }
        assert!(ended * 10 > recorded.samples.len() * 8, "{ended}: {}", recorded.said);
        assert!(callers.is_empty(), "{callers:?}");
    }
}

/// Names of files, with their contents.
type Written = Vec<(String, Vec<u8>)>;

/// The files of a recording with these options, in the order of their names, and what was said. `None`: the
/// kernel does not allow it.
fn rotated(options: &[&str], script: &str) -> Option<(Written, String)> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sframe"));
    command.current_dir(folder.path()).arg("record").args(options).args(["--", "sh", "-c", script]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(2)
        && ["does not allow", "takes no samples"].iter().any(|no| said.contains(no))
    {
        return None;
    }
    assert_eq!(output.status.code(), Some(3), "{said}");
    let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    let mut files: Written = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    Some((files, said))
}

const BUSY: &str = "timeout 2.6 sh -c 'while :; do :; done'; exit 3";

#[test]
fn one_file_follows_another_and_no_sample_is_lost() {
    let options = ["--rotate", "1s", "--stats=json", "-o", "s.json", "--html", "s.html"];
    let Some((files, said)) = rotated(&options, BUSY) else { return };
    let is = |ending: &'static str| files.iter().filter(move |(name, _)| name.ends_with(ending));
    let (profiles, pages): (Vec<_>, Vec<_>) = (is("Z.json").collect(), is("Z.html").collect());
    assert_eq!(profiles.len() + pages.len(), files.len(), "nothing else: {files:?}");
    assert_eq!(profiles.len(), pages.len());
    assert!((2..=4).contains(&profiles.len()), "{said}");
    assert!(pages.iter().all(|(_, page)| page.ends_with(b"</html>\n")), "{said}");
    // Users who may not have the clocks of processors are told of what threads ran without samples, later.
    let samples = |file: &[u8]| {
        let all: Vec<Value> = serde_json::from_slice(file).unwrap();
        all.into_iter().filter(|sample| sample["stopped"] != "time that was not sampled").collect()
    };
    let profiles: Vec<Vec<Value>> = profiles.iter().map(|(_, file)| samples(file)).collect();
    // Each has its own statistics.
    let reports: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let counts: Vec<_> = reports.iter().map(|report| report["samples"].as_u64().unwrap()).collect();
    assert_eq!(counts, profiles.iter().map(|profile| profile.len() as u64).collect::<Vec<_>>());
    let sum = |name: &str| -> f64 {
        reports.iter().map(|report| report["coverage"][name].as_f64().unwrap_or(0.0)).sum()
    };
    let (share, lost) = (sum("sampled_seconds") / sum("processor_seconds"), said.contains("\"lost\":0"));
    assert!(!lost || (0.8..1.3).contains(&share), "{share}: {said}");
    let times: Vec<f64> = profiles.iter().flatten().filter_map(|sample| sample["time"].as_f64()).collect();
    assert!(!times.is_empty() && times.is_sorted(), "each begins where the one before ended");
    let functions = |profile: &Vec<Value>| profile.iter().any(|sample| sample["process"] == "sh");
    assert!(profiles.iter().all(functions), "{said}");
}

#[test]
fn a_signal_begins_another_file_and_old_ones_are_removed() {
    // The shell's parent is the recorder.
    let script = "i=0; while [ $i -lt 4 ]; do kill -USR2 $PPID; timeout 0.4 sh -c 'while :; do :; done'; i=$((i + 1)); done; exit 3";
    let Some((files, said)) = rotated(&["--rotate", "signal", "-o", "s.folded"], script) else { return };
    assert!((4..=5).contains(&files.len()), "{said}");
    assert!(files.iter().all(|(name, _)| name.starts_with("s-2") && name.ends_with(".folded")));
    let options = ["--rotate", "signal", "--keep", "2", "-o", "s.pb.gz"];
    let Some((files, said)) = rotated(&options, script) else { return };
    assert_eq!(files.len(), 2, "{said}");
    assert!(said.matches(" from the root on").count() >= 4, "{said}");
    assert!(files.iter().all(|(name, bytes)| name.ends_with(".pb.gz") && !bytes.is_empty()));
    // The names of those that stay are the last ones that were said.
    let last = said.lines().rev().find(|line| line.contains(".pb.gz")).unwrap();
    assert!(files.iter().any(|(name, _)| last.contains(name)), "{last}: {files:?}");
    let size = ["--rotate", "64K", "-F", "20000", "-o", "s.folded"];
    let Some((files, said)) = rotated(&size, BUSY) else { return };
    assert!(files.len() > 1, "{said}");
}

#[test]
fn wrong_rotations_are_refused() {
    let said = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sframe"));
        let output = command.arg("record").args(words).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&["--rotate", "10"]).contains("expected a time (60s, 10m, 2h, 1d)"));
    assert!(said(&["--rotate", "0s"]).contains("expected 1s or more"));
    assert!(said(&["--rotate", "1s", "--keep", "0"]).contains("expected 1 or more"));
    assert!(said(&["--keep", "2"]).contains("--rotate"));
    assert!(said(&["--rotate", "1s", "--format", "json"]).contains("name one with -o or --html"));
    assert!(said(&["--rotate", "1s", "-o", "/dev/null", "--format", "json"]).contains("no file"));
    assert!(said(&["--rotate", "1s", "-o", "/nowhere/s.html"]).contains("/nowhere"));
}
