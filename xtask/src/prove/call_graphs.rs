//! Proves that profilers invent no callers: programs whose callers are all known are sampled, and every
//! caller that a stack names must be one of them.
//!
//! A share of rooted stacks says little alone, because a walk that has lost its way may also reach a root. So
//! this proof counts both, for `sframe` on a recording of perf, for `sframe record` as people run it and with
//! `--no-bpf`, and for `perf script` on the recording of perf. A sample has a wrong edge if a function of the
//! program is called by another function than its source says, or by no function at all.
//!
//! With `--no-bpf`, the kernel copies the top of one stack for each sample. A walk that ends where the copy
//! does, or where the program came from another stack, is whole as far as anybody can say, and counted apart.

use super::proof::Proof;
use crate::commands::output;
use crate::peers;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A program whose callers are known.
struct Program {
    name: &'static str,
    /// The compiler and its arguments. The output is named afterwards. Of Java, what runs it. Behind "run", a
    /// program of the system and its arguments.
    build: &'static [&'static str],
}

const SOURCES: [(&str, &str); 12] = [
    ("calls.c", include_str!("call_graphs/calls.c")),
    ("assembly.c", include_str!("call_graphs/assembly.c")),
    ("assembly.S", include_str!("call_graphs/assembly.S")),
    ("signals.c", include_str!("call_graphs/signals.c")),
    ("made.c", include_str!("call_graphs/made.c")),
    ("calls.go", include_str!("call_graphs/calls.go")),
    ("stacks.go", include_str!("call_graphs/stacks.go")),
    ("crossings.go", include_str!("call_graphs/crossings.go")),
    ("Calls.java", include_str!("call_graphs/Calls.java")),
    ("Calls.js", include_str!("call_graphs/Calls.js")),
    ("calls.py", include_str!("call_graphs/calls.py")),
    ("numbers.py", include_str!("call_graphs/numbers.py")),
];

const PROGRAMS: [Program; 20] = [
    Program { name: "C", build: &["gcc", "-O2", "calls.c"] },
    Program {
        name: "C, .debug_frame alone",
        build: &["gcc", "-O2", "-g", "-fno-asynchronous-unwind-tables", "calls.c"],
    },
    Program {
        name: "C without frames",
        build: &["gcc", "-O2", "-fno-asynchronous-unwind-tables", "calls.c"],
    },
    Program { name: "assembly", build: &["gcc", "-O2", "assembly.c", "assembly.S"] },
    Program { name: "signals on a stack of their own", build: &["gcc", "-O2", "signals.c"] },
    Program { name: "C through code that it makes", build: &["gcc", "-O2", "made.c"] },
    Program { name: "Go", build: &["go", "build", "calls.go"] },
    Program { name: "Go, stripped", build: &["go", "build", "-ldflags=-s -w", "calls.go"] },
    Program { name: "Go on other stacks", build: &["go", "build", "stacks.go"] },
    Program { name: "the same, stripped", build: &["go", "build", "-ldflags=-s -w", "stacks.go"] },
    Program { name: "Go and C", build: &["go", "build", "crossings.go"] },
    Program { name: "the same, at any address", build: &["go", "build", "-buildmode=pie", "crossings.go"] },
    Program { name: "Java", build: &["java"] },
    // Without a list of names that is written at the exit: that has the code that was last at an address.
    Program { name: "Java with frame pointers", build: &["java", "-XX:+PreserveFramePointer"] },
    Program { name: "node", build: &["run", "node", "--perf-basic-prof", "Calls.js"] },
    Program { name: "CPython", build: &["run", "python3", "calls.py"] },
    Program { name: "libgmp", build: &["run", "python3", "numbers.py"] },
    Program { name: "OpenSSL, RSA", build: &["run", "openssl", "speed", "-seconds", "2", "rsa2048"] },
    Program { name: "OpenSSL, FFDH", build: &["run", "openssl", "speed", "-seconds", "2", "ffdh2048"] },
    Program {
        name: "OpenSSL, SHA-512",
        build: &["run", "openssl", "speed", "-seconds", "2", "-bytes", "8192", "-evp", "sha512"],
    },
];

