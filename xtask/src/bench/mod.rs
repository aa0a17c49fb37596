//! `cargo xtask bench`: times sframe-ld against every linker on the machine.
//!
//! A case is a folder with every input and the exact arguments of one link ([`case`]); no compiler driver
//! runs while links are timed. All linkers get the same arguments and the same number of processors. None is
//! told how many threads to start: users do not say either, and otherwise a default that starts too few would
//! not show.
//!
//! The linkers take turns. In one round, every linker links twice: first without an old output, then over the
//! output that is there, as a build does. The next round begins with another linker. A first round warms the
//! file cache, checks that each output runs, and does not count. Linkers that take many times as long as the
//! quickest one leave after a few rounds. The others go on, because a link of milliseconds needs more rounds.
//! [`measure`] takes the numbers.
//!
//! `--against COMMIT` times two builds of this linker in the same way ([`against`]). `--cores` says what more
//! processors would bring ([`cores`]).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

mod against;
mod build;
mod busy;
pub mod case;
mod cores;
mod database;
mod functions;
pub mod generated;
pub mod generated_object;
pub mod generated_program;
mod link;
pub mod linkers;
pub mod measure;
pub mod passes;
mod picture;
pub mod programs;
mod results;
mod table;
mod targets;
pub mod workload;

use ::peers::Linker;
use build::release_build;
use busy::Busy;
use link::{Before, Bench};
use results::{CaseResult, Costs, Figure, LinkerResult};
use workload::Workload;

/// A linker is quick if it takes at most this many times as long as the quickest one.
const QUICK: f64 = 4.0;
/// The number of rounds for quick linkers.
const QUICK_ROUNDS: u64 = 15;
/// The longest time that quick linkers go on after the others, in every case.
const FURTHER_TIME: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Arguments {
    /// Cases to run (all by default)
    #[arg(long = "case", value_enum, value_delimiter = ',')]
    cases: Vec<Workload>,
    /// Only prepare the cases and print where they are and how to link them by hand
    #[arg(long)]
    prepare: bool,
    /// Write the table and its pictures to benches/
    #[arg(long)]
    write: bool,
    /// Time a build of COMMIT beside this one, and fail if this one is more than 1.03 times slower
    #[arg(long, value_name = "COMMIT", conflicts_with_all = ["write", "peers_only", "linkers"])]
    against: Option<String>,
    /// Say what more processors would bring, in benches/cores.md with --write
    #[arg(long, conflicts_with_all = ["against", "peers_only", "linkers"])]
    cores: bool,
    /// Counted rounds; each runs every linker once, and quick linkers run up to 15
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Processors that each linker may use
    #[arg(long, default_value_t = 2)]
    processors: usize,
    /// Processes that keep processors busy while times are taken, as other jobs of a build do
    #[arg(long, default_value_t = 0)]
    busy: usize,
    /// Linkers to time, by the names of the folders of peers (all by default); sframe-ld is always timed
    #[arg(long = "linker", value_delimiter = ',')]
    linkers: Vec<String>,
    /// Do not time sframe-ld
    #[arg(long)]
    peers_only: bool,
    /// The sframe-ld to time (by default: built here, in release mode)
    #[arg(long, conflicts_with = "peers_only")]
    sframe_ld: Option<PathBuf>,
    /// Folder of peers: one folder per linker, with a file `cmd`
    #[arg(long, env = "SFRAME_PEERS", default_value = "target/peers")]
    peers: PathBuf,
    /// Folder for the cases
    #[arg(long, env = "SFRAME_BENCH", default_value = "target/bench")]
    directory: PathBuf,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let names = if arguments.cases.is_empty() { Workload::value_variants() } else { &arguments.cases };
    let mut cases = vec![];
    for &name in names {
        let folder = arguments.directory.join(name.folder());
        let case = name.prepared(&folder).with_context(|| format!("cannot prepare case {}", name.name()))?;
        name.complete(&folder)?;
        let folder = folder.canonicalize()?;
        cases.push(Bench { workload: name, folder, case, processors: arguments.processors });
    }
    if arguments.prepare {
        cases.iter().for_each(print_prepared);
        return Ok(());
    }
    let _busy = Busy::start(arguments.busy)?;
    let ours = if arguments.peers_only { None } else { Some(sframe_ld(&arguments)?) };
    if let (Some(commit), Some(ours)) = (&arguments.against, &ours) {
        return against::run(commit, ours, &cases, arguments.rounds);
    }
    if let (true, Some(ours)) = (arguments.cores, &ours) {
        let found = linkers::find(Some(ours), Path::new(""), &["sframe-ld".into()])?;
        let text = cores::render(&cases, &found[0], arguments.rounds)?;
        print!("{text}");
        return if arguments.write { Ok(std::fs::write("benches/cores.md", text)?) } else { Ok(()) };
    }
    let linkers = linkers::find(ours.as_deref(), &arguments.peers, &arguments.linkers)?;
    let mut results = vec![];
    for bench in &cases {
        let name = bench.workload;
        eprintln!("{}: {}", name.name(), name.description());
        let taking: Vec<Linker> = linkers.iter().flat_map(|linker| name.taking(linker)).collect();
        results.push(CaseResult {
            name: name.name(),
            description: name.description(),
            objects: bench.case.objects,
            linkers: run_case(bench, &taking, arguments.rounds)?,
        });
    }
    let Arguments { rounds, processors, busy, .. } = arguments;
    let text = table::render(&results, &linkers, table::Conditions { rounds, processors, busy })?;
    print!("{text}");
    if arguments.write {
        std::fs::create_dir_all("benches")?;
        std::fs::write("benches/README.md", text)?;
        picture::write(Path::new("benches"), &results, &linkers)?;
    }
    match results.iter().flat_map(|case| &case.linkers).find(|result| result.name == "sframe-ld") {
        Some(LinkerResult { outcome: Err(problem), .. }) => bail!("sframe-ld failed: {problem}"),
        _ => Ok(()),
    }
}

