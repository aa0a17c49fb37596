//! Fuzzes every target for a while, keeps the few inputs that reach most code, and records the results.
//!
//! A run starts with the kept corpus and with seeds that are taken from the fixtures again. The tests replay
//! and mutate the kept corpus without a fuzzer, so a minute of the same goes into every run of the tests. If
//! a target fails, that counts too: until a run without a failure, its row has the failure with its time and
//! inputs.

mod keep;

use crate::commands::first_line;
use crate::folders::files;
use crate::prove::mutants::damage::Numbers;
use crate::{children, records};
use anyhow::{Context, Result, anyhow, ensure};
use object::{Object, ObjectSection};
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest input in bytes.
const LONGEST: usize = 8192;
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Targets that run at the same time.
const AT_A_TIME: usize = 2;

#[derive(clap::Args)]
pub struct Arguments {
    /// Targets (all if none)
    names: Vec<String>,
    /// Time for each target
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// Time for all targets together, shared between them, in place of --seconds
    #[arg(long, value_name = "HOURS", conflicts_with = "seconds")]
    hours: Option<f64>,
    /// Do not write to tests/proofs
    #[arg(long)]
    no_record: bool,
}

/// A fuzz target.
#[derive(Clone, Copy)]
struct Target {
    name: &'static str,
    /// The folder of the package that is fuzzed; its `fuzz/` contains the target.
    package: &'static str,
    what: &'static str,
    seeds: fn(&[u8]) -> Vec<Vec<u8>>,
}

const FORMAT: &str = "crates/sframe-format";
const TARGETS: [Target; 13] = [
    Target { name: "read", package: FORMAT, what: "reader and verifier", seeds: sections },
    Target { name: "look_up", package: FORMAT, what: "look-up and steps", seeds: sections },
    Target { name: "convert", package: FORMAT, what: "converter and writer", seeds: sections },
    Target { name: "patch", package: FORMAT, what: "patching in place", seeds: sections },
    Target { name: "compact", package: FORMAT, what: "compact tables", seeds: sections },
    Target {
        name: "derive",
        package: FORMAT,
        what: "derivation from `.eh_frame`",
        seeds: call_frame_information,
    },
    Target {
        name: "object",
        package: ".",
        what: "the linker's readers of objects and archives",
        seeds: whole,
    },
    // No fixture is a description of a link, but any bytes are one.
    Target { name: "link", package: ".", what: "whole links", seeds: patternless },
    Target { name: "debug", package: ".", what: "indexes of damaged debug information", seeds: patternless },
    Target {
        name: "script",
        package: ".",
        what: "linker scripts, version scripts and lists",
        seeds: |_| Vec::new(),
    },
    Target {
        name: "tool",
        package: ".",
        what: "core files, and splitting of what assemblers write",
        seeds: whole,
    },
    Target {
        name: "reduce",
        package: ".",
        what: "objects and archives in the reducer of `ld-compare`",
        seeds: whole,
    },
    // The kept inputs are recordings; no fixture is one.
    Target { name: "recording", package: ".", what: "recordings of perf", seeds: |_| Vec::new() },
];

/// The results for a target.
struct Seen {
    target: Target,
    processor_time: Duration,
    executions: u64,
    coverage: u64,
    kept: usize,
    /// Why the run ended early, if it did.
    failure: Option<anyhow::Error>,
}

impl Seen {
    /// The row of the record, which adds this run to the earlier ones.
    fn row(&self, date: &str, before: Option<&str>) -> String {
        let Seen { target: Target { name, what, .. }, executions, coverage, kept, .. } = self;
        let (seconds_before, inputs_before) = sums(before);
        let seconds = seconds_before + self.processor_time.as_secs();
        let inputs = inputs_before + executions;
        // A run ends with its first failure.
        let failures = u8::from(self.failure.is_some());
        format!("| {name} | {what} | {date} | {seconds} | {inputs} | {coverage} | {failures} | {kept} |")
    }
}