/// The callers of each function of the programs.
const CALLERS: [(&str, &[&str]); 57] = [
    ("leaf", &["tail", "variable", "rare", "divided", "deep", "saves", "one", "two", "handled", "evaluates"]),
    ("tail", &["saves"]),
    ("variable", &["realigned"]),
    ("realigned", &["main"]),
    ("rare", &["divided"]),
    ("divided", &["main"]),
    ("deep", &["deep", "main"]),
    ("saves", &["main"]),
    ("one", &["pushes", "aligns", "keeps", "chooses"]),
    ("two", &["pushes", "chooses"]),
    ("pushes", &["main"]),
    ("aligns", &["main"]),
    ("keeps", &["main"]),
    ("chooses", &["main"]),
    ("handled", &["on_alarm"]),
    ("interrupted", &["interrupted", "main"]),
    ("evaluates", &["made_even", "made_odd", "main"]),
    ("made_even", &["passes"]),
    ("made_odd", &["passes"]),
    ("passes", &["evaluates"]),
    ("main.fib", &["main.fib", "main.main", "main.main.func1"]),
    ("main.sorts", &["main.main"]),
    ("main.counts", &["main.main"]),
    ("main.main.func1", &["runtime.goexit"]),
    ("main.main", &["runtime.main"]),
    ("runtime.main", &["runtime.goexit"]),
    ("main.clocks", &["main.main"]),
    ("time.now", &["time.Now", "runtime.gcMarkTermination"]),
    ("time.Now", &["main.clocks", "main.main"]),
    ("main.grows", &["main.grows", "main.main.func1"]),
    ("main.makes", &["main.makes", "main.main"]),
    ("main.yields", &["main.main"]),
    ("runtime.newstack", &["runtime.morestack"]),
    ("main.nested", &["main.main", "main.main.func1", "main.goCallback"]),
    ("main.spins", &["main.nested", "main.goCallback"]),
    ("main.makesGarbage", &["main.nested"]),
    ("main.goCallback", &["_cgoexp_goCallback"]),
    ("c_spin", &["c_calls_back", "_cgo_Cfunc_c_alone"]),
    ("c_calls_back", &["_cgo_Cfunc_c_outer"]),
    ("goCallback", &["c_calls_back"]),
    ("crosscall2", &["goCallback"]),
    ("runtime.cgocallback", &["crosscall2"]),
    ("Calls.main", &["StubRoutines (1)"]),
    ("Calls.fib", &["Calls.fib", "Calls.main", "Interpreter"]),
    ("Calls.deep", &["Calls.deep", "Calls.main", "Interpreter"]),
    ("Calls.sorts", &["Calls.main", "Interpreter"]),
    ("Calls.hashes", &["Calls.deep", "Interpreter"]),
    ("Calls.copies", &["Calls.main", "Interpreter"]),
    // Compilers put methods into their callers. The interpreter has no other name where nobody reads its
    // frames.
    ("java.util.TimSort.sort", &["java.util.Arrays.sort", "Calls.sorts", "Interpreter"]),
    (
        "java.util.TimSort.mergeAt",
        &[
            "java.util.TimSort.mergeCollapse",
            "java.util.TimSort.mergeForceCollapse",
            "java.util.TimSort.sort",
            "java.util.Arrays.sort",
            "Calls.sorts",
            "Interpreter",
        ],
    ),
    ("jsLeaf", &["jsFib", INTERPRETER]),
    ("jsFib", &["jsFib", "jsMain", INTERPRETER]),
    ("jsHashes", &["jsMain", INTERPRETER]),
    ("jsParses", &["jsMain", INTERPRETER]),
    ("jsSorts", &["jsMain", INTERPRETER]),
    ("jsMain", &[INTERPRETER]),
    // By versions: a builtin calls it, or C++ that a builtin has called.
    (
        "node::crypto::Hash::HashDigest",
        &[
            "Builtins_CallApiCallback",
            "Builtins_CallApiCallbackGeneric",
            "Builtins_CallApiCallbackOptimizedNoProfiling",
            "v8::internal::FunctionCallbackArguments::Call",
        ],
    ),
];
/// What runs functions of JavaScript that no compiler has seen.
const INTERPRETER: &str = "Builtins_InterpreterEntryTrampoline";
/// The outermost functions of whole stacks.
const ROOTS: [&str; 10] = [
    "_start",
    "clone3",
    "__clone3",
    "runtime.goexit",
    "runtime.mstart",
    "runtime.mcall",
    "runtime.morestack",
    "runtime.clone",
    "runtime.rt0_go",
    "_rt0_amd64_linux",
];