fn print_prepared(bench: &Bench) {
    let (name, folder, case) = (bench.workload, &bench.folder, &bench.case);
    println!("{}: {}", name.name(), name.description());
    println!("  folder     {}", folder.display());
    println!("  arguments  {} ({} words)", folder.join("link.args").display(), case.link.len());
    println!("  link       cd {} && LINKER @link.args -o output", folder.display());
    println!("  run        cd {} && ./output {}", folder.display(), case.run.join(" "));
}

/// The linker to time: the given one, or a release build of this workspace.
fn sframe_ld(arguments: &Arguments) -> Result<PathBuf> {
    if let Some(path) = &arguments.sframe_ld {
        return path.canonicalize().with_context(|| format!("no linker at {}", path.display()));
    }
    release_build(Path::new("."), "sframe-ld")
}

/// The median wall time over an old output, in milliseconds.
fn wall(result: &LinkerResult) -> Option<f64> {
    result.spread(Figure::WallReplaced).map(|spread| spread.median)
}

/// Links once in each of the two ways, with every linker that takes part.
fn run_round(
    bench: &Bench,
    linkers: &[Linker],
    round: u64,
    results: &mut [LinkerResult],
    takes_part: impl Fn(usize) -> bool,
) -> Result<()> {
    for turn in 0..linkers.len() {
        let number = (round as usize + turn) % linkers.len();
        if !takes_part(number) {
            continue;
        }
        for before in [Before::Nothing, Before::Output] {
            let Ok(costs) = &mut results[number].outcome else { break };
            match bench.link(&linkers[number], before)? {
                Ok(cost) if before == Before::Nothing => costs.fresh.push(cost),
                Ok(cost) => costs.replaced.push(cost),
                Err(problem) => results[number].outcome = Err(problem),
            }
        }
    }
    Ok(())
}

/// Links with every linker, in turns.
fn run_case(bench: &Bench, linkers: &[Linker], rounds: u64) -> Result<Vec<LinkerResult>> {
    let mut results = vec![];
    for linker in linkers {
        let outcome = bench.link(linker, Before::Nothing)?;
        let output = bench.output(linker);
        let size = output.metadata().map_or(0, |metadata| metadata.len());
        let outcome = outcome
            .and_then(|_| bench.case.check(&bench.folder, &output))
            .map(|()| Costs::default())
            .inspect_err(|problem| eprintln!("  {}: {problem}", linker.name));
        results.push(LinkerResult { name: linker.name.clone(), output_size: size, outcome });
    }
    for round in 0..rounds {
        run_round(bench, linkers, round, &mut results, |_| true)?;
    }
    // If a link takes milliseconds, one link says little, so quick linkers go on among themselves.
    let quickest = results.iter().filter_map(wall).min_by(f64::total_cmp).unwrap_or_default();
    let quick: Vec<bool> =
        results.iter().map(|result| wall(result).is_some_and(|wall| wall <= quickest * QUICK)).collect();
    let begin = Instant::now();
    for round in rounds..QUICK_ROUNDS {
        if begin.elapsed() > FURTHER_TIME {
            break;
        }
        run_round(bench, linkers, round, &mut results, |number| quick[number])?;
    }
    bench.clean(linkers);
    Ok(results)
}
