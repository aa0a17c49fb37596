//! Says which commit changed the results of which links.
//!
//! A range of commits is halved as long as the results at its two ends differ, so most links need a handful
//! of builds and not one for each commit. A link that is the same at both ends counts as unchanged, whatever
//! happened between.

use super::corpus::Corpus;
use super::facets::{Runs, agreed, differences};
use super::replay;
use crate::commands;
use crate::folders::{target, workspace};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Command;

/// How each link is made at each commit: twice, so that times and the like show that they vary.
const THREADS: [usize; 2] = [1, 2];

/// Where the linker's sources are.
const SOURCES: [&str; 5] = ["src", "crates", "linker-scripts", "Cargo.toml", "Cargo.lock"];

#[derive(clap::Args)]
pub struct Range {
    /// The commit before the first one that is looked at
    from: String,
    /// The last commit
    #[arg(default_value = "HEAD")]
    to: String,
    /// Links that run at the same time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Only links whose names contain this text
    #[arg(long, default_value = "")]
    filter: String,
}

/// Lists, commit by commit, the links whose results it changed.
pub fn run(corpus: &Corpus, range: &Range) -> Result<()> {
    let commits = commits(&range.from, &range.to)?;
    let names = corpus.wanted(&range.filter)?;
    println!("{} links, {} commits", names.len(), commits.len() - 1);
    let last = commits.len() - 1;
    let mut history = History { corpus, jobs: range.jobs, commits, results: HashMap::new() };
    let mut changes = Changes::new();
    narrow(0, last, names, &mut changes, &mut |first, last, names| history.changed(first, last, names))?;
    for (place, links) in &changes {
        println!("\n{} ({} links)", history.title(*place)?, links.len());
        links.iter().for_each(|(link, what)| println!("  {link}: {what}"));
    }
    Ok(())
}

/// A link, and what changed of its results.
type Changed = (String, String);

/// The links that each commit changed, by its place.
type Changes = BTreeMap<usize, Vec<Changed>>;

/// Finds the changes behind the commit at place `first` up to the one at `last`. `changed` tells which of
/// these links differ between two places, and in what.
fn narrow(
    first: usize,
    last: usize,
    names: Vec<String>,
    changes: &mut Changes,
    changed: &mut dyn FnMut(usize, usize, Vec<String>) -> Result<Vec<Changed>>,
) -> Result<()> {
    let different = changed(first, last, names)?;
    if different.is_empty() {
        return Ok(());
    }
    if last - first == 1 {
        changes.insert(last, different);
        return Ok(());
    }
    let middle = first.midpoint(last);
    let names: Vec<String> = different.into_iter().map(|(name, _)| name).collect();
    narrow(first, middle, names.clone(), changes, changed)?;
    narrow(middle, last, names, changes, changed)
}

/// The commits of a range that changed the linker's sources, oldest first, behind the one that it starts
/// from.
fn commits(from: &str, to: &str) -> Result<Vec<String>> {
    let mut first = git();
    first.args(["rev-parse", "--verify", &format!("{from}^{{commit}}")]);
    let mut rest = git();
    rest.args(["rev-list", "--reverse", &format!("{from}..{to}"), "--"]).args(SOURCES);
    let list = commands::output(&mut first)? + &commands::output(&mut rest)?;
    let list: Vec<String> = list.lines().map(str::to_owned).collect();
    ensure!(list.len() > 1, "no commit behind {from} up to {to} changed the linker");
    Ok(list)
}

fn git() -> Command {
    let mut command = Command::new("git");
    command.current_dir(workspace());
    command
}

struct History<'corpus> {
    corpus: &'corpus Corpus,
    jobs: usize,
    commits: Vec<String>,
    /// What each link gave at each commit where it was made.
    results: HashMap<(usize, String), Runs>,
}