/// What only the outermost function calls: in stripped programs it has no name.
const CALLED_BY_ROOTS: [&str; 3] = ["__libc_start_main", "__libc_start_main_impl", "_dl_start"];

/// How the kernel's functions begin that are called from user code. A stack that begins with one has no user
/// part: the thread has ended, and its memory is gone.
const ENTRIES: [&str; 2] = ["entry_SYSCALL", "asm_"];

/// Ends of walks where the recording has no more of the stack.
const NOT_COPIED: [&str; 3] = [
    "the copy of the stack ended",
    "the copy of the stack ended at a page that was not there",
    "the program switched stacks, and the one before was not copied",
];

/// What samples say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    samples: u64,
    rooted: u64,
    /// Samples whose walk ended where the recording has no more of the stack. `None`: the profiler does not
    /// say.
    not_copied: Option<u64>,
    /// Samples with a wrong edge.
    wrong: u64,
    /// The first wrong edge of each sample, and how often it was seen.
    edges: BTreeMap<String, u64>,
}

impl Verdict {
    /// Adds a stack, outermost function first.
    fn add(&mut self, functions: &[&str], count: u64) {
        let functions: Vec<String> = functions.iter().map(|function| plain(function)).collect();
        let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
        if functions.first().is_some_and(|first| ENTRIES.iter().any(|entry| first.starts_with(entry))) {
            return;
        }
        self.samples += count;
        self.rooted += if is_rooted(&functions) { count } else { 0 };
        let is_wrong = |edge: &&[&str]| match edge {
            [caller, callee] => {
                let known = CALLERS.iter().find(|(function, _)| function == callee);
                known.is_some_and(|(_, callers)| !callers.contains(caller))
            }
            _ => false,
        };
        if let Some([caller, callee]) = functions.windows(2).find(is_wrong) {
            self.wrong += count;
            *self.edges.entry(format!("{caller} calls {callee}")).or_default() += count;
        }
    }

    /// What folded stacks say: a line for each stack, with the thread's name first and the count behind it.
    fn of_folded(text: &str) -> Self {
        let mut verdict = Self::default();
        for line in text.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else { continue };
            let functions: Vec<&str> = stack.split(';').skip(1).collect();
            verdict.add(&functions, count.parse().unwrap_or(0));
        }
        verdict
    }

    /// What the text of `perf script` says: a line for each frame, innermost first, and an empty line behind
    /// each sample.
    fn of_script(text: &str) -> Self {
        let mut verdict = Self::default();
        for sample in text.split("\n\n") {
            let frames = sample.lines().filter(|line| line.starts_with('\t'));
            let name = |line: &str| {
                let name = line.split_whitespace().nth(1).unwrap_or_default();
                name.rsplit_once("+0x").map_or(name, |(name, _)| name).to_owned()
            };
            let functions: Vec<String> = frames.map(name).collect();
            let functions: Vec<&str> = functions.iter().rev().map(String::as_str).collect();
            if !functions.is_empty() {
                verdict.add(&functions, 1);
            }
        }
        verdict
    }

    /// What folded stacks say, and what `--stats=json` says of the ends of walks.
    fn of_stats(folded: &str, stats: &str) -> Self {
        let report: serde_json::Value = stats
            .lines()
            .find_map(|line| serde_json::from_str(line).ok().filter(serde_json::Value::is_object))
            .unwrap_or_default();
        let count = |end: &str| report["ends"][end].as_u64().unwrap_or(0);
        let not_copied = Some(NOT_COPIED.into_iter().map(count).sum());
        Self { not_copied, ..Self::of_folded(folded) }
    }

    fn shares(&self) -> String {
        let share = |part: u64| 100.0 * part as f64 / self.samples.max(1) as f64;
        let not_copied = self.not_copied.map_or(String::new(), |part| format!(" | {:.1} %", share(part)));
        format!("{} | {:.1} %{not_copied} | {:.2} %", self.samples, share(self.rooted), share(self.wrong))
    }
}

/// Whether a stack is whole, outermost function first.
fn is_rooted(functions: &[&str]) -> bool {
    let is_nameless = |name: &str| name.contains("+0x") || name.starts_with("0x") || name == "[unknown]";
    match functions {
        [first, ..] if ROOTS.contains(first) => true,
        [first, second, ..] => is_nameless(first) && CALLED_BY_ROOTS.contains(second),
        _ => false,
    }
}

