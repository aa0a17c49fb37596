//! Proves memory safety with sanitizers: the linker is built with AddressSanitizer and with ThreadSanitizer.
//! Then the tests run with it, and so do links of the benchmarks with several numbers of threads, whose
//! outputs must be the same.
//!
//! The sanitizers come with a nightly compiler. ThreadSanitizer has to see every access, including those of
//! Rust's standard library, so that is built with it. It does not know memory that the C library's allocator
//! did not give, so the linker is built without its own allocator. The reports of a sanitizer go to files. So
//! the messages of links are the usual ones, and tests that compare them pass.

use super::proof::Proof;
use super::threads;
use super::turns::prepared;
use crate::bench::workload::Workload;
use crate::commands::{first_line, output};
use crate::{folders, peers};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// A sanitizer.
struct Sanitizer {
    name: &'static str,
    /// The compiler's name for it.
    flag: &'static str,
    /// The environment variable with its options.
    variable: &'static str,
    options: &'static str,
    /// Options of cargo.
    build: &'static [&'static str],
    /// Options for the C compiler; the C libraries get the sanitizer, too.
    c_options: &'static str,
    /// Reports that are no fault: what suppresses them, and why.
    suppressed: &'static [(&'static str, &'static str)],
}

/// How the names of tests start that cannot pass with a sanitizer, and why.
const UNFIT: &[(&str, &str)] = &[
    ("faults::a_link_that_runs_out_of_memory_says_so", "it limits memory, which shadow memory exceeds"),
    ("faults::an_output_without_memory_is_an_error", "it limits memory"),
    ("faults::poor_surroundings_change_nothing_or_are_told", "it limits memory"),
    ("faults::any_system_call_may_fail", "calls of the sanitizer fail, too, which ends the process"),
    (
        "output_file::a_large_link_leaves_its_memory_to_a_process_that_ends",
        "no process is left in such a build",
    ),
    (
        "output_file::signals_at_any_moment_leave_nothing_behind",
        "ThreadSanitizer holds a signal back until the next call of the C library, which too few links make in time",
    ),
    (
        "pages::the_page_on_reporting_a_violation_works",
        "`ld-compare` limits the memory of the linkers that it runs",
    ),
    ("robust::links_under_valgrind", "valgrind and a sanitizer cannot both have the memory"),
];

const SANITIZERS: [Sanitizer; 2] = [
    Sanitizer {
        name: "AddressSanitizer",
        flag: "address",
        variable: "ASAN_OPTIONS",
        // The tests also test the command's own handlers for lost inputs and refused memory.
        options: "handle_segv=0:handle_sigbus=0:handle_abort=0:allocator_may_return_null=1",
        build: &[],
        // gcc 12 moves a read from a table on the stack of an inlined function (`ZSTD_selectBtGetAllMatches`)
        // to after the end of its scope, and the sanitizer reports that.
        c_options: "-fno-sanitize-address-use-after-scope",
        suppressed: &[],
    },
    Sanitizer {
        name: "ThreadSanitizer",
        flag: "thread",
        variable: "TSAN_OPTIONS",
        options: "handle_segv=0:handle_sigbus=0:handle_abort=0:allocator_may_return_null=1:halt_on_error=0:history_size=4",
        build: &["-Zbuild-std=std,panic_unwind"],
        c_options: "",
        suppressed: &[
            (
                "race:crossbeam_deque::deque",
                "rayon's queues of jobs: a thief reads a slot that its owner may write to, and looks afterwards whether what it read \
             counts (`Buffer::write` of crossbeam-deque says so)",
            ),
            (
                "race:libLLVM",
                "the plugin of clang and its threads, which are not built with the sanitizer: it sees their memory, and not their locks",
            ),
            (
                "race:libsframe_split",
                "the plugin that splits objects, for the same reason: GNU ld and gold load it, too",
            ),
        ],
    },
];

/// The sanitizer prints this if the process may not have as much memory as the sanitizer takes at its start.
const NO_ROOM: &str = "ReserveShadowMemoryRange failed";

