//! `cargo xtask bench`: times sframe-ld against every linker on the machine.
//!
//! A case is a folder with every input and the exact arguments of one link ([`case`]); no compiler driver
//! runs while links are timed. All linkers get the same arguments and the same number of processors. None is
//! told how many threads to start, except where a table is about that: users do not say either, and otherwise
//! a default that starts too few would not show.
//!
//! [`turns`] says in which order they link, [`measure`] takes the numbers. There are four tables, each with
//! its page in `benches/`:
//! - `linkers`: all linkers, all figures ([`table`]);
//! - `cores`: numbers of threads up to the machine's processors ([`cores`]);
//! - `file-systems`: where the output goes, and ways of writing it ([`file_systems`]);
//! - `jobs`: many links at once under make ([`jobs`]).
//!
//! `--against COMMIT` times two builds of this linker in the same way ([`against`]).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

mod against;
mod build;
mod busy;
pub mod case;
mod cores;
mod database;
mod file_systems;
mod functions;
pub mod generated;
pub mod generated_object;
pub mod generated_program;
mod jobs;
mod link;
pub mod linkers;
pub mod measure;
mod page;
pub mod passes;
mod picture;
pub mod programs;
mod results;
mod table;
mod targets;
mod turns;
mod ways;
pub mod workload;

use ::peers::{Family, Linker};
use build::release_build;
use busy::Busy;
use link::Bench;
use page::Conditions;
use results::{CaseResult, LinkerResult};
use workload::Workload;

/// The name of the build of this linker by profile.
const PROFILED: &str = "sframe-ld by profile";

/// A table of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    /// All linkers and all figures, on --processors (benches/README.md)
    Linkers,
    /// With 1, 2, 4 … threads, to as many as the machine has processors (benches/many-cores.md, on fewer
    /// than eight benches/few-cores.md)
    Cores,
    /// With outputs on ext4, xfs, btrfs and tmpfs, and ways of writing there; as root
    /// (benches/file-systems.md)
    FileSystems,
    /// Many links at once under make (benches/jobs.md)
    Jobs,
}

impl Table {
    /// The workloads that the table has if nobody chooses others.
    fn workloads(self) -> &'static [Workload] {
        match self {
            Table::Linkers | Table::Cores => Workload::value_variants(),
            Table::FileSystems => &[Workload::Rust, Workload::Llvm, Workload::Generated8000],
            Table::Jobs => &[Workload::Tiny, Workload::Static, Workload::Rust, Workload::Generated2000],
        }
    }

    /// Whether a linker takes part if nobody chooses others: where many numbers are tried, the quick ones.
    fn takes(self, linker: &Linker) -> bool {
        self == Table::Linkers || matches!(linker.family, Family::SFrameLd | Family::Mold | Family::Wild)
    }

    fn page(self, processors: usize) -> &'static Path {
        Path::new(match self {
            Table::Linkers => "benches/README.md",
            Table::Cores if processors < 8 => "benches/few-cores.md",
            Table::Cores => "benches/many-cores.md",
            Table::FileSystems => "benches/file-systems.md",
            Table::Jobs => "benches/jobs.md",
        })
    }
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The table to make
    #[arg(value_enum, default_value_t = Table::Linkers)]
    table: Table,
    /// Cases to run (by default, those of the table)
    #[arg(long = "case", value_enum, value_delimiter = ',')]
    cases: Vec<Workload>,
    /// Only prepare the cases and print where they are and how to link them by hand
    #[arg(long)]
    prepare: bool,
    /// Write the table and its pictures to benches/
    #[arg(long)]
    write: bool,
    /// Time a build of COMMIT beside this one, and fail if this one is more than 1.03 times slower
    #[arg(long, value_name = "COMMIT", conflicts_with_all = ["table", "write", "peers_only", "linkers"])]
    against: Option<String>,
    /// Counted rounds; each runs every linker once, and quick linkers run up to 15
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Processors that each linker may use (by default 2, and all in the tables that are about their number)
    #[arg(long)]
    processors: Option<usize>,
    /// Processes that keep processors busy while times are taken, as other jobs of a build do
    #[arg(long, default_value_t = 0)]
    busy: usize,
    /// Linkers to time, by the names of the folders of peers (by default, those of the table); sframe-ld is
    /// always timed
    #[arg(long = "linker", value_delimiter = ',')]
    linkers: Vec<String>,
    /// Do not time sframe-ld
    #[arg(long)]
    peers_only: bool,
    /// The sframe-ld to time (by default: built here, in release mode)
    #[arg(long, conflicts_with = "peers_only")]
    sframe_ld: Option<PathBuf>,
    /// A build of sframe-ld by profile, as `cargo xtask package` makes it, to time beside the plain one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "peers_only"])]
    profiled: Option<PathBuf>,
    /// Folder of peers: one folder per linker, with a file `cmd`
    #[arg(long, env = "SFRAME_PEERS", default_value = "target/peers")]
    peers: PathBuf,
    /// Folder for the cases
    #[arg(long, env = "SFRAME_BENCH", default_value = "target/bench")]
    directory: PathBuf,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { table, rounds, busy, .. } = arguments;
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = arguments.processors.unwrap_or(if table == Table::Linkers { 2 } else { all });
    let cases = prepared(&arguments, processors)?;
    if arguments.prepare {
        cases.iter().for_each(print_prepared);
        return Ok(());
    }
    let _busy = Busy::start(busy)?;
    let ours = if arguments.peers_only { None } else { Some(sframe_ld(&arguments)?) };
    if let (Some(commit), Some(ours)) = (&arguments.against, &ours) {
        return against::run(commit, ours, &cases, rounds);
    }
    let linkers = taking_part(&arguments, ours.as_deref())?;
    let conditions = Conditions { rounds, processors, busy };
    let text = match table {
        Table::Linkers => return all_linkers(&arguments, &cases, &linkers, conditions),
        Table::Cores => cores::render(&cases, &linkers, conditions)?,
        Table::FileSystems => file_systems::render(&cases, &linkers, conditions, &arguments.directory)?,
        Table::Jobs => jobs::render(&cases, &linkers, conditions)?,
    };
    print!("{text}");
    if arguments.write { write(table, processors, &text) } else { Ok(()) }
}