/// The name of a function without its version, without what compilers add to those of its parts, without the
/// hash that Go puts into the names of functions between it and C, of a method without its types, and of a
/// function of JavaScript without the compiler and the file.
fn plain(function: &str) -> String {
    let script = ["JS:", "LazyCompile:"].into_iter().find_map(|start| function.strip_prefix(start));
    if let Some(script) = script {
        let name = script.trim_start_matches(['~', '^', '+', '*', '`', '\'']);
        return name.split(' ').next().unwrap_or(name).to_owned();
    }
    let with_types = function.strip_suffix(')').and_then(|name| name.split_once('('));
    if let Some((method, _)) = with_types.filter(|(method, _)| !method.ends_with(' ')) {
        return method.rsplit(' ').next().unwrap_or(method).to_owned();
    }
    let end = ["@@", ".cold", ".part.", ".constprop.", ".isra.", ".abi0"];
    let end = end.iter().filter_map(|end| function.find(end)).min();
    let name = end.map_or(function, |end| &function[..end]);
    let hashed = ["_cgo_", "_cgoexp_"].into_iter().find_map(|start| {
        let (hash, rest) = name.strip_prefix(start)?.split_once('_')?;
        let is_hash = hash.len() == 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| format!("{start}{rest}"))
    });
    hashed.unwrap_or_else(|| name.to_owned())
}

