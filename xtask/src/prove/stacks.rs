//! Proves `sframe stacks`: it unwinds recordings of real programs, and so do framehop, libdw and `perf
//! script`.
//!
//! The recorded programs are the distribution's. Hardly any of them has frame pointers, and only one is
//! linked with SFrame. Every unwinder reads the same recording. `beside_framehop` is an example of
//! `crates/stacks`. In one run, it measures the time of unwinding alone for this crate and for framehop, and
//! compares every frame, also with those of libdw, which `libdw.c` asks for.

use super::proof::Proof;
use crate::bench::measure::{Cost, measure, median};
use crate::commands::output;
use crate::peers;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program to record.
struct Workload {
    name: &'static str,
    /// The shell command that runs it.
    line: &'static str,
    /// The programs that it needs.
    needs: &'static [&'static str],
}

const WORKLOADS: [Workload; 9] = [
    Workload { name: "python", line: "/usr/bin/python3 work.py", needs: &["/usr/bin/python3"] },
    Workload { name: "node", line: "node work.js", needs: &["node"] },
    Workload { name: "perl", line: "perl work.pl", needs: &["perl"] },
    Workload { name: "rustc", line: "rustc -O --crate-type=lib -o lib.rlib work.rs", needs: &["rustc"] },
    Workload { name: "g++", line: "g++ -O2 -c -o work.o work.cc", needs: &["g++"] },
    Workload { name: "exceptions and signals", line: "./throws", needs: &["g++"] },
    Workload { name: "dlopen", line: "./opens", needs: &["gcc"] },
    Workload { name: "fork storm", line: "sh ./storm.sh", needs: &["sh"] },
    Workload { name: "static", line: "./static", needs: &["gcc"] },
];

pub const PYTHON: &str = "import json, re\n\
    def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n\
    def deep(n): return deep(n - 1) if n else sum(len(json.dumps(list(range(50)))) for _ in range(20))\n\
    for i in range(40):\n    fib(19); deep(15); sorted((str(x) for x in range(20000)), key=hash); re.sub('a+b', 'x', 'aab' * 3000)\n";
pub const NODE: &str = "const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2);\nlet text = '';\n\
    for (let i = 0; i < 60; i++) { fib(24); text = JSON.stringify(Array.from({ length: 20000 }, (_, k) => ({ k, s: String(k) })));\n\
    JSON.parse(text); [...text].sort().join('').replace(/[0-9]+/g, 'x'); }\n";
const PERL: &str = "sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }\n\
    for my $i (1 .. 12) { fib(19); my %h = map { $_ => $_ ** 2 } 1 .. 30000; my @s = sort { $h{$a} <=> $h{$b} } keys %h;\n\
    my $t = join ',', @s; $t =~ s/(\\d+),(\\d+)/$2;$1/g; }\n";
const RUST: &str = "use std::collections::{BTreeMap, HashMap};\nuse std::fmt::Debug;\n\
    pub fn group<K: Ord + Clone + std::hash::Hash + Debug, V: Clone + Debug>(rows: &[(K, V)]) -> BTreeMap<K, Vec<V>> {\n\
    let mut map: HashMap<K, Vec<V>> = HashMap::new(); for (k, v) in rows { map.entry(k.clone()).or_default().push(v.clone()); }\n\
    map.into_iter().collect() }\n";
pub const THROWS: &str = "#include <csignal>\n#include <cstring>\n#include <stdexcept>\n#include <string>\n#include <sys/time.h>\n\
    static volatile long ticks; static volatile double waste;\n\
    static void on_alarm(int) { for (int i = 0; i < 20000; i++) waste += i; ticks++; }\n\
    __attribute__((noinline)) static int deep(int n) { volatile char room[64]; memset((void *)room, n, sizeof room);\n\
      if (n == 0) throw std::runtime_error(std::string(40, 'x')); return deep(n - 1) + room[3]; }\n\
    int main() { struct sigaction a; memset(&a, 0, sizeof a); a.sa_handler = on_alarm; a.sa_flags = SA_ONSTACK;\n\
      stack_t s; memset(&s, 0, sizeof s); s.ss_sp = new char[1 << 16]; s.ss_size = 1 << 16; sigaltstack(&s, nullptr);\n\
      sigaction(SIGALRM, &a, nullptr); itimerval t = {{0, 500}, {0, 500}}; setitimer(ITIMER_REAL, &t, nullptr);\n\
      long caught = 0; for (int i = 0; i < 40000; i++) try { deep(i % 40); } catch (std::exception &e) { caught += strlen(e.what()); }\n\
      return caught == 0; }\n";