/// The cases, ready to be linked.
fn prepared(arguments: &Arguments, processors: usize) -> Result<Vec<Bench>> {
    let names = if arguments.cases.is_empty() { arguments.table.workloads() } else { &arguments.cases };
    let prepare = |&name: &Workload| {
        let folder = arguments.directory.join(name.folder());
        let case = name.prepared(&folder).with_context(|| format!("cannot prepare case {}", name.name()))?;
        name.complete(&folder)?;
        let folder = folder.canonicalize()?;
        Ok(Bench { workload: name, outputs: folder.clone(), folder, case, processors })
    };
    names.iter().map(prepare).collect()
}

/// The linkers of the table: this project's, by profile too if that was given, and the others.
fn taking_part(arguments: &Arguments, ours: Option<&Path>) -> Result<Vec<Linker>> {
    let mut found = linkers::find(ours, &arguments.peers, &arguments.linkers)?;
    if arguments.linkers.is_empty() {
        found.retain(|linker| arguments.table.takes(linker));
    }
    if let Some(path) = &arguments.profiled {
        let path = path.canonicalize().with_context(|| format!("no linker at {}", path.display()))?;
        let profiled = Linker::probe(PROFILED, vec![path.display().to_string()])
            .with_context(|| format!("{} does not answer to --version", path.display()))?;
        found.insert(1, profiled);
    }
    Ok(found)
}

/// The table of all linkers, and its pictures.
fn all_linkers(
    arguments: &Arguments,
    cases: &[Bench],
    linkers: &[Linker],
    conditions: Conditions,
) -> Result<()> {
    let mut results = vec![];
    for bench in cases {
        let name = bench.workload;
        eprintln!("{}: {}", name.name(), name.description());
        // Variants of the build by profile would say nothing new.
        let variants = |linker: &Linker| {
            if linker.name == PROFILED { vec![name.given(linker)] } else { name.taking(linker) }
        };
        let taking: Vec<Linker> = linkers.iter().flat_map(variants).collect();
        results.push(CaseResult {
            name: name.name(),
            description: name.description(),
            objects: bench.case.objects,
            linkers: turns::run(bench, &taking, conditions.rounds)?,
        });
    }
    let text = table::render(&results, linkers, conditions)?;
    print!("{text}");
    if arguments.write {
        write(Table::Linkers, conditions.processors, &text)?;
        picture::write(Path::new("benches"), &results, linkers)?;
    }
    match results.iter().flat_map(|case| &case.linkers).find(|result| result.name == "sframe-ld") {
        Some(LinkerResult { outcome: Err(problem), .. }) => bail!("sframe-ld failed: {problem}"),
        _ => Ok(()),
    }
}

fn write(table: Table, processors: usize, text: &str) -> Result<()> {
    let page = table.page(processors);
    std::fs::create_dir_all("benches")?;
    std::fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))
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
