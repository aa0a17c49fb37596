//! `cargo xtask bench`: times sframe-ld against every linker found on the machine.
//!
//! A case is a folder with every input and the exact arguments of one link ([`case`]); no compiler driver runs while
//! times are taken. All linkers get the same arguments, as many processors, and each its own spelling for as many
//! threads. They take turns: one round runs every linker once, the next begins with another one. A first round warms
//! the file cache, checks that each output runs, and is not counted. The numbers are those of [`measure`].

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

pub mod case;
mod generated;
pub mod generated_object;
pub mod generated_program;
mod linkers;
pub mod measure;
pub mod programs;
mod table;

use ::peers::Linker;
use case::Case;
use measure::Cost;
use table::{CaseResult, LinkerResult};

#[derive(clap::Args)]
pub struct Arguments {
    /// Cases to run (all by default)
    #[arg(long = "case", value_enum, value_delimiter = ',')]
    cases: Vec<CaseName>,
    /// Only prepare the cases and print where they are and how to link them by hand
    #[arg(long)]
    prepare: bool,
    /// Write the table to benches/README.md
    #[arg(long)]
    write: bool,
    /// Counted rounds; each runs every linker once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Threads for each linker, and processors to run on
    #[arg(long, default_value_t = 2)]
    threads: usize,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CaseName {
    Tiny,
    Rust,
    Llvm,
    #[value(name = "generated-500")]
    Generated500,
    #[value(name = "generated-2000")]
    Generated2000,
    #[value(name = "generated-8000")]
    Generated8000,
}

impl CaseName {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }

    fn description(self) -> &'static str {
        match self {
            CaseName::Tiny => "two C++ objects and the shared C++ library",
            CaseName::Rust => "ripgrep with full debug information, as cargo builds it in debug mode",
            CaseName::Llvm => "a C++ compiler for all targets, from the static archives of libclang and LLVM",
            CaseName::Generated500 => "500 generated objects",
            CaseName::Generated2000 => "2,000 generated objects",
            CaseName::Generated8000 => "8,000 generated objects",
        }
    }

    fn prepare(self, folder: &Path) -> Result<Case> {
        match self {
            CaseName::Tiny => programs::prepare_tiny(folder),
            CaseName::Rust => programs::prepare_rust(folder),
            CaseName::Llvm => programs::prepare_llvm(folder),
            CaseName::Generated500 => generated::prepare(folder, 500),
            CaseName::Generated2000 => generated::prepare(folder, 2000),
            CaseName::Generated8000 => generated::prepare(folder, 8000),
        }
    }
}

pub fn run(arguments: Arguments) -> Result<()> {
    let names = if arguments.cases.is_empty() { CaseName::value_variants() } else { &arguments.cases };
    let mut cases = vec![];
    for &name in names {
        let folder = arguments.directory.join(name.name());
        let case = prepared(name, &folder).with_context(|| format!("cannot prepare case {}", name.name()))?;
        cases.push((name, folder.canonicalize()?, case));
    }
    if arguments.prepare {
        cases.iter().for_each(|(name, folder, case)| print_prepared(*name, folder, case));
        return Ok(());
    }
    let ours = if arguments.peers_only { None } else { Some(sframe_ld(&arguments)?) };
    let linkers = linkers::find(ours.as_deref(), &arguments.peers, &arguments.linkers)?;
    let mut results = vec![];
    for (name, folder, case) in &cases {
        eprintln!("{}: {}", name.name(), name.description());
        let linkers = run_case(folder, case, &linkers, &arguments)?;
        results.push(CaseResult {
            name: name.name(),
            description: name.description(),
            objects: case.objects,
            linkers,
        });
    }
    let text = table::render(&results, &linkers, arguments.rounds, arguments.threads)?;
    print!("{text}");
    if arguments.write {
        std::fs::create_dir_all("benches")?;
        std::fs::write("benches/README.md", text)?;
    }
    match results.iter().flat_map(|case| &case.linkers).find(|result| result.name == "sframe-ld") {
        Some(LinkerResult { outcome: Err(problem), .. }) => bail!("sframe-ld failed: {problem}"),
        _ => Ok(()),
    }
}