/// Samples the programs and judges their stacks.
pub fn call_graphs(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let perf = output(Command::new("perf").arg("--version"));
    let Ok(perf) = perf else { return proof.note("perf is not to be had: nothing was recorded") };
    for (name, text) in SOURCES {
        std::fs::write(proof.folder.join(name), text)?;
    }
    proof.note(format!("{}, cpu-clock at 499 Hz, 32 KiB of stack for each sample\n", perf.trim()))?;
    proof.note(
        "| program | sframe stacks: samples | rooted | not copied | wrong | sframe record: samples | rooted | not copied | wrong \
         | sframe record --no-bpf: samples | rooted | not copied | wrong | perf script: samples | rooted | wrong |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    )?;
    let (mut edges, mut wrong) = (String::new(), 0);
    for (number, program) in PROGRAMS.iter().enumerate() {
        let path = format!("./program{number}");
        if let Err(error) = build(proof, program, &path) {
            proof.note(format!("| {} | not to be had: {error} |", program.name))?;
            continue;
        }
        let mut cells = Vec::new();
        for (profiler, verdict) in sampled(proof, sframe, &path)? {
            let Some(verdict) = verdict else {
                cells.push(if profiler == "perf" { "- | - | -" } else { "- | - | - | -" }.to_owned());
                continue;
            };
            cells.push(verdict.shares());
            wrong += if profiler == "perf" { 0 } else { verdict.wrong };
            for (edge, count) in &verdict.edges {
                edges.push_str(&format!("- {}, {profiler}: {count} times {edge}\n", program.name));
            }
        }
        proof.note(format!("| {} | {} |", program.name, cells.join(" | ")))?;
    }
    proof.note(format!(
        "\nSamples: those with a user part. Wrong: samples in which a function of the program has a caller that its source does not have. \
         Rooted: the outermost function is one of {}, or has no name and calls one of {}. Not copied: walks that ended where the recording has no more of the stack. `sframe stacks` and perf script read the recording \
         of perf; `sframe record` runs as people run it, at 997 Hz. The kernel copies the top of one stack for a sample: of a handler with a stack \
         of its own, not the interrupted one; of Go, not the goroutine's while the thread runs C, the clock or the runtime on its own: such samples \
         end with the function that goes there, and a larger copy would not help. The program in the kernel reads both.\n\n\
         ## Wrong edges\n\n{}",
        ROOTS.join(", "),
        CALLED_BY_ROOTS.join(", "),
        if edges.is_empty() { "none\n" } else { &edges }
    ))?;
    ensure!(wrong == 0, "{wrong} samples of sframe have a wrong edge");
    Ok(())
}

fn build(proof: &Proof, program: &Program, path: &str) -> Result<()> {
    let [compiler, arguments @ ..] = program.build else { return Ok(()) };
    let output = ["-o", path];
    if *compiler == "java" {
        proof.tool("javac", &["Calls.java"])?;
        let line = format!("#!/bin/sh\nexec java {} -cp . Calls\n", arguments.join(" "));
        std::fs::write(proof.folder.join(path), line)?;
        return proof.tool("chmod", &["+x", path]).map(drop);
    }
    if *compiler == "run" {
        std::fs::write(proof.folder.join(path), format!("#!/bin/sh\nexec {}\n", arguments.join(" ")))?;
        let available = format!("command -v {}", arguments.first().unwrap_or(&""));
        return proof
            .tool("sh", &["-c", &available])
            .and_then(|_| proof.tool("chmod", &["+x", path]))
            .map(drop);
    }
    if *compiler == "go" {
        let [build, rest @ ..] = arguments else { return Ok(()) };
        let words = [&[*build], &output[..], rest].concat();
        return proof.tool(peers::program("go")?, &words).map(drop);
    }
    proof.tool(compiler, &[arguments, &output].concat()).map(drop)
}

/// The verdicts of each profiler. `None`: it cannot sample here.
fn sampled(proof: &Proof, sframe: &Path, program: &str) -> Result<[(&'static str, Option<Verdict>); 4]> {
    let sframe = sframe.canonicalize()?;
    let record = "record -q -e cpu-clock -F 499 --call-graph dwarf,32768 -o perf.data --";
    proof.tool("perf", &record.split(' ').chain([program]).collect::<Vec<_>>())?;
    let with_stats = ["--format", "folded", "-o", "live.folded", "--stats=json"];
    let run = |words: &[&str], last: &[&str]| {
        let mut command = Command::new(&sframe);
        let command = command.current_dir(&proof.folder).args(words).args(with_stats).args(last);
        let said = command.output()?;
        ensure!(said.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said.stderr));
        let folded = std::fs::read_to_string(proof.folder.join("live.folded"))?;
        Ok(Verdict::of_stats(&folded, &String::from_utf8_lossy(&said.stderr)))
    };
    let script = proof.tool("perf", &["script", "--no-inline", "-i", "perf.data"]).ok();
    Ok([
        ("sframe stacks", Some(run(&["stacks", "perf.data"], &[])?)),
        ("sframe record", run(&["record"], &["--", program]).ok()),
        ("sframe record --no-bpf", run(&["record", "--no-bpf"], &["--", program]).ok()),
        ("perf", script.map(|text| Verdict::of_script(&text))),
    ])
}

#[cfg(test)]
mod tests {
    use super::{NOT_COPIED, Verdict, is_rooted, plain};

    #[test]
    fn wrong_callers_and_roots_are_counted() {
        let verdict = Verdict::of_folded(
            "prog;_start;main;divided.cold;rare;leaf 3\nprog;_start;tail;rare;leaf 2\nprog;leaf 1\nprog;0x1234;deep;leaf 1\n\
             prog;entry_SYSCALL_64_after_hwframe;do_syscall_64;do_exit 4\n",
        );
        assert_eq!((verdict.samples, verdict.rooted, verdict.wrong), (7, 5, 3));
        assert_eq!(
            verdict.edges.keys().map(|edge| &**edge).collect::<Vec<_>>(),
            ["0x1234 calls deep", "_start calls tail"]
        );
        let stats = format!(
            "sframe: warning: {{\n{{\"samples\":7,\"ends\":{{\"{}\":2,\"other\":1}}}}\n",
            NOT_COPIED[1]
        );
        let verdict = Verdict::of_stats("prog;leaf 7\n", &stats);
        assert_eq!((verdict.samples, verdict.rooted, verdict.not_copied), (7, 0, Some(2)));
        assert_eq!(plain("JS:*fib /p/Calls.js:3:1"), "fib");
        assert_eq!(plain("__libc_start_main@@GLIBC_2.34"), "__libc_start_main");
        assert_eq!(plain("node::Hash::Digest(v8::Info<v8::Value> const&)"), "node::Hash::Digest");
        assert!(is_rooted(&["openssl+0x22a10", "__libc_start_main", "main"]) && is_rooted(&["_start"]));
        assert!(!is_rooted(&["openssl+0x22a10", "main"]) && !is_rooted(&["main", "_dl_start"]));
        let script = "prog 7 1.0: 1 cpu-clock:\n\t 401 leaf+0x1 (/p)\n\t 402 main+0x2 (/p)\n\nprog 7 2.0: 1 cpu-clock:\n\t 401 one+0x1 (/p)\n";
        let verdict = Verdict::of_script(script);
        assert_eq!((verdict.samples, verdict.rooted, verdict.wrong), (2, 0, 1));
    }
}