pub fn run(arguments: Arguments) -> Result<()> {
    let chosen = |t: &&Target| arguments.names.is_empty() || arguments.names.iter().any(|n| n == t.name);
    let targets: Vec<Target> = TARGETS.iter().filter(chosen).copied().collect();
    ensure!(!targets.is_empty(), "no such target");
    for package in [FORMAT, "."] {
        if targets.iter().any(|t| t.package == package) {
            build(package)?;
        }
    }
    let seconds = arguments.hours.map_or(arguments.seconds, |hours| share(hours, targets.len()));
    let (mut seen, mut failures) = (Vec::new(), Vec::new());
    for batch in targets.chunks(AT_A_TIME) {
        let results: Vec<Result<Seen>> = std::thread::scope(|scope| {
            let fuzz = |target| scope.spawn(move || fuzz(target, seconds));
            let running: Vec<_> = batch.iter().map(|&target| fuzz(target)).collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for result in results {
            match result {
                Ok(target) => {
                    failures.extend(target.failure.as_ref().map(|failure| format!("{failure:#}")));
                    seen.push(target);
                }
                Err(failure) => failures.push(format!("{failure:#}")),
            }
        }
    }
    let record = record(&seen, &std::fs::read_to_string(records::path("fuzz")).unwrap_or_default())?;
    print!("{}", records::shown(&record));
    if !arguments.no_record {
        records::write("fuzz", &record)?;
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

/// Seconds for each of these targets if all of them together may run for these hours.
fn share(hours: f64, targets: usize) -> u32 {
    let batches = targets.div_ceil(AT_A_TIME).max(1);
    (hours * 3600.0 / batches as f64).ceil() as u32
}

fn fuzz(target: Target, seconds: u32) -> Result<Seen> {
    let kept = crate::folders::workspace().join(target.package).join("fuzz/corpus").join(target.name);
    let work = crate::folders::target().join("fuzz").join(target.name);
    let _ = std::fs::remove_dir_all(&work);
    let corpus = work.join("corpus");
    for folder in [&corpus, &kept] {
        std::fs::create_dir_all(folder)?;
    }
    for (number, seed) in seeds(target)?.iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{number}")), seed)?;
    }
    for (number, path) in files(&kept)?.iter().enumerate() {
        std::fs::copy(path, corpus.join(format!("kept-{number}")))?;
    }
    let corpus = corpus.canonicalize()?;
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-max_len={LONGEST}"),
        // If a run takes long, a length that grows with the number of runs would stay at a few bytes.
        "-len_control=0".into(),
        // libFuzzer can weigh inputs by how rare their edges are. For links that takes longer than the link
        // itself, because each reaches tens of thousands of edges.
        format!("-entropic={}", u8::from(target.name != "link")),
        "-timeout=10".into(),
        // A thread of a link that is about to end looks like a leak.
        "-detect_leaks=0".into(),
        "-print_final_stats=1".into(),
    ];
    let mut words: Vec<&str> = vec![text(&corpus)?];
    words.extend(limits.iter().map(String::as_str));
    let Ran { said, processor_time, mut failure } = run_target(target, &words)?;
    if failure.is_none() {
        failure = choose(target, &work, &corpus, &kept, &limits[1]).err();
    }
    Ok(Seen {
        target,
        processor_time,
        executions: number(&said, "number_of_executed_units:"),
        coverage: number(&said, " cov:"),
        kept: files(&kept)?.len(),
        failure,
    })
}

/// Replaces the kept inputs by the best ones of a corpus.
fn choose(target: Target, work: &Path, corpus: &Path, kept: &Path, limit: &str) -> Result<()> {
    let control = work.join("merge");
    let noted = format!("-merge_control_file={}", text(&control)?);
    keep::begin(&control, &files(corpus)?)?;
    // This is the inner step of a merge, which takes a minimal set. With many inputs, the outer step takes
    // longer than the fuzzing.
    if let Some(failure) = run_target(target, &["-merge_inner=2", &noted, limit])?.failure {
        return Err(failure);
    }
    keep::keep(&control, kept)?;
    Ok(())
}

/// The last number after a mark in what libFuzzer printed. libFuzzer prints it even if the run fails.
fn number(said: &str, mark: &str) -> u64 {
    let rest = said.rsplit_once(mark).map(|(_, rest)| rest.trim_start());
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}

/// Builds all targets of a package.
fn build(package: &str) -> Result<()> {
    let mut command = Command::new("cargo");
    command.current_dir(crate::folders::workspace().join(package)).args(["+nightly", "fuzz", "build"]);
    command.env("CARGO_TARGET_DIR", built()?);
    let failure = ran(&mut command)?.failure;
    failure.map_or(Ok(()), |failure| Err(failure.context("a nightly compiler and cargo-fuzz are needed")))
}

/// The folder that the targets are built in.
fn built() -> Result<PathBuf> {
    let folder = crate::folders::target().join("fuzz/build");
    std::fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

/// Runs a target as it was built, even if the sources have changed since. If it fails, the failure contains
/// the input, which is kept.
fn run_target(target: Target, words: &[&str]) -> Result<Ran> {
    let artifacts = crate::folders::target().join("fuzz").join(target.name).join("failures/");
    std::fs::create_dir_all(&artifacts)?;
    // cargo-fuzz builds for a machine that it is told.
    let program = built()?.join(TRIPLE).join("release").join(target.name);
    let mut command = Command::new(program);
    command.args(words).arg(format!("-artifact_prefix={}", text(&artifacts)?));
    let name = || format!("target {}", target.name);
    let mut ran = ran(&mut command).with_context(name)?;
    ran.failure = ran.failure.map(|failure| failure.context(name()));
    Ok(ran)
}

/// How a command ended.
struct Ran {
    /// Its standard error.
    said: String,
    processor_time: Duration,
    /// How it failed, if it did, with the end of its messages.
    failure: Option<anyhow::Error>,
}

/// Runs a command.
fn ran(command: &mut Command) -> Result<Ran> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start")?;
    let mut said = Vec::new();
    child.stderr.take().context("standard error is piped")?.read_to_end(&mut said)?;
    let (status, usage) = children::wait(child);
    let said = String::from_utf8_lossy(&said).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let end = || lines[lines.len().saturating_sub(60)..].join("\n");
    let failure = (!status.success()).then(|| anyhow!("{status}:\n{}", end()));
    Ok(Ran { said, processor_time: children::processor_time(&usage), failure })
}

/// The seeds of a target: from each ELF file of the fixtures, the part that the target reads.
fn seeds(target: Target) -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    for folder in std::fs::read_dir(crate::folders::workspace().join("tests/fixtures/sframe"))?.flatten() {
        if !folder.path().is_dir() {
            continue;
        }
        for path in files(&folder.path())? {
            let bytes = std::fs::read(&path)?;
            if bytes.starts_with(b"\x7fELF") {
                seeds.extend((target.seeds)(&bytes));
            }
        }
    }
    seeds.retain(|seed| seed.len() <= LONGEST);
    seeds.sort();
    seeds.dedup();
    Ok(seeds)
}

fn data<'data>(file: &object::File<'data>, prefix: &str) -> Vec<(u64, &'data [u8])> {
    let sections = file.sections().filter(|s| s.name().is_ok_and(|name| name.starts_with(prefix)));
    sections.filter_map(|s| Some((s.address(), s.data().ok()?))).collect()
}

