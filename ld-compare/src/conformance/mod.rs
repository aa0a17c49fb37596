//! A conformance suite for SFrame in ELF: which assembler, linker or reader keeps which rule.
//!
//! A case is a small input, a command, and facts that must hold. The inputs are written by this program, so
//! they have the same bytes everywhere; the tools are any that a command line starts. Facts are read from
//! parsed structures, never from the words of a message.
//!
//! | module | contents |
//! |---|---|
//! | `case` | cases, facts, and the sentences behind them |
//! | `blob`, `shapes`, `program` | inputs: SFrame bytes, every kind of function, objects |
//! | `linked`, `objects` | what outputs say of functions |
//! | `assemblers`, `linkers`, `readers` | the cases |
//! | `tools` | the tools under test, and how they run a case |
//! | `matrix` | the results |
//! | `record` | known results of tools and versions, with reasons |
//! | `report` | the results in several forms |
//! | `reproduce` | one case as a folder with a script |

mod assemblers;
pub mod blob;
pub mod case;
pub mod linked;
mod linkers;
pub mod matrix;
mod objects;
pub mod program;
mod readers;
pub mod record;
mod report;
pub mod reproduce;
mod shapes;
pub mod tools;

pub use report::{Format, changes, list, write};

use crate::progress::Progress;
use crate::run::Limits;
use anyhow::{Result, ensure};
use case::{Case, Kind, Verdict, judge};
use glob::Pattern;
use matrix::{Column, Matrix};
use std::path::PathBuf;
use tools::{Chosen, Runner};

/// What to run.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Choice {
    #[command(flatten)]
    pub tools: Chosen,
    /// Cases by name; `*` and `?` stand for any characters [default: all]
    #[arg(long = "case", value_name = "GLOB")]
    pub cases: Vec<String>,
    /// List the cases with their facts, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Form of the results
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// Write the results here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Known results of tools and versions: show what changed, and exit with 1 only if something is worse
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Take these results into the baseline
    #[arg(long, requires = "baseline")]
    pub bless: bool,
    /// Write one case into a folder, with a script that runs it, and run nothing
    #[arg(long, value_name = "CASE", requires = "into")]
    pub reproduce: Option<String>,
    /// Folder for the case
    #[arg(long, value_name = "DIR", requires = "reproduce")]
    pub into: Option<PathBuf>,
}

/// Every case.
pub fn cases() -> Vec<Case> {
    [assemblers::cases(), linkers::cases(), readers::cases()].into_iter().flatten().collect()
}

/// The cases that a choice names.
///
/// # Errors
/// A pattern is malformed, or names none.
pub fn chosen(choice: &Choice) -> Result<Vec<Case>> {
    let patterns: Vec<Pattern> =
        choice.cases.iter().map(|text| Pattern::new(text)).collect::<Result<_, _>>()?;
    let mut cases = cases();
    for pattern in &patterns {
        ensure!(cases.iter().any(|case| pattern.matches(&case.name())), "no case is named {pattern}");
    }
    cases.retain(|case| patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(&case.name())));
    Ok(cases)
}

/// Runs the cases by every tool, and shows progress on standard error.
///
/// # Errors
/// A tool cannot be started, or there is no room for temporary files.
pub fn run(choice: &Choice, limits: &Limits) -> Result<Matrix> {
    let cases = chosen(choice)?;
    let tools = choice.tools.find()?;
    let of = |kind: Kind| cases.iter().filter(move |case| case.kind == kind).count();
    let all = tools.iter().map(|tool| of(tool.kind)).sum();
    ensure!(all > 0, "none of these cases is for these tools");
    let mut progress = Progress::new(all, "cases");
    let mut columns = Vec::new();
    for tool in tools {
        progress.at(&tool.name);
        let mut runner = Runner::new(&tool, limits);
        let mut verdicts = Vec::new();
        for case in &cases {
            verdicts.push(if case.kind == tool.kind { Some(one(&mut runner, case)?) } else { None });
            progress.done(usize::from(case.kind == tool.kind));
        }
        columns.push(Column { tool, verdicts });
    }
    Ok(Matrix { cases, columns })
}

fn one(runner: &mut Runner<'_>, case: &Case) -> Result<Verdict> {
    if let Some(reason) = runner.absent(case)? {
        return Ok(Verdict::Absent(reason));
    }
    Ok(judge(case, &runner.run(case)?))
}
