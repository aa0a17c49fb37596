//! `--against COMMIT`: whether this tree links slower than an older one.
//!
//! COMMIT is built in a work tree of its own. The machine may be faster or slower from one minute to the
//! next, so the two builds take turns: each turn gives one ratio, and the median of the ratios counts.

use std::path::{Path, PathBuf};

use ::peers::Linker;
use anyhow::{Context, Result, bail};

use super::build::release_build;
use super::case::must_run;
use super::link::{Before, Bench};
use super::measure::median;

/// The greatest ratio of times that still counts as equal.
const ALLOWED: f64 = 1.03;

/// Times `ours` together with a build of `commit`.
///
/// # Errors
/// The commit does not build, a link fails, or a workload takes more than [`ALLOWED`] times as long.
pub fn run(commit: &str, ours: &Path, cases: &[Bench], rounds: u64) -> Result<()> {
    let theirs = built(commit)?;
    let linker = |name: &str, path: &Path| {
        Linker::probe(name, vec![path.display().to_string()])
            .with_context(|| format!("{} does not answer to --version", path.display()))
    };
    let pair = [linker("this", ours)?, linker("that", &theirs)?];
    println!("| workload | wall, this / {commit} | CPU | peak memory |\n|---|---:|---:|---:|");
    let mut slower = vec![];
    for bench in cases {
        let name = bench.workload.name();
        let [wall, cpu, memory] = ratios(bench, &pair, rounds)?;
        println!("| {name} | {wall:.3}× | {cpu:.3}× | {memory:.3}× |");
        if wall > ALLOWED {
            slower.push(format!("{name} takes {wall:.3} times as long"));
        }
    }
    if slower.is_empty() { Ok(()) } else { bail!("slower than {commit}: {}", slower.join(", ")) }
}

/// A release build of a commit.
fn built(commit: &str) -> Result<PathBuf> {
    let here = Path::new(".");
    let words = ["rev-parse", "--short", "--verify", &format!("{commit}^{{commit}}")];
    let id = must_run(here, "git", &words.map(String::from))?;
    let tree = std::path::absolute("target/against")?.join(id.trim());
    if !tree.exists() {
        let words = ["worktree", "add", "--force", "--detach", &tree.display().to_string(), id.trim()];
        must_run(here, "git", &words.map(String::from))?;
    }
    eprintln!("building {}", id.trim());
    release_build(&tree, "sframe-ld")
}

/// The medians of the ratios of wall time, CPU time and peak memory, `ours` to the other.
fn ratios(bench: &Bench, pair: &[Linker; 2], rounds: u64) -> Result<[f64; 3]> {
    let pair = &pair.each_ref().map(|linker| bench.workload.given(linker));
    let once = |linker: &Linker| {
        let cost = bench.link(linker, Before::Output)?;
        cost.map_err(|problem| anyhow::anyhow!("{}: {problem}", linker.name))
    };
    let mut found: [Vec<f64>; 3] = Default::default();
    for round in 0..=rounds {
        // The two take turns to begin. The first round only warms the file cache.
        let (first, second) = (round as usize % 2, 1 - round as usize % 2);
        let mut costs = [None, None];
        for number in [first, second] {
            costs[number] = Some(once(&pair[number])?);
        }
        if let ([Some(this), Some(that)], true) = (costs, round > 0) {
            found[0].push(this.wall / that.wall);
            found[1].push(this.cpu / that.cpu);
            found[2].push(this.peak_memory as f64 / that.peak_memory as f64);
        }
    }
    bench.clean(pair);
    Ok(found.map(|ratios| median(ratios).unwrap_or(f64::NAN)))
}
