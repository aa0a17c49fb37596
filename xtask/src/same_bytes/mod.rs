//! Checks that a change of the linker keeps every byte of its outputs.
//!
//! `capture` runs a command, such as the tests, with a linker that keeps the inputs of each link
//! (`--reproduce`). `record` makes all these links with one linker, with several numbers of threads, and
//! stores the hashes of all results: exit status, both streams, each file. `check` does the same with another
//! linker and lists the differences.

use crate::install::{self, Program};
use anyhow::{Context, Result, bail, ensure};
use corpus::Corpus;
use replay::Facets;
pub use replay::THREADS;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

mod capture;
mod corpus;
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
    replay::all(&corpus, linker, &names, 2, &mut |case, result| match result {
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

/// Stands in a record for a property in which all runs of the recorded linker differ, such as a time.
const VARIES: &str = "varies";

pub fn run(arguments: Arguments) -> Result<()> {
    let folder = arguments.corpus.unwrap_or_else(|| crate::folders::target().join("same-bytes"));
    let folder = std::path::absolute(folder)?;
    match arguments.step {
        Step::Capture { linker, command } => capture::run(&folder, &linker.path()?, &command),
        Step::Link(link) => capture::link(&folder, link),
        Step::Record(comparison) => record(&Corpus::open(folder)?, &comparison),
        Step::Check(comparison) => check(&Corpus::open(folder)?, &comparison),
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
    let names = wanted(corpus, comparison)?;
    let names: Vec<String> = names.into_iter().filter(|name| !recorded.contains_key(name)).collect();
    let (mut varying, mut failures) = (0, Vec::new());
    replay::all(corpus, &linker, &names, comparison.jobs, &mut |case, result| {
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

fn wanted(corpus: &Corpus, comparison: &Comparison) -> Result<Vec<String>> {
    let mut names = corpus.names()?;
    names.retain(|name| name.contains(&comparison.filter));
    ensure!(!names.is_empty(), "no link is captured (cargo xtask same-bytes capture)");
    Ok(names)
}

/// The properties in which all runs agree.
fn agreed(runs: &[(usize, Facets)]) -> Facets {
    let mut names: Vec<&String> = runs.iter().flat_map(|(_, facets)| facets.keys()).collect();
    names.sort();
    names.dedup();
    let first = |name: &String| runs.first().and_then(|(_, facets)| facets.get(name));
    let one = |name: &String| match first(name) {
        Some(hash) if runs.iter().all(|(_, facets)| facets.get(name) == Some(hash)) => hash.clone(),
        _ => VARIES.to_owned(),
    };
    names.into_iter().map(|name| (name.clone(), one(name))).collect()
}

/// The names of properties in which runs disagree.
fn unlike(agreed: &Facets) -> Vec<&String> {
    agreed.iter().filter(|(_, hash)| *hash == VARIES).map(|(name, _)| name).collect()
}

fn check(corpus: &Corpus, comparison: &Comparison) -> Result<()> {
    let linker = comparison.linker.path()?;
    let recorded = read(&comparison.file)?;
    let (mut found, mut checked) = (Vec::new(), 0);
    let names = wanted(corpus, comparison)?;
    replay::all(corpus, &linker, &names, comparison.jobs, &mut |case, result| {
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

/// The differences between the runs and the record, one line for each facet.
fn differences(expected: &Facets, runs: &[(usize, Facets)]) -> Vec<String> {
    let mut at: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (threads, facets) in runs {
        for name in expected.keys().chain(facets.keys()) {
            let (before, now) = (expected.get(name), facets.get(name));
            let varies = before.is_some_and(|hash| hash == VARIES);
            let places = at.entry(name).or_default();
            if before != now && !varies && places.last() != Some(threads) {
                places.push(*threads);
            }
        }
    }
    at.retain(|_, threads| !threads.is_empty());
    at.iter().map(|(name, threads)| format!("{name} (threads: {threads:?})")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facets(list: &[(&str, &str)]) -> Facets {
        list.iter().map(|(name, hash)| (name.to_string(), hash.to_string())).collect()
    }

    #[test]
    fn only_agreed_facets_are_held() {
        let runs = [
            (1, facets(&[("status", "0"), ("stdout", "a")])),
            (2, facets(&[("status", "0"), ("stdout", "b")])),
        ];
        let expected = agreed(&runs);
        assert_eq!(expected, facets(&[("status", "0"), ("stdout", VARIES)]));
        assert!(differences(&expected, &runs).is_empty());
    }

    #[test]
    fn another_file_and_a_missing_one_are_differences() {
        let expected = facets(&[("file a", "1"), ("file b", "2")]);
        let runs = [(1, facets(&[("file a", "1"), ("file b", "2")])), (8, facets(&[("file a", "3")]))];
        assert_eq!(differences(&expected, &runs), ["file a (threads: [8])", "file b (threads: [8])"]);
    }
}
