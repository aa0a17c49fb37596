//! The command line of `ld-compare`.

use crate::conformance;
use crate::lab::Choice;
use crate::peers::Wanted;
use crate::random;
use crate::reduce::Goal;
use crate::run::Limits;
use anyhow::{Error, Result, anyhow};
use clap::{Args, Parser, Subcommand};
use diagnostics::Color;
use sframe::destination::{self, Way};
use std::path::{Path, PathBuf};

/// Runs the same link through several linkers and shows where they disagree.
#[derive(Parser, Debug)]
#[command(name = "ld-compare", version, max_term_width = 110)]
pub struct Arguments {
    /// Colours of messages
    #[arg(long, value_enum, global = true, default_value_t, value_name = "WHEN")]
    pub color: Color,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Link cases with every linker and compare the results
    Run(Run),
    /// Record the links of a build, so that they can be run again
    Capture(Capture),
    /// Link generated section-group violations, and judge the output of each linker
    Lab(Lab),
    /// Link random programs with every linker, run them, and compare what they do
    Random(Random),
    /// Make a failing link as small as possible
    Reduce(Reduce),
    /// Show which assembler, linker and reader keeps which rule of SFrame in ELF
    Conformance(Conformance),
}

/// `ld-compare run`.
#[derive(Args, Debug)]
pub struct Run {
    /// Folders with a case.json (or of such folders), tarballs of --reproduce
    pub cases: Vec<PathBuf>,
    #[command(flatten)]
    pub wanted: Wanted,
    #[command(flatten)]
    pub limits: Limits,
    /// Accepted differences, by the version of each linker; exit 1 if there is any other
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Add all differences, and all new versions, to the baseline
    #[arg(long, requires = "baseline")]
    pub record_baseline: bool,
    #[command(flatten)]
    pub output: Output,
    /// A link's arguments, as a linker takes them
    #[arg(last = true, value_name = "ARGUMENT")]
    pub arguments: Vec<String>,
}

/// Outputs of the report.
#[derive(Args, Debug)]
pub struct Output {
    /// Write everything as JSON to FILE (`-` for standard output, instead of the text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a self-contained page to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Output {
    /// Checks, before any link, that the reports can be written.
    ///
    /// # Errors
    /// A report cannot be written, or two of them go into the same file.
    pub fn check(&self) -> Result<()> {
        let json = self.json.as_deref().filter(|path| *path != Path::new("-"));
        check_files(&[json, self.html.as_deref()])
    }
}

/// Checks that each of these files can be written, and that no two of them are the same file.
///
/// # Errors
/// One cannot be written, or two are the same.
pub fn check_files(files: &[Option<&Path>]) -> Result<()> {
    let files: Vec<&Path> = files.iter().copied().flatten().collect();
    for (number, path) in files.iter().enumerate() {
        destination::check(path, Way::Written).map_err(|why| anyhow!("{}: {why}", path.display()))?;
        files[..number]
            .iter()
            .try_for_each(|other| destination::check_apart(path, other))
            .map_err(Error::msg)?;
    }
    Ok(())
}

/// Checks that a folder exists or can be made.
///
/// # Errors
/// It cannot be made.
pub fn check_folder(folder: Option<&Path>) -> Result<()> {
    let checked = folder.map_or(Ok(()), destination::check_new_folder);
    checked.map_err(|why| anyhow!("{}: {why}", folder.unwrap_or(Path::new("")).display()))
}

/// `ld-compare capture`.
#[derive(Args, Debug)]
pub struct Capture {
    /// Folder for the recorded links: each gets a folder in it, with a case.json
    #[arg(long, env = "LD_COMPARE_LOG", value_name = "DIR")]
    pub log: PathBuf,
    /// Make a folder that contains `ld` and its other names, for `gcc -B`; each records the link and then
    /// links
    #[arg(long, value_name = "DIR", conflicts_with = "link")]
    pub setup: Option<PathBuf>,
    /// The linker that the folder's `ld` runs
    #[arg(long, value_name = "LD", default_value = "ld")]
    pub real: PathBuf,
    /// The real linker and its arguments
    #[arg(last = true, value_name = "LD ARGUMENT")]
    pub link: Vec<String>,
}

/// `ld-compare lab`.
#[derive(Args, Debug)]
pub struct Lab {
    #[command(flatten)]
    pub choice: Choice,
    #[command(flatten)]
    pub wanted: Wanted,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub output: Output,
}

/// `ld-compare random`.
#[derive(Args, Debug)]
pub struct Random {
    #[command(flatten)]
    pub choice: random::Choice,
    #[command(flatten)]
    pub wanted: Wanted,
}

/// `ld-compare reduce`.
#[derive(Args, Debug)]
pub struct Reduce {
    /// A folder with a case.json, or a tarball of --reproduce
    pub case: Option<PathBuf>,
    #[command(flatten)]
    pub goal: Goal,
    #[command(flatten)]
    pub wanted: Wanted,
    #[command(flatten)]
    pub limits: Limits,
    /// Folder for the reduced case
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// A link's arguments, as a linker takes them
    #[arg(last = true, value_name = "ARGUMENT")]
    pub arguments: Vec<String>,
}

/// `ld-compare conformance`.
#[derive(Args, Debug)]
pub struct Conformance {
    #[command(flatten)]
    pub choice: conformance::Choice,
    #[command(flatten)]
    pub limits: Limits,
}