/// The case in `folder`, made now if it is not there or of an older recipe.
fn prepared(name: CaseName, folder: &Path) -> Result<Case> {
    if let Some(case) = Case::load(folder) {
        return Ok(case);
    }
    eprintln!("preparing {}", name.name());
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let case = name.prepare(folder)?;
    case.save(folder)?;
    Ok(case)
}

fn print_prepared(name: CaseName, folder: &Path, case: &Case) {
    println!("{}: {}", name.name(), name.description());
    println!("  folder     {}", folder.display());
    println!("  arguments  {} ({} words)", folder.join("link.args").display(), case.link.len());
    println!("  link       cd {} && LINKER @link.args -o output", folder.display());
    println!("  run        cd {} && ./output {}", folder.display(), case.run.join(" "));
}

/// The linker to time: the one named, or a release build of this workspace.
fn sframe_ld(arguments: &Arguments) -> Result<PathBuf> {
    if let Some(path) = &arguments.sframe_ld {
        return path.canonicalize().with_context(|| format!("no linker at {}", path.display()));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let words =
        ["build", "--release", "--package", "sframe-ld", "--bin", "sframe-ld", "--message-format=json"];
    let text = case::must_run(Path::new("."), cargo, &words.map(String::from))?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut executables = messages.filter_map(|message| Some(message.get("executable")?.as_str()?.into()));
    executables.next_back().context("cargo build reports no executable")
}

/// Links `case` with every linker in turns.
fn run_case(
    folder: &Path,
    case: &Case,
    linkers: &[Linker],
    arguments: &Arguments,
) -> Result<Vec<LinkerResult>> {
    let mut results = vec![];
    for linker in linkers {
        let outcome = run_once(folder, case, linker, arguments)?;
        let size = output_path(folder, linker).metadata().map_or(0, |metadata| metadata.len());
        let outcome = outcome
            .and_then(|_| case.check(folder, &output_path(folder, linker)))
            .map(|()| vec![])
            .inspect_err(|problem| eprintln!("  {}: {problem}", linker.name));
        results.push(LinkerResult { name: linker.name.clone(), output_size: size, outcome });
    }
    for round in 0..arguments.rounds as usize {
        for turn in 0..linkers.len() {
            let number = (round + turn) % linkers.len();
            if results[number].outcome.is_err() {
                continue;
            }
            match run_once(folder, case, &linkers[number], arguments)? {
                Ok(cost) => results[number].outcome.iter_mut().for_each(|costs| costs.push(cost.clone())),
                Err(problem) => results[number].outcome = Err(problem),
            }
        }
    }
    for linker in linkers {
        drop(std::fs::remove_file(output_path(folder, linker)));
    }
    Ok(results)
}

fn output_path(folder: &Path, linker: &Linker) -> PathBuf {
    folder.join(format!("output-{}", linker.name))
}

/// One link to a fresh output file: its cost, or the error.
fn run_once(
    folder: &Path,
    case: &Case,
    linker: &Linker,
    arguments: &Arguments,
) -> Result<Result<Cost, String>> {
    let output = output_path(folder, linker);
    drop(std::fs::remove_file(&output));
    let mut command = linker.command.clone();
    command.extend(linkers::thread_arguments(linker, arguments.threads));
    command.extend(case.link.iter().cloned());
    command.extend(["-o".into(), output.display().to_string()]);
    let run = measure::measure(folder, arguments.threads, &command)?;
    if run.cost.success {
        return Ok(Ok(run.cost));
    }
    let first_lines: Vec<&str> = run.messages.lines().take(3).collect();
    Ok(Err(format!("link failed: {}", first_lines.join(" | "))))
}