/// Each `.sframe` section, with its address before it.
fn sections(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    let found = data(&file, ".sframe").into_iter();
    found.map(|(address, data)| [&address.to_le_bytes(), data].concat()).collect()
}

/// Each `.eh_frame`, with a byte before it that chooses the ABI.
fn call_frame_information(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    let abi = match file.architecture() {
        object::Architecture::Aarch64 => 1,
        object::Architecture::S390x => 3,
        _ => 2,
    };
    data(&file, ".eh_frame").into_iter().map(|(_, data)| [&[abi], data].concat()).collect()
}

fn whole(bytes: &[u8]) -> Vec<Vec<u8>> {
    vec![bytes.to_vec()]
}

/// Bytes without a pattern, always the same for a file.
fn patternless(bytes: &[u8]) -> Vec<Vec<u8>> {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut numbers = Numbers::new(bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash));
    vec![(0..512).map(|_| (numbers.next() >> 32) as u8).collect()]
}

/// Seconds and inputs of the earlier runs of a target, from its row.
fn sums(row: Option<&str>) -> (u64, u64) {
    let cells: Vec<&str> = row.unwrap_or_default().split('|').map(str::trim).collect();
    let number = |cell: usize| cells.get(cell).and_then(|text| text.parse().ok()).unwrap_or(0);
    (number(4), number(5))
}