impl History<'_> {
    /// The links that differ between two commits, and in what.
    fn changed(&mut self, first: usize, last: usize, names: Vec<String>) -> Result<Vec<Changed>> {
        self.make(first, &names)?;
        self.make(last, &names)?;
        Ok(names.into_iter().filter_map(|name| self.difference(first, last, name)).collect())
    }

    /// Links what was not yet linked at this commit.
    fn make(&mut self, place: usize, names: &[String]) -> Result<()> {
        let names = names.iter().cloned();
        let names: Vec<String> =
            names.filter(|name| !self.results.contains_key(&(place, name.clone()))).collect();
        if names.is_empty() {
            return Ok(());
        }
        let linker = self.linker(place)?;
        eprintln!("{} links at {}", names.len(), self.title(place)?);
        let (results, mut failures) = (&mut self.results, Vec::new());
        replay::all(self.corpus, &linker, &names, &THREADS, self.jobs, &mut |name, result| match result {
            Ok(runs) => {
                results.insert((place, name.to_owned()), runs);
            }
            Err(error) => failures.push(format!("{name}: {error:#}")),
        });
        failures.sort();
        ensure!(failures.is_empty(), "not linked:\n{}", failures.join("\n"));
        Ok(())
    }

    /// The link's name and what differs between two commits, if anything does.
    fn difference(&self, first: usize, last: usize, name: String) -> Option<Changed> {
        let at = |place| self.results.get(&(place, name.clone()));
        let lines = differences(&agreed(at(first)?), at(last)?);
        (!lines.is_empty()).then(|| (name, lines.join(", ")))
    }

    /// The linker of a commit. It is built at the first call.
    fn linker(&self, place: usize) -> Result<PathBuf> {
        let commit = self.commits.get(place).context("no such commit")?;
        let folder = target().join("history");
        let linker = folder.join("linkers").join(commit);
        if linker.is_file() {
            return Ok(linker);
        }
        let sources = folder.join("sources");
        if !sources.is_dir() {
            std::fs::create_dir_all(&folder)?;
            commands::output(
                git().args(["clone", "--quiet", "--shared", "--no-checkout", "."]).arg(&sources),
            )?;
        }
        let mut checkout = Command::new("git");
        commands::output(checkout.current_dir(&sources).args(["checkout", "--quiet", "--detach", commit]))?;
        let mut build = Command::new("cargo");
        build.current_dir(&sources).args(["build", "--quiet", "--locked", "--bin", "sframe-ld"]);
        build.arg("--target-dir").arg(folder.join("build"));
        ensure!(build.status()?.success(), "{commit} does not build");
        std::fs::create_dir_all(folder.join("linkers"))?;
        std::fs::copy(folder.join("build/debug/sframe-ld"), &linker)?;
        Ok(linker)
    }

    /// A commit's short name and first line.
    fn title(&self, place: usize) -> Result<String> {
        let commit = self.commits.get(place).context("no such commit")?;
        let title = commands::output(git().args(["log", "-1", "--format=%h %s", commit]))?;
        Ok(title.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, narrow};

    #[test]
    fn each_change_is_found_with_few_builds() {
        // The result of each link at 32 commits.
        let once = |place: usize| usize::from(place >= 21);
        let twice = |place: usize| [3, 30].iter().filter(|&&change| place >= change).count();
        let result = |name: &str, place| if name == "once" { once(place) } else { twice(place) };
        let mut built = std::collections::BTreeSet::new();
        let mut changes = Changes::new();
        let names = vec!["once".to_owned(), "twice".to_owned()];
        narrow(0, 31, names, &mut changes, &mut |first, last, names| {
            built.extend([first, last]);
            let differ = names.into_iter().filter(|name| result(name, first) != result(name, last));
            Ok(differ.map(|name| (name, "file out".to_owned())).collect())
        })
        .unwrap();
        let found: Vec<_> = changes
            .iter()
            .flat_map(|(place, links)| links.iter().map(|(name, _)| (*place, name.as_str())))
            .collect();
        assert_eq!(found, [(3, "twice"), (21, "once"), (30, "twice")]);
        assert!(built.len() < 16, "{built:?}");
    }
}