const LIBRARY: &str = "#include <string.h>\n__attribute__((noinline)) static long work(int n) { char room[256]; memset(room, n, sizeof room);\n\
    return n ? work(n - 1) + room[n & 255] : room[0]; }\nlong enter(int n) { long sum = 0; for (int i = 0; i < n; i++) sum += work(i % 60); return sum; }\n";
const OPENS: &str = "#include <dlfcn.h>\n#include <stdio.h>\nint main(void) { long sum = 0; char name[32];\n\
    for (int i = 0; i < 1200; i++) { snprintf(name, sizeof name, \"./part%d.so\", i % 12); void *h = dlopen(name, RTLD_NOW);\n\
    if (!h) return 1; long (*enter)(int) = (long (*)(int))dlsym(h, \"enter\"); sum += enter(500); dlclose(h); } return sum == 1; }\n";
const STATIC: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }\n\
    int main(void) { for (int r = 0; r < 60; r++) { enum { N = 20000 }; char **all = malloc(N * sizeof *all);\n\
    for (int i = 0; i < N; i++) { all[i] = malloc(24); snprintf(all[i], 24, \"%d\", (i * 7919) % N); }\n\
    qsort(all, N, sizeof *all, compare); for (int i = 0; i < N; i++) free(all[i]); free(all); } }\n";
const STORM: &str = "i=0; while [ $i -lt 1500 ]; do /bin/true; ls / >/dev/null; i=$((i + 1)); done\n";

/// libdw claims that it has followed these stacks to the root, because it cannot read the next return
/// address.
const CUT: [&str; 3] = [
    "same frames; ours ends at CopyEnded, libdw at the root",
    "same frames; ours ends at PageMissing, libdw at the root",
    "same frames; ours ends at Memory, libdw at the root",
];
/// How often the command and `perf script` run on a recording, in turns; the medians count.
const ROUNDS: usize = 5;
/// The outermost functions of complete stacks, by perf's names.
const ROOTS: [&str; 7] =
    ["_start", "clone3", "__clone3", "__clone", "clone", "__GI___clone3", "__GI___clone"];
const HEAD: &str = "| recording | samples | sframe: rooted | SFrame only | framehop: rooted | libdw: rooted | frames equal to libdw's | perf script: rooted | samples/s, unwinding alone | framehop's | times | whole command, s | perf script, s | times | peak MiB | perf's |\n\
    |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The programs that unwind.
struct Programs<'a> {
    sframe: &'a Path,
    beside: &'a Path,
    /// The program that calls libdw.
    libdw: Option<String>,
}

/// Records, unwinds and compares.
pub fn stacks(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let perf = output(Command::new("perf").arg("--version"));
    let Ok(perf) = perf else { return proof.note("perf is not to be had: nothing was recorded") };
    let beside = build()?;
    prepare(proof)?;
    let libdw = build_for_libdw(proof);
    if let Err(reason) = &libdw {
        proof.note(format!("libdw is not to be had: {reason:#}\n"))?;
    }
    drive_browser(proof)?;
    let programs = Programs { sframe, beside: &beside, libdw: libdw.ok() };
    proof.note(format!(
        "{}, {}, cpu-clock at 997 Hz, 16 KiB of stack for each sample\n",
        perf.trim(),
        kernel()?
    ))?;
    proof.note(HEAD)?;
    let mut differences = String::new();
    for workload in &WORKLOADS {
        if !workload.needs.iter().all(|program| is_there(program)) {
            proof.note(format!("| {} | not to be had |", workload.name))?;
            continue;
        }
        let recording = record(proof, workload)?;
        let line = compare(proof, workload, &recording, &programs, &mut differences)?;
        proof.note(line)?;
    }
    proof.note(format!(
        "\nperf script runs with --no-inline, on one processor as the others, for 90 seconds at most. Rooted: the share of samples with a user part whose walk reaches the root of the stack. perf script is taken to reach it \
         where the outermost function is one of {}; framehop and libdw, where they say so; libdw says so of a return address that it cannot read, too: not counted are its stacks that end after the frames that ours have, at a word that the copy of the stack lacks. Times of the whole command and of perf script are medians of {ROUNDS} runs in turns. Frames equal to libdw's: of those that libdw finds where both have rows, the share that is the same up to the first difference of a sample.\n\n## Differences from framehop and libdw\n\n{differences}",
        ROOTS.join(", ")
    ))
}

fn is_there(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|found| found.status.success())
}

fn kernel() -> Result<String> {
    Ok(format!("Linux {}", output(Command::new("uname").arg("-r"))?.trim()))
}

/// Builds the program that unwinds with this crate and with framehop.
fn build() -> Result<PathBuf> {
    let root = crate::folders::workspace();
    let mut command = Command::new("cargo");
    command.current_dir(root).args([
        "build",
        "--quiet",
        "--release",
        "-p",
        "stacks",
        "--example",
        "beside_framehop",
    ]);
    output(&mut command)?;
    Ok(crate::folders::target().canonicalize()?.join("release/examples/beside_framehop"))
}

/// Lets a browser search and zoom the page of `--html`, if there is a browser.
fn drive_browser(proof: &mut Proof) -> Result<()> {
    let Some(browser) = ["chromium-headless-shell", "chromium"].into_iter().find(|name| is_there(name))
    else {
        return proof.note("Chromium is not to be had: no browser opened the page\n");
    };
    if !is_there("node") {
        return proof.note("Node.js is not to be had, which drives Chromium: no browser opened the page\n");
    }
    let mut command = Command::new("cargo");
    command.current_dir(crate::folders::workspace()).args([
        "test",
        "--quiet",
        "-p",
        "stacks",
        "--test",
        "pages",
        "--",
        "in_chromium",
    ]);
    command.env("SFRAME_BROWSER", browser).env("SFRAME_NODE", "node");
    output(&mut command)?;
    proof.note("Chromium searches and zooms the page of --html by keys and mouse, and one that compares two profiles\n")
}

/// Builds the program that calls libdw.
fn build_for_libdw(proof: &Proof) -> Result<String> {
    let compiler = peers::program("libdw-gcc")?;
    std::fs::write(proof.folder.join("libdw.c"), include_str!("libdw.c"))?;
    proof.tool(compiler, &["-O2", "-o", "libdw", "libdw.c"])?;
    Ok(proof.folder.join("libdw").display().to_string())
}

/// Writes and builds the programs.
fn prepare(proof: &Proof) -> Result<()> {
    let mut templates = String::from(
        "#include <algorithm>\n#include <map>\n#include <regex>\n#include <string>\n#include <vector>\n",
    );
    for number in 0..12 {
        writeln!(
            templates,
            "struct T{number} {{ int x; std::string s; bool operator<(const T{number} &o) const {{ return s < o.s; }} }};\n\
             std::map<std::string, std::vector<T{number}>> f{number}(std::vector<T{number}> v) {{ std::sort(v.begin(), v.end()); \
             std::map<std::string, std::vector<T{number}>> m; std::regex r(\"a+b\"); for (auto &t : v) \
             if (std::regex_match(t.s, r)) m[t.s].push_back(t); return m; }}"
        )?;
    }
    let mut rust = RUST.to_owned();
    for number in 0..60 {
        writeln!(
            rust,
            "#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)] pub struct S{number} {{ pub a: String, pub b: Vec<u{size}> }}\n\
             pub fn f{number}(rows: &[(S{number}, u32)]) -> String {{ format!(\"{{:?}}\", group(rows)) }}",
            size = [8, 16, 32, 64][number % 4]
        )?;
    }
    let files = [
        ("work.py", PYTHON),
        ("work.js", NODE),
        ("work.pl", PERL),
        ("work.rs", &rust),
        ("work.cc", &templates),
        ("throws.cc", THROWS),
        ("part.c", LIBRARY),
        ("opens.c", OPENS),
        ("static.c", STATIC),
        ("storm.sh", STORM),
    ];
    for (name, text) in files {
        std::fs::write(proof.folder.join(name), text)?;
    }
    proof.tool("g++", &["-O2", "-o", "throws", "throws.cc"])?;
    proof.tool("gcc", &["-O2", "-o", "opens", "opens.c"])?;
    proof.tool("gcc", &["-O2", "-static", "-o", "static", "static.c"])?;
    for number in 0..12 {
        proof.tool("gcc", &["-O2", "-shared", "-fPIC", "-o", &format!("part{number}.so"), "part.c"])?;
    }
    Ok(())
}

fn record(proof: &Proof, workload: &Workload) -> Result<PathBuf> {
    let path = proof.folder.join(format!("{}.data", workload.name.replace([' ', '+'], "-")));
    let line = format!("exec {}", workload.line);
    let path_text = path.display().to_string();
    let words = [
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "997",
        "--call-graph",
        "dwarf,16384",
        "-o",
        &path_text,
        "--",
        "sh",
        "-c",
        &line,
    ];
    proof.tool("perf", &words)?;
    Ok(path)
}

/// Writes one line of the table. Differences from framehop go to `differences`.
fn compare(
    proof: &Proof,
    workload: &Workload,
    recording: &Path,
    programs: &Programs<'_>,
    differences: &mut String,
) -> Result<String> {
    let path = recording.display().to_string();
    let words = [&*path, "3"].into_iter().chain(programs.libdw.as_deref()).collect::<Vec<_>>();
    let both: Value = serde_json::from_str(&proof.tool(programs.beside, &words)?)?;
    let sframe = programs.sframe;
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    // `found` are the differences from another unwinder.
    let share = |result: &Value, found: &Value| {
        let cut: f64 = CUT.iter().map(|kind| number(&found["differences"][*kind])).sum();
        100.0 * (number(&result["rooted"]) - cut) / number(&result["samples"]).max(1.0)
    };
    let (ours, framehop) = (&both["ours"], &both["framehop"]);
    let only = stats(proof, sframe, &path, "sframe")?;
    let text = proof.folder.join("stacks.txt").display().to_string();
    let script = proof.folder.join("perf.txt").display().to_string();
    let words = [&sframe.display().to_string(), "stacks", &path, "-o", &text].map(str::to_owned);
    // Source lines of inlined functions would take hours, and nothing here needs them.
    let line = format!("timeout 90 perf script --no-inline -i '{path}' > '{script}' 2>/dev/null");
    let their_words = ["sh".to_owned(), "-c".to_owned(), line];
    let (mut whole, mut perf) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // Removing the results of the last recording takes as long as writing a part of the new ones.
        for old in [&text, &script] {
            let _ = std::fs::remove_file(old);
        }
        let run = measure(&proof.folder, 1, &words)?;
        ensure!(run.cost.success, "sframe stacks: {}", run.messages);
        whole.push(run.cost);
        perf.push(measure(&proof.folder, 1, &their_words)?.cost);
    }
    let wall = |costs: &[Cost]| median(costs.iter().map(|cost| cost.wall)).unwrap_or_default();
    let peak = |costs: &[Cost]| costs.iter().map(|cost| cost.peak_memory).max().unwrap_or_default();
    let (our_wall, their_wall) = (wall(&whole), wall(&perf));
    let rooted_by_perf = rooted_by_perf(&std::fs::read_to_string(&script).context("perf script")?);
    let rooted_by_perf = 100.0 * rooted_by_perf as f64 / number(&ours["samples"]).max(1.0);
    let libdw = &both["libdw"];
    let by_libdw = match libdw {
        Value::Null => "- | -".to_owned(),
        _ => format!(
            "{:.2} % | {:.3} %",
            share(&libdw[0], &libdw[1]),
            100.0 * number(&libdw[1]["same_frames"])
                / (number(&libdw[0]["frames"]) - number(&libdw[1]["frames_without_rows"])).max(1.0)
        ),
    };
    for (name, result, found) in [("framehop", framehop, &both), ("libdw", &libdw[0], &libdw[1])] {
        if found.is_null() {
            continue;
        }
        // Without rows, others go on by frame pointers and may be right. The record says so.
        if share(ours, &Value::Null) + 0.005 < share(result, found) {
            writeln!(differences, "- {}: {name} reaches the root of more stacks", workload.name)?;
        }
        let same = 100.0 * number(&found["same_samples"]) / number(&ours["samples"]).max(1.0);
        let recording = workload.name;
        writeln!(differences, "- {recording}: {same:.2} % of samples have the frames and end of {name}")?;
        for (kind, count) in found["differences"].as_object().into_iter().flatten() {
            writeln!(differences, "  - {count}: {kind}")?;
        }
    }
    let (speed, their_speed) = (number(&ours["samples_per_second"]), number(&framehop["samples_per_second"]));
    Ok(format!(
        "| {} | {} | {:.2} % | {:.2} % | {:.2} % | {by_libdw} | {rooted_by_perf:.2} % | {speed:.0} | {their_speed:.0} | {:.1} | {:.3} | {:.2} | {:.1} | {} | {} |",
        workload.name,
        ours["samples"],
        share(ours, &Value::Null),
        100.0 * number(&only["rooted_share"]),
        share(framehop, &Value::Null),
        speed / their_speed.max(1.0),
        our_wall,
        their_wall,
        their_wall / our_wall,
        peak(&whole) >> 20,
        peak(&perf) >> 20,
    ))
}

/// The statistics of the command with these rows.
fn stats(proof: &Proof, sframe: &Path, recording: &str, rows: &str) -> Result<Value> {
    let mut command = Command::new(sframe);
    command.current_dir(&proof.folder);
    command.args(["stacks", recording, "--format", "none", "--stats=json", "--rows", rows]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(text.lines().next().unwrap_or_default()).with_context(|| text.into_owned())
}

/// The number of stacks that have a user part and whose outermost function is a root.
fn rooted_by_perf(script: &str) -> usize {
    let mut rooted = 0;
    for sample in script.split("\n\n") {
        let Some(last) = sample.lines().rfind(|line| line.starts_with('\t')) else { continue };
        if last.contains("[kernel") {
            continue;
        }
        let function = last.split_whitespace().nth(1).unwrap_or_default();
        let function = function.split('+').next().unwrap_or_default();
        rooted += usize::from(ROOTS.contains(&function));
    }
    rooted
}
