//! Proves unwinding in the kernel: the BPF program and user space unwind the same samples of running
//! programs.
//!
//! `in_kernel` is an example of `crates/stacks`. It makes events run the program and then take their usual
//! sample too, with registers and a copy of the stack, and compares the two. The kernel measures what the
//! program costs (`bpf_stats_enabled`). The program's tables are also encoded in the way of OpenTelemetry's
//! profiler, to compare sizes.

use super::compact::stack_deltas;
use super::proof::Proof;
use crate::commands::{first_line, output};
use anyhow::{Context, Result};
use serde_json::Value;
use sframe_format::CompactTable;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Workload {
    name: &'static str,
    command: &'static [&'static str],
}

const WORKLOADS: [Workload; 8] = [
    Workload { name: "C++, deep recursion", command: &["./deep"] },
    Workload { name: "C++, exceptions and signals", command: &["./throws"] },
    Workload { name: "C, static, not position-independent", command: &["./static"] },
    Workload { name: "Rust", command: &["./rust"] },
    Workload { name: "python", command: &["/usr/bin/python3", "work.py"] },
    Workload { name: "node", command: &["node", "work.js"] },
    Workload { name: "Java", command: &["java", "-XX:+PreserveFramePointer", "Work"] },
    Workload { name: "Java, without frame pointers", command: &["java", "Work"] },
];

const DEEP: &str = "#include <algorithm>\n#include <cstdio>\n#include <string>\n#include <vector>\n\
    struct Link { Link *next; virtual long go(int n, long a) = 0; virtual ~Link() {} };\n\
    struct A : Link { long go(int n, long a) override; };\nstruct B : Link { long go(int n, long a) override; };\n\
    __attribute__((noinline)) long A::go(int n, long a) { std::string s(n % 40, 'x'); return n ? next->go(n - 1, a + s.size()) + 1 : a; }\n\
    __attribute__((noinline)) long B::go(int n, long a) { volatile char room[48]; room[n % 48] = 1; if (n) return next->go(n - 1, a * 3) + room[n % 48];\n\
      std::vector<int> v(4000); for (size_t i = 0; i < v.size(); i++) v[i] = (a * 7919 + i * 31) % 1000; std::sort(v.begin(), v.end()); return v[3]; }\n\
    int main() { A a; B b; a.next = &b; b.next = &a; long sum = 0; for (int i = 0; i < 40000; i++) sum += a.go(21 + i % 480, i); printf(\"%ld\\n\", sum); }\n";