/// The record: a row for each target, with the sums of all runs that it took part in.
fn record(seen: &[Seen], before: &str) -> Result<String> {
    let mut record = "# `cargo xtask fuzz`\n\n".to_owned();
    let date = records::today()?.0;
    let fuzzer = first_line(Command::new("cargo").args(["fuzz", "--version"]))?;
    let compiler = first_line(Command::new("rustc").args(["+nightly", "--version"]))?;
    writeln!(record, "sframe-ld {}, {fuzzer}, {compiler}\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(
        record,
        "With AddressSanitizer, debug assertions and overflow checks, {AT_A_TIME} targets at a time on a machine that has\n\
         other work too. A crash, an assertion that fails, or ten seconds for one input is a failure and ends a run.\n"
    )?;
    writeln!(
        record,
        "Seconds are processor time. They and the inputs are those of all runs together, up to the last one of that date. Failures\n\
         are those of that last run: the row has one until a run without it.\n"
    )?;
    writeln!(record, "| target | what | date | seconds | inputs | edges covered | failures | inputs kept |")?;
    writeln!(record, "|---|---|---|---:|---:|---:|---:|---:|")?;
    for target in TARGETS {
        let start = format!("| {} |", target.name);
        let row = before.lines().find(|line| line.starts_with(&start));
        if let Some(seen) = seen.iter().find(|seen| seen.target.name == target.name) {
            writeln!(record, "{}", seen.row(&date, row))?;
        } else if let Some(row) = row {
            writeln!(record, "{row}")?;
        }
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up_and_hours_are_shared() {
        let row = "| read | reader and verifier | 2026-11-21 | 600 | 1971546 | 1711 | 0 | 200 |";
        assert_eq!(sums(Some(row)), (600, 1_971_546));
        assert_eq!(sums(None), (0, 0));
        // Nine targets, two at a time, make five batches.
        assert_eq!(share(1.0, 9), 720);
    }

    /// Once, a run that failed left no row, and its inputs were lost; a row said 0 whatever happened.
    #[test]
    fn a_run_that_fails_is_in_the_record() {
        let script = "echo '#9 NEW cov: 70 ft: 80'; echo 'stat::number_of_executed_units: 54'; exit 77";
        let ran = ran(Command::new("sh").args(["-c", &format!("({script}) >&2")])).unwrap();
        let failure = ran.failure.as_ref().map(ToString::to_string).unwrap();
        assert!(failure.contains("77") && failure.contains("executed_units: 54"), "{failure}");
        let mut seen = Seen {
            target: TARGETS[0],
            processor_time: Duration::from_secs(60),
            executions: number(&ran.said, "number_of_executed_units:"),
            coverage: number(&ran.said, " cov:"),
            kept: 3,
            failure: ran.failure,
        };
        let before = "| read | reader and verifier | 2026-11-21 | 600 | 100 | 1711 | 0 | 200 |";
        let failed = seen.row("2026-11-22", Some(before));
        assert_eq!(failed, "| read | reader and verifier | 2026-11-22 | 660 | 154 | 70 | 1 | 3 |");
        seen.failure = None;
        let fixed = seen.row("2026-11-23", Some(&failed));
        assert_eq!(fixed, "| read | reader and verifier | 2026-11-23 | 720 | 208 | 70 | 0 | 3 |");
    }
}
