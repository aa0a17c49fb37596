//! Checks that a change of the linker keeps every byte of its outputs.
//!
//! `capture` runs a command, such as the tests, with a linker that keeps the inputs of each link
//! (`--reproduce`). `record` makes all these links with one linker, with several numbers of threads, and
//! stores the hashes of all results: exit status, both streams, each file. `check` does the same with another
//! linker and lists the differences. `history` says which commits made them.

use crate::install::{self, Program};
use anyhow::{Context, Result, bail, ensure};
pub use capture::run as capture;
use corpus::Corpus;
use facets::{Facets, agreed, differences, unlike};
pub use replay::THREADS;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

mod capture;
mod corpus;
mod facets;
mod history;
mod replay;

#[derive(clap::Args)]
pub struct Arguments {
    /// Folder of the captured links [default: target/same-bytes]
    #[arg(long, global = true, value_name = "FOLDER")]
    corpus: Option<PathBuf>,
    #[command(subcommand)]
    step: Step,
}

#[derive(clap::Subcommand)]
enum Step {
    /// Run a command and keep the inputs of its links; it finds the linker in SFRAME_TEST_LD and SFRAME_LD
    Capture {
        #[command(flatten)]
        linker: install::Linker,
        /// The command, such as `cargo test --test integration`
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Make every link that FILE does not have yet, and add the hashes of the results to it
    Record(Comparison),
    /// Make every link and list what differs from FILE
    Check(Comparison),
    /// Say which commit of a range changed the results of which links, by building some of them
    History(history::Range),
    /// Unpack the inputs of one link into a folder, to look into a difference
    Unpack { case: String, folder: PathBuf },
    /// Link and keep the inputs (what SFRAME_TEST_LD calls during `capture`)
    #[command(hide = true)]
    Link(capture::Link),
}

#[derive(clap::Args)]
struct Comparison {
    /// File with the hashes, one link per line
    file: PathBuf,
    #[command(flatten)]
    linker: install::Linker,
    /// Links that run at the same time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Only links whose names contain this text
    #[arg(long, default_value = "")]
    filter: String,
}

/// Links that were made with several numbers of threads.
pub struct Repeated {
    /// Number of links.
    pub links: usize,
    /// The links whose results are not the same each time, with the names of what varies.
    pub varying: Vec<String>,
}

/// Runs a command, keeps its links in an empty folder, and makes each of them again with several numbers of
/// threads.
///
/// # Errors
/// The command fails or makes no links, or links cannot be made again; the error names all of these.
pub fn repeat(folder: &Path, linker: &Path, command: &[String]) -> Result<Repeated> {
    capture::run(folder, linker, command)?;
    let corpus = Corpus::open(folder.to_path_buf())?;
    let names = corpus.names()?;
    ensure!(!names.is_empty(), "{} made no link by this linker", command.join(" "));
    let (mut varying, mut failures) = (Vec::new(), Vec::new());
    replay::all(&corpus, linker, &names, &THREADS, 2, &mut |case, result| match result {
        Ok(runs) => {
            let facets = agreed(&runs);
            let unlike = unlike(&facets);
            varying.extend((!unlike.is_empty()).then(|| format!("{case}: {unlike:?}")));
        }
        Err(error) => failures.push(format!("{case}: {error:#}")),
    });
    varying.sort();
    failures.sort();
    ensure!(failures.is_empty(), "not linked:\n{}", failures.join("\n"));
    Ok(Repeated { links: names.len(), varying })
}

/// Makes every captured link in the folder once more, and passes on each file that the linker writes, with
/// the name of the link. Returns the number of links.
///
/// # Errors
/// No link is captured, one cannot be unpacked or started, or `take` fails.
pub fn outputs(
    folder: &Path,
    linker: &Path,
    take: &mut dyn FnMut(&str, Vec<u8>) -> Result<()>,
) -> Result<usize> {
    let corpus = Corpus::open(folder.to_path_buf())?;
    let names = corpus.names()?;
    ensure!(!names.is_empty(), "no link is captured in {}", folder.display());
    for name in &names {
        for output in replay::outputs(&corpus, linker, &corpus.case(name)?)? {
            take(name, output)?;
        }
    }
    Ok(names.len())
}

pub fn run(arguments: Arguments) -> Result<()> {
    let folder = arguments.corpus.unwrap_or_else(|| crate::folders::target().join("same-bytes"));
    let folder = std::path::absolute(folder)?;
    match arguments.step {
        Step::Capture { linker, command } => capture::run(&folder, &linker.path()?, &command),
        Step::Link(link) => capture::link(&folder, link),
        Step::Record(comparison) => record(&Corpus::open(folder)?, &comparison),
        Step::Check(comparison) => check(&Corpus::open(folder)?, &comparison),
        Step::History(range) => history::run(&Corpus::open(folder)?, &range),
        Step::Unpack { case, folder: into } => {
            let corpus = Corpus::open(folder)?;
            let case = corpus.case(&case)?;
            corpus.unpack(&case, &into)?;
            println!("cd {} && sframe-ld @response.txt", into.display());
            Ok(())
        }
    }
}

fn record(corpus: &Corpus, comparison: &Comparison) -> Result<()> {
    let linker = comparison.linker.path()?;
    // An interrupted record goes on where it stopped.
    let recorded = if comparison.file.exists() { read(&comparison.file)? } else { BTreeMap::new() };
    let cannot_write = || format!("cannot write {}", comparison.file.display());
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&comparison.file)
        .with_context(cannot_write)?;
    let names = corpus.wanted(&comparison.filter)?;
    let names: Vec<String> = names.into_iter().filter(|name| !recorded.contains_key(name)).collect();
    let (mut varying, mut failures) = (0, Vec::new());
    replay::all(corpus, &linker, &names, &THREADS, comparison.jobs, &mut |case, result| {
        let written = result.and_then(|runs| {
            let facets = agreed(&runs);
            let unlike = unlike(&facets);
            if !unlike.is_empty() {
                varying += 1;
                println!("differs from run to run: {case}: {unlike:?}");
            }
            file.write_all((serde_json::to_string(&(case, facets))? + "\n").as_bytes())
                .with_context(cannot_write)
        });
        failures.extend(written.err().map(|error| format!("{case}: {error:#}")));
    });
    println!(
        "{} links recorded, {varying} of them not wholly the same each time",
        names.len() - failures.len()
    );
    ensure!(failures.is_empty(), "not linked:\n{}", failures.join("\n"));
    Ok(())
}

fn check(corpus: &Corpus, comparison: &Comparison) -> Result<()> {
    let linker = comparison.linker.path()?;
    let recorded = read(&comparison.file)?;
    let (mut found, mut checked) = (Vec::new(), 0);
    let names = corpus.wanted(&comparison.filter)?;
    replay::all(corpus, &linker, &names, &THREADS, comparison.jobs, &mut |case, result| {
        checked += 1;
        match (recorded.get(case), result) {
            (None, _) => found.push(format!("{case}: not recorded")),
            (_, Err(error)) => found.push(format!("{case}: {error:#}")),
            (Some(expected), Ok(runs)) => {
                found.extend(differences(expected, &runs).into_iter().map(|line| format!("{case}: {line}")));
            }
        }
    });
    found.sort();
    if !found.is_empty() {
        bail!("{} links checked; these differ:\n{}", checked, found.join("\n"));
    }
    println!("{checked} links are the same at {THREADS:?} threads");
    Ok(())
}

fn read(file: &Path) -> Result<BTreeMap<String, Facets>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
