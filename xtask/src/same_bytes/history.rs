//! Says which commit changed the results of which links.
//!
//! A range of commits is halved as long as the results at its two ends differ, so most links need a handful
//! of builds and not one for each commit. A link that is the same at both ends counts as unchanged, whatever
//! happened between. A commit that does not build is passed over: its changes count as those of the next one
//! that does.

use super::corpus::Corpus;
use super::facets::{Runs, agreed, differences};
use super::replay;
use crate::commands;
use crate::folders::{target, workspace};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    let mut history =
        History { corpus, jobs: range.jobs, commits, results: HashMap::new(), broken: BTreeSet::new() };
    let mut changes = Changes::new();
    narrow(0, last, names, &mut changes, &mut history)?;
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

/// What is known of places in a range of commits.
trait Compare {
    /// Whether the commit at a place builds.
    fn builds(&mut self, place: usize) -> Result<bool>;
    /// Which of these links differ between two places, and in what.
    fn changed(&mut self, first: usize, last: usize, names: Vec<String>) -> Result<Vec<Changed>>;
}

/// Finds the changes behind the commit at place `first` up to the one at `last`.
fn narrow(
    first: usize,
    last: usize,
    names: Vec<String>,
    changes: &mut Changes,
    history: &mut dyn Compare,
) -> Result<()> {
    let different = history.changed(first, last, names)?;
    if different.is_empty() {
        return Ok(());
    }
    let Some(middle) = middle(first, last, history)? else {
        changes.insert(last, different);
        return Ok(());
    };
    let names: Vec<String> = different.into_iter().map(|(name, _)| name).collect();
    narrow(first, middle, names.clone(), changes, history)?;
    narrow(middle, last, names, changes, history)
}

/// The place between two others that builds and is nearest to their middle.
fn middle(first: usize, last: usize, history: &mut dyn Compare) -> Result<Option<usize>> {
    let middle = first.midpoint(last);
    let mut between: Vec<usize> = (first + 1..last).collect();
    between.sort_by_key(|&place| place.abs_diff(middle));
    for place in between {
        if history.builds(place)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
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
    /// Commits that do not build.
    broken: BTreeSet<usize>,
}

impl Compare for History<'_> {
    fn builds(&mut self, place: usize) -> Result<bool> {
        if !self.broken.contains(&place)
            && let Err(error) = self.linker(place)
        {
            eprintln!("{} is passed over: {error:#}", self.title(place)?);
            self.broken.insert(place);
        }
        Ok(!self.broken.contains(&place))
    }

    fn changed(&mut self, first: usize, last: usize, names: Vec<String>) -> Result<Vec<Changed>> {
        self.make(first, &names)?;
        self.make(last, &names)?;
        Ok(names.into_iter().filter_map(|name| self.difference(first, last, name)).collect())
    }
}

impl History<'_> {
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
    use super::{Changed, Changes, Compare, narrow};
    use anyhow::Result;
    use std::collections::BTreeSet;

    /// 32 commits, and which of them were built.
    struct Example {
        broken: &'static [usize],
        built: BTreeSet<usize>,
    }

    impl Compare for Example {
        fn builds(&mut self, place: usize) -> Result<bool> {
            Ok(!self.broken.contains(&place))
        }

        fn changed(&mut self, first: usize, last: usize, names: Vec<String>) -> Result<Vec<Changed>> {
            self.built.extend([first, last]);
            let result = |name: &str, place: usize| {
                let of_link: &[usize] = if name == "once" { &[21] } else { &[3, 30] };
                of_link.iter().filter(|&&change| place >= change).count()
            };
            let differ = names.into_iter().filter(|name| result(name, first) != result(name, last));
            Ok(differ.map(|name| (name, "file out".to_owned())).collect())
        }
    }

    /// The changes that are found, with the place of each.
    fn found(broken: &'static [usize]) -> (Vec<(usize, String)>, usize) {
        let mut example = Example { broken, built: BTreeSet::new() };
        let mut changes = Changes::new();
        narrow(0, 31, ["once", "twice"].map(str::to_owned).to_vec(), &mut changes, &mut example).unwrap();
        let each = changes.into_iter().flat_map(|(place, links)| {
            links.into_iter().map(move |(name, _)| (place, name)).collect::<Vec<_>>()
        });
        (each.collect(), example.built.len())
    }

    #[test]
    fn each_change_is_found_with_few_builds() {
        let (changes, built) = found(&[]);
        assert_eq!(changes, [(3, "twice"), (21, "once"), (30, "twice")].map(|(at, name)| (at, name.into())));
        assert!(built < 16, "{built}");
    }

    #[test]
    fn commits_that_do_not_build_are_passed_over() {
        let (changes, _) = found(&[2, 15, 21, 22, 30]);
        assert_eq!(changes, [(3, "twice"), (23, "once"), (31, "twice")].map(|(at, name)| (at, name.into())));
    }
}