/// The links to make, each with these options of the linker.
const WORKLOADS: [Workload; 3] = [Workload::Generated500, Workload::Rust, Workload::Database];
const OPTIONS: [&str; 5] = [
    "",
    "--sframe-from-eh-frame=missing --sframe-index",
    "--gc-sections --icf=all --print-gc-sections",
    "--gdb-index --compress-debug-sections=zstd",
    "--emit-relocs --sframe-index=compact --build-id=sha256",
];
const THREADS: [usize; 3] = [2, 3, 8];
/// How many links are made with the same options and the same number of threads.
const ROUNDS: usize = 2;

pub fn sanitizers(proof: &mut Proof) -> Result<()> {
    let compiler = first_line(Command::new("rustc").args(["+nightly", "--version"]))?;
    proof.note(format!("Built by {compiler}, optimised, with debug assertions and overflow checks.\n"))?;
    let mut wrong = Vec::new();
    for sanitizer in &SANITIZERS {
        proof.note(format!("## {}\n", sanitizer.name))?;
        let linker = build(proof, sanitizer)?;
        let bench =
            Bench { sanitizer, linker, reports: proof.folder.join(format!("{}-reports", sanitizer.flag)) };
        bench.prove(proof, &mut wrong)?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Builds the linker with a sanitizer.
fn build(proof: &Proof, sanitizer: &Sanitizer) -> Result<PathBuf> {
    let target = proof.folder.join(sanitizer.flag);
    let mut command = Command::new("cargo");
    command.current_dir(folders::workspace()).args([
        "+nightly",
        "build",
        "--quiet",
        "--release",
        "--no-default-features",
        "--bin",
        "sframe-ld",
        "--target",
        TRIPLE,
        "--target-dir",
    ]);
    command
        .arg(&target)
        .args(sanitizer.build)
        .env("CFLAGS", sanitizer.c_options)
        .env("RUSTFLAGS", format!("-Zsanitizer={} -Cforce-frame-pointers=yes", sanitizer.flag));
    for (setting, value) in [("OPT_LEVEL", "1"), ("DEBUG_ASSERTIONS", "true"), ("OVERFLOW_CHECKS", "true")] {
        command.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
    }
    output(&mut command).context("a nightly compiler with rust-src is needed")?;
    Ok(target.join(TRIPLE).join("release/sframe-ld"))
}

/// A linker that was built with a sanitizer.
struct Bench<'s> {
    sanitizer: &'s Sanitizer,
    linker: PathBuf,
    /// The folder that gets a file for each process that reports something.
    reports: PathBuf,
}

impl Bench<'_> {
    fn prove(&self, proof: &mut Proof, wrong: &mut Vec<String>) -> Result<()> {
        let _ = std::fs::remove_dir_all(&self.reports);
        std::fs::create_dir_all(&self.reports)?;
        let mut suppressions = String::new();
        for (what, why) in self.sanitizer.suppressed {
            writeln!(suppressions, "{what}")?;
            proof.note(format!("- left out: `{what}`: {why}"))?;
        }
        std::fs::write(self.suppressions(), suppressions)?;
        self.watches(proof)?;
        for test in ["integration", "lit"] {
            self.tests(proof, test, wrong)?;
        }
        for workload in WORKLOADS {
            self.links(proof, workload, wrong)?;
        }
        let (without_room, reports): (Vec<_>, Vec<_>) =
            self.take_reports()?.into_iter().partition(|report| report.contains(NO_ROOM));
        proof.note(format!(
            "\nReports: {}, and {} of processes with limited memory that had no room for the sanitizer's own\n",
            reports.len(),
            without_room.len()
        ))?;
        wrong.extend(reports);
        Ok(())
    }

    /// Makes the sanitizer of all linkers that a command starts write its reports into the folder.
    fn watched(&self, command: &mut Command) {
        let Sanitizer { variable, options, .. } = self.sanitizer;
        let (reports, suppressions) = (self.reports.display(), self.suppressions());
        let places = format!("log_path={reports}/report:suppressions={}", suppressions.display());
        command.env(variable, format!("{options}:{places}"));
    }

    /// The file that lists what is suppressed.
    fn suppressions(&self) -> PathBuf {
        self.reports.with_extension("suppressions")
    }

    /// Returns the reports of processes that have ended, and removes them.
    fn take_reports(&self) -> Result<Vec<String>> {
        let mut reports = Vec::new();
        for entry in std::fs::read_dir(&self.reports)? {
            let path = entry?.path();
            reports.push(String::from_utf8_lossy(&std::fs::read(&path)?).into_owned());
            std::fs::remove_file(path)?;
        }
        Ok(reports)
    }

    /// Checks that the linker has the sanitizer.
    fn watches(&self, proof: &Proof) -> Result<()> {
        let mut command = Command::new(&self.linker);
        command.arg("--version").current_dir(&proof.folder);
        let options = format!("{}:help=1:log_path={}/report", self.sanitizer.options, self.reports.display());
        let result = command.env(self.sanitizer.variable, options).output()?;
        // One of the sanitizers lists its flags in the place where reports go; the other one does so before
        // it knows that place.
        let told =
            self.take_reports()?.into_iter().chain([String::from_utf8_lossy(&result.stderr).into_owned()]);
        let mark = format!("Available flags for {}", self.sanitizer.name);
        ensure!(
            told.into_iter().any(|text| text.contains(&mark)),
            "{} is not in the linker",
            self.sanitizer.name
        );
        Ok(())
    }

    /// Runs a test of the workspace with the linker. Only tests that are unfit for the sanitizer may fail.
    fn tests(&self, proof: &mut Proof, test: &str, wrong: &mut Vec<String>) -> Result<()> {
        let mut command = Command::new("cargo");
        command.current_dir(folders::workspace()).args(["test", "--quiet", "--test", test, "--"]);
        if test == "lit" {
            command.args(["--timeout", "600", "--ld"]).arg(format!("sframe-ld={}", self.linker.display()));
        }
        command
            .env("SFRAME_TEST_LD", &self.linker)
            .env("SFRAME_TEST_OWN", "1")
            .env("SFRAME_TEST_SANITIZER", "1");
        command.env("SFRAME_PEERS", peers::folder().canonicalize()?);
        self.watched(&mut command);
        let result = command.output()?;
        let text = String::from_utf8_lossy(&result.stdout).into_owned();
        std::fs::write(proof.folder.join(format!("{}-{test}.log", self.sanitizer.flag)), &text)?;
        let counts = text.lines().rfind(|line| line.starts_with("test result:") || line.contains(" PASS"));
        let counts = counts.with_context(|| {
            format!("no result of --test {test}: {}", String::from_utf8_lossy(&result.stderr))
        })?;
        proof.note(format!("- `--test {test}`: {}", counts.trim()))?;
        for name in failed(&text) {
            match UNFIT.iter().find(|(unfit, _)| name.starts_with(unfit)) {
                Some((_, why)) => proof.note(format!("  - `{name}` does not go with it: {why}"))?,
                None => wrong.push(format!("{}: {name} failed", self.sanitizer.name)),
            }
        }
        Ok(())
    }

    /// Links a workload in all ways. The bytes must be the same for every number of threads.
    fn links(&self, proof: &mut Proof, workload: Workload, wrong: &mut Vec<String>) -> Result<()> {
        let (folder, case) = prepared(proof, workload)?;
        let threads = THREADS.repeat(ROUNDS);
        let linker = || {
            let mut command = Command::new(&self.linker);
            command.arg("--no-detach");
            self.watched(&mut command);
            command
        };
        let mut other = 0;
        for options in OPTIONS {
            let words: Vec<&str> = options.split_whitespace().collect();
            let (_, differ) = threads::varying(proof, (&folder, &case), &words, &threads, linker)?;
            other += differ.len();
            let said = |threads: &usize| {
                format!("{} {options}: other bytes with {threads} threads", workload.name())
            };
            wrong.extend(differ.iter().map(said));
        }
        proof.note(format!(
            "- {}: {} links with {THREADS:?} threads, {} sets of options; as many had another output, map or message: {other}",
            workload.description(),
            threads.len() * OPTIONS.len(),
            OPTIONS.len()
        ))
    }
}

/// The names of failed tests, from Rust's harness and from the runner of the lit tests.
fn failed(text: &str) -> BTreeSet<&str> {
    let rust = text.lines().filter_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"));
    let lit = text.lines().filter_map(|line| line.strip_prefix("FAIL: "));
    rust.chain(lit).collect()
}
