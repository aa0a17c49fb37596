//! The violations lab: links generated cases that break the section-group rule, and judges each linker's
//! output.
//!
//! Each shape is linked in four ways: in one step, with `--gc-sections`, with `-r`, and with `-r` and then a
//! final link. The verdict follows from the output and the messages of the run.

mod findings;
mod mode;
mod report;
pub mod shapes;
pub mod verdict;

pub use mode::Mode;
pub use report::{markdown, page};

use crate::cases::{Case, CaseFile, FILE, build};
use crate::compare::today;
use crate::machine::Machine;
use crate::peers::{Linker, Wanted, assembler};
use crate::progress::Progress;
use crate::run::{self, Limits};
use anyhow::{Context, Result};
use serde::Serialize;
use shapes::{SHAPES, Shape};
use std::path::{Path, PathBuf};
use verdict::Verdict;

/// The verdicts on one shape that was linked in one way for one machine.
#[derive(Debug, Serialize)]
pub struct Row {
    pub machine: Machine,
    /// The shape's name.
    pub shape: &'static str,
    /// How it is linked.
    pub mode: Mode,
    /// The verdicts, in the order of the machine's linkers.
    pub verdicts: Vec<Verdict>,
}

/// The linkers of a machine.
#[derive(Debug, Serialize)]
pub struct Bench {
    pub machine: Machine,
    /// First line of the assembler's `--version`.
    pub assembler: String,
    /// Columns of the matrix.
    pub linkers: Vec<Linker>,
}

/// The whole matrix.
#[derive(Debug, Serialize)]
pub struct Matrix {
    /// The date, as `YYYY-MM-DD`.
    pub date: String,
    /// The linkers of each machine.
    pub benches: Vec<Bench>,
    /// Their verdicts.
    pub rows: Vec<Row>,
}

/// The part of the lab to run.
#[derive(clap::Args, Debug, Default)]
pub struct Choice {
    /// A machine [default: every one that has an assembler]
    #[arg(long = "machine", value_name = "MACHINE")]
    pub machines: Vec<Machine>,
    /// The start of a shape's name [default: all shapes]
    #[arg(long = "shape", value_name = "NAME")]
    pub shapes: Vec<String>,
    /// Write the cases into this folder too, to run, reduce or change them
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
}

impl Choice {
    fn shapes(&self) -> impl Iterator<Item = &'static Shape> {
        let wanted = |shape: &&Shape| {
            self.shapes.is_empty() || self.shapes.iter().any(|name| shape.name.starts_with(&**name))
        };
        SHAPES.iter().filter(wanted)
    }
}

/// The machines and their linkers.
type Benches = Vec<(Machine, PathBuf, Vec<Linker>)>;

/// The chosen machines that have an assembler.
///
/// # Errors
/// An assembler or a linker that the user named does not exist.
fn benches(choice: &Choice, wanted: &Wanted) -> Result<Benches> {
    let machines = if choice.machines.is_empty() { &Machine::ALL[..] } else { &choice.machines };
    let mut benches = Vec::new();
    for &machine in machines {
        match assembler(&wanted.peers, machine) {
            Some(assembler) => benches.push((machine, assembler, wanted.find(machine)?)),
            None => anyhow::ensure!(choice.machines.is_empty(), "no assembler for {}", machine.name()),
        }
    }
    anyhow::ensure!(!benches.is_empty(), "no assembler, neither in {} nor on PATH", wanted.peers.display());
    anyhow::ensure!(
        choice.shapes().next().is_some(),
        "no shape of that name; there are: {}",
        SHAPES.iter().map(|shape| shape.name).collect::<Vec<_>>().join(", ")
    );
    Ok(benches)
}

/// Runs the lab and shows its progress on standard error.
///
/// # Errors
/// An assembler or a linker that the user named does not exist, or the assembler refuses a shape.
pub fn run(choice: &Choice, wanted: &Wanted, limits: &Limits) -> Result<Matrix> {
    let mut matrix = Matrix { date: today(), benches: Vec::new(), rows: Vec::new() };
    let benches = benches(choice, wanted)?;
    let columns: usize = benches.iter().map(|(_, _, linkers)| linkers.len()).sum();
    let links = choice.shapes().count() * Mode::ALL.len() * columns;
    let mut progress = Progress::new(links, "links");
    for (machine, assembler, linkers) in benches {
        for shape in choice.shapes() {
            progress.at(&format!("{} {}", machine.name(), shape.name));
            let folder = tempfile::Builder::new().prefix("ld-compare-lab-").tempdir()?;
            for mode in Mode::ALL {
                let case = case(shape, mode, machine, &assembler, folder.path())?;
                if let Some(cases) = &choice.cases {
                    keep(&case, folder.path(), cases)?;
                }
                let verdicts: Result<Vec<Verdict>> = linkers
                    .iter()
                    .map(|linker| Ok(verdict::judge(shape, mode, &run::run(linker, &case, limits)?)))
                    .collect();
                progress.done(linkers.len());
                matrix.rows.push(Row { machine, shape: shape.name, mode, verdicts: verdicts? });
            }
        }
        let version = Linker::probe("as", vec![assembler.display().to_string()])
            .map_or(String::new(), |as_| as_.version);
        matrix.benches.push(Bench { machine, assembler: version, linkers });
    }
    Ok(matrix)
}

/// Assembles a shape into a folder and makes a case of it.
///
/// # Errors
/// The assembler cannot be run, or refuses the shape.
pub fn case(shape: &Shape, mode: Mode, machine: Machine, assembler: &Path, folder: &Path) -> Result<Case> {
    for (name, text) in ["a", "b"].iter().zip(shapes::sources(shape, machine)) {
        let (source, object) = (format!("{name}.s"), format!("{name}.o"));
        if folder.join(&object).exists() {
            continue;
        }
        std::fs::write(folder.join(&source), text)?;
        let command = [assembler.display().to_string(), "-o".into(), object, source];
        build(&command, folder).with_context(|| format!("shape {}, {}", shape.name, machine.name()))?;
    }
    let mode_name = mode.name().trim_start_matches('-').replace(", ", "-").replace(' ', "-");
    Ok(Case {
        name: format!("{}-{}-{mode_name}", machine.name(), shape.name),
        machine,
        folder: folder.to_owned(),
        steps: mode.steps(machine),
        keep: None,
    })
}

fn keep(case: &Case, from: &Path, cases: &Path) -> Result<()> {
    let folder = cases.join(&case.name);
    std::fs::create_dir_all(&folder)?;
    for name in ["a.s", "b.s", "a.o", "b.o"] {
        std::fs::copy(from.join(name), folder.join(name))?;
    }
    let file = CaseFile {
        name: Some(case.name.clone()),
        machine: Some(case.machine),
        build: Vec::new(),
        steps: case.steps.clone(),
    };
    std::fs::write(folder.join(FILE), serde_json::to_string_pretty(&file)? + "\n")?;
    Ok(())
}
