//! Runs the tests of `lit-tests/`: files whose `RUN:` lines link something and whose `CHECK:` lines describe
//! the expected output.
//!
//! The files have the form of LLVM's `lit` and `FileCheck`, and these may run them where they are installed.
//! This crate turns the `RUN:` lines of a file into one shell script. `FileCheck`, `not` and `split-file` are
//! this program itself, placed under these names at the front of `PATH`, so a machine needs only a shell and
//! an assembler. The linker is a substitution like any other: with `--ld`, the same tests show where another
//! linker differs.

mod conditions;
mod file_check;
mod report;
mod run;
mod test_file;
mod toolchain;
mod tools;

pub use toolchain::Places;

use anyhow::{Context, Result, bail};
use clap::Parser;
use parallel::ParallelSlice;
use run::Outcome;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use test_file::TestFile;
use toolchain::Toolchain;

#[derive(Parser)]
#[command(name = "lit", about = "Run the tests of lit-tests")]
struct Arguments {
    /// Run only tests whose paths contain one of these texts
    filters: Vec<String>,
    /// Link with another linker: NAME=COMMAND, or the NAME of a folder of the peers tree
    #[arg(long, value_name = "NAME[=COMMAND]")]
    ld: Option<String>,
    /// Fail instead of skipping a test whose tool is missing
    #[arg(long)]
    require_all: bool,
    /// Number of tests that run at the same time
    #[arg(long, alias = "test-threads", default_value_t = 2, value_name = "N")]
    threads: usize,
    /// Seconds that a test may take
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    /// Print the name and the result of every test
    #[arg(long, short)]
    verbose: bool,
    /// Print substitutions and features as JSON (for `lit.cfg.py`), and run nothing
    #[arg(long)]
    configuration: bool,
    /// Print the names of the tests, and run none
    #[arg(long)]
    list: bool,
    /// Flags of Rust's test harness that mean nothing here
    #[arg(long, hide = true)]
    nocapture: bool,
    #[arg(long, hide = true)]
    exact: bool,
    #[arg(long, short, hide = true)]
    quiet: bool,
    #[arg(long, hide = true)]
    skip: Vec<String>,
}

/// The program: one of the tools if its name is used, or else the runner. Exit status 1: a test failed. Exit
/// status 2: the tests could not run.
pub fn main(places: &Places) -> ExitCode {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    if let Some(tool) = tools::by_name(Path::new(&called)) {
        return tool(words.collect());
    }
    match run_tests(&Arguments::parse(), places) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lit: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the tests that the arguments choose. Returns true if none failed.
fn run_tests(arguments: &Arguments, places: &Places) -> Result<bool> {
    let paths = chosen(&test_files(&places.tests)?, &places.tests, &arguments.filters);
    if arguments.list {
        paths.iter().for_each(|path| println!("{}: test", name_of(path, &places.tests)));
        return Ok(true);
    }
    let toolchain = Toolchain::find(places, arguments.ld.as_deref())?;
    if arguments.configuration {
        println!("{}", toolchain.json());
        return Ok(true);
    }
    let tools = tools::install(&places.scratch)?;
    let run = run::Run {
        toolchain: &toolchain,
        tools: tools.path(),
        scratch: places.scratch.join("lit").join(toolchain.linker_name()),
        limit: std::time::Duration::from_secs(arguments.timeout),
        require_all: arguments.require_all
            || std::env::var("SFRAME_TESTS_REQUIRE_ALL").is_ok_and(|v| v == "1"),
    };
    let pool = rayon_core::ThreadPoolBuilder::new().num_threads(arguments.threads).build()?;
    let begin = std::time::Instant::now();
    // Threads take one test after the other instead of equal parts of the list, because folders differ in
    // cost.
    let outcomes: Vec<(String, Outcome)> = pool.install(|| {
        let one = |path: &PathBuf| {
            let name = name_of(path, &places.tests);
            let outcome = match TestFile::read(path) {
                Ok(test) => run.test(&name, &test),
                Err(error) => Outcome::Failed(format!("{error:#}\n")),
            };
            if arguments.verbose {
                println!("{}: {name}", outcome.word());
            }
            (name, outcome)
        };
        paths.par_iter().with_max_len(1).map(one).collect()
    });
    Ok(report::print(&outcomes, &toolchain, &places.scratch, begin.elapsed()))
}

fn name_of(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

fn chosen(paths: &[PathBuf], folder: &Path, filters: &[String]) -> Vec<PathBuf> {
    let wanted = |path: &&PathBuf| {
        let name = name_of(path, folder);
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    paths.iter().filter(wanted).cloned().collect()
}

/// The test files below a folder, sorted. Files in folders named `Inputs` belong to tests.
fn test_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "Inputs") {
                found.extend(test_files(&path)?);
            }
        } else if path.extension().is_some_and(|e| test_file::SUFFIXES.iter().any(|s| e == *s)) {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        bail!("no tests in {}", folder.display());
    }
    Ok(found)
}