const STATIC: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }\n\
    int main(void) { for (int r = 0; r < 150; r++) { enum { N = 20000 }; char **all = malloc(N * sizeof *all);\n\
    for (int i = 0; i < N; i++) { all[i] = malloc(24); snprintf(all[i], 24, \"%d\", (i * 7919) % N); }\n\
    qsort(all, N, sizeof *all, compare); for (int i = 0; i < N; i++) free(all[i]); free(all); } }\n";
const RUST: &str = "use std::collections::{BTreeMap, HashMap};\n\
    trait Node { fn sum(&self) -> u64; }\nstruct Leaf(u64);\nstruct Inner(Vec<Box<dyn Node>>);\n\
    impl Node for Leaf { fn sum(&self) -> u64 { format!(\"{}\", self.0).bytes().map(u64::from).sum() } }\n\
    impl Node for Inner { fn sum(&self) -> u64 { self.0.iter().map(|node| node.sum()).sum() } }\n\
    fn tree(depth: u64) -> Box<dyn Node> { if depth == 0 { return Box::new(Leaf(depth * 7)); } Box::new(Inner((0..3).map(|_| tree(depth - 1)).collect())) }\n\
    fn main() { let mut all = 0; let threads: Vec<_> = (0..2u64).map(|t| std::thread::spawn(move || { let mut all = 0; for round in 0..30 {\n\
    all += tree(10).sum(); let map: HashMap<String, u64> = (0..20000u64).map(|i| (format!(\"k{}\", i * round + t), i)).collect();\n\
    let sorted: BTreeMap<_, _> = map.into_iter().collect(); all += sorted.values().sum::<u64>(); } all })).collect();\n\
    for thread in threads { all += thread.join().unwrap(); } println!(\"{all}\"); }\n";
const JAVA: &str = "import java.util.*;\npublic class Work {\n\
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n\
    static long work(int round) { Map<String, Integer> map = new HashMap<>();\n\
    for (int i = 0; i < 20000; i++) map.merge(\"k\" + (i * round % 5000), i, Integer::sum);\n\
    List<String> keys = new ArrayList<>(map.keySet()); Collections.sort(keys); return keys.get(0).hashCode() + fib(24); }\n\
    public static void main(String[] words) { long sum = 0; for (int i = 0; i < 1500; i++) sum += work(i); System.out.println(sum); } }\n";

const HEAD: &str = "| recording | samples that both have | equal stacks | after half a second | frames of the deepest | ns a sample in the kernel | ns a frame | frames a sample | tables | bytes of tables | memory of their maps | stack deltas | slack of their maps |\n\
    |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

pub fn bpf(proof: &mut Proof) -> Result<()> {
    let program = build()?;
    prepare(proof)?;
    let clang = std::fs::read_to_string(crate::folders::workspace().join("examples/bpf/unwind.bpf.txt"))?;
    proof.note(format!(
        "Linux {}, {}; the program is compiled by {}. cpu-clock at 997 Hz, 64 KiB of stack for each sample in user space\n",
        first_line(Command::new("uname").arg("-r"))?,
        processor(),
        clang.lines().nth(1).unwrap_or_default()
    ))?;
    proof.note(HEAD)?;
    let mut reasons = String::new();
    for workload in &WORKLOADS {
        let folder = proof.folder.join("tables").join(workload.name.replace([' ', ',', '+'], "-"));
        // Otherwise those of an earlier run would count.
        let _ = std::fs::remove_dir_all(&folder);
        let mut command = Command::new(&program);
        command.current_dir(&proof.folder).arg(&folder).args(workload.command);
        let said = output(&mut command).with_context(|| workload.name)?;
        let report: Value = serde_json::from_str(said.lines().last().unwrap_or_default())?;
        proof.note(line(workload.name, &report, &folder)?)?;
        for (reason, count) in report["reasons"].as_object().into_iter().flatten() {
            reasons.push_str(&format!("- {}: {count}: {reason}\n", workload.name));
        }
        let (single, lost) = (&report["single"], &report["lost"]);
        reasons.push_str(&format!("- {}: {single} samples of one kind alone, {lost} lost\n", workload.name));
    }
    proof.note(format!(
        "\nEqual: the same addresses, and both at the root or both not. The time is all that the program does at a sample: frames of the kernel, the walk, \
         the ring. The tables of a program and of the libraries that it is linked with are there when it starts. That of any other file is handed over after \
         the first sample that was unwound in user space has passed through the file, so the kernel has none for its first samples; the next column leaves out the first half of a second. Code that a program made while it ran is left by its frame pointer on both sides, but for Java's, which user space leaves by what the virtual machine says of it, \
         and the program in the kernel not at all. Stack deltas are those of `prove compact`, of the same tables.\n\n## Why stacks are not equal\n\n{reasons}"
    ))
}

fn line(name: &str, report: &Value, folder: &Path) -> Result<String> {
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    let (mut tables, mut deltas) = (0, stack_deltas::Sizes::default());
    for table in report["tables"].as_array().into_iter().flatten() {
        let bytes = std::fs::read(folder.join(table.as_str().unwrap_or_default()))?;
        let table = CompactTable::parse(&bytes[..], 0).map_err(|error| anyhow::anyhow!("{error}"))?;
        let sizes = stack_deltas::sizes(&table)?;
        tables += 1;
        deltas.used += sizes.used;
        deltas.slack += sizes.slack;
    }
    let of = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    let share = |counted: &Value| match counted["pairs"].as_u64() {
        // A program that ends within half a second has none afterwards.
        None | Some(0) => "none".to_owned(),
        Some(pairs) => format!("{:.2} %", 100.0 * of(counted["equal"].as_u64().unwrap_or(0), pairs)),
    };
    Ok(format!(
        "| {name} | {} | {} | {} | {} | {:.0} | {:.1} | {:.1} | {tables} | {} | {} | {} | {} |",
        number("pairs"),
        share(report),
        share(&report["later"]),
        number("deepest"),
        of(number("nanoseconds"), number("samples")),
        of(number("nanoseconds"), number("frames")),
        of(number("frames"), number("samples")),
        number("table_bytes"),
        number("table_memory"),
        deltas.used,
        deltas.slack,
    ))
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    name.unwrap_or("a processor without a name").trim_start_matches(['\t', ' ', ':']).to_owned()
}

/// Builds the program that compares. It is optimized, because the kernel has no table for a file until user
/// space has made it.
fn build() -> Result<PathBuf> {
    let mut command = Command::new("cargo");
    command.current_dir(crate::folders::workspace());
    output(command.args(["build", "--quiet", "--release", "-p", "stacks", "--example", "in_kernel"]))?;
    Ok(crate::folders::target().canonicalize()?.join("release/examples/in_kernel"))
}

/// Writes and builds the programs.
fn prepare(proof: &Proof) -> Result<()> {
    let files = [
        ("deep.cc", DEEP),
        ("throws.cc", super::stacks::THROWS),
        ("static.c", STATIC),
        ("rust.rs", RUST),
        ("work.py", super::stacks::PYTHON),
        ("work.js", super::stacks::NODE),
        ("Work.java", JAVA),
    ];
    for (name, text) in files {
        std::fs::write(proof.folder.join(name), text)?;
    }
    proof.tool("g++", &["-O2", "-o", "deep", "deep.cc"])?;
    proof.tool("g++", &["-O2", "-o", "throws", "throws.cc"])?;
    proof.tool("gcc", &["-O2", "-static", "-o", "static", "static.c"])?;
    proof.tool("rustc", &["-O", "-o", "rust", "rust.rs"])?;
    proof.tool("javac", &["Work.java"])?;
    Ok(())
}
