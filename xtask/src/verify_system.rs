//! Proves derivation on a whole Debian system: SFrame is derived in memory for every ELF file, and each row
//! is compared with the call frame information that it comes from. `tests/proofs/debian.md` has the result.

use crate::commands;
use crate::install::{Program, SframeCommand};
use crate::records::{self, Measured};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Folders whose ELF files are verified, instead of /usr/bin and /usr/lib/TRIPLE
    folders: Vec<PathBuf>,
    #[command(flatten)]
    command: SframeCommand,
    /// Do not write to tests/proofs
    #[arg(long)]
    no_record: bool,
}

/// The part of `sframe verify --json` that this reads.
#[derive(Deserialize)]
struct Report {
    files: Vec<File>,
    total: Total,
}

#[derive(Deserialize)]
struct File {
    file: String,
    comparison: Option<Comparison>,
}

#[derive(Deserialize)]
struct Comparison {
    uncovered: BTreeMap<String, Count>,
    unreadable: Vec<String>,
}

#[derive(Deserialize)]
struct Total {
    files: u64,
    unusable: u64,
    errors: u64,
    warnings: u64,
    cfi: Count,
    covered: Count,
    wrong: Count,
    extra: Count,
    stretches: u64,
    uncovered: BTreeMap<String, Count>,
}

#[derive(Clone, Copy, Deserialize)]
struct Count {
    functions: u64,
    bytes: u64,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let command = arguments.command.path()?;
    let folders = if arguments.folders.is_empty() { system_folders()? } else { arguments.folders };
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let mut record = format!("# `cargo xtask verify-system`\n\n{}\n", heading(&command)?);
    writeln!(record, "SFrame derived in memory from every ELF file below {}.", names.join(" and "))?;
    let mut failures = Vec::new();
    for version in [3, 2] {
        let report = verify(&command, &folders, version)?;
        let text = describe(&report, version)?;
        print!("{text}");
        record.push_str(&text);
        failures.extend(complaints(&report.total, version));
    }
    if !arguments.no_record {
        records::write("debian", &record)?;
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn system_folders() -> Result<Vec<PathBuf>> {
    let triple = commands::first_line(Command::new("gcc").arg("-dumpmachine"))?;
    let libraries = Path::new("/usr/lib").join(triple);
    ensure!(libraries.is_dir(), "{} does not exist: no Debian system", libraries.display());
    Ok(vec!["/usr/bin".into(), libraries])
}

fn heading(command: &Path) -> Result<String> {
    let release = std::fs::read_to_string("/etc/debian_version").unwrap_or_default();
    let version = Measured(commands::version(command)?);
    Ok(format!("{}, {version}, Debian {}\n", records::today()?, Measured(release.trim())))
}

fn verify(command: &Path, folders: &[PathBuf], version: u8) -> Result<Report> {
    let mut verify = Command::new(command);
    verify.args(["verify", "--derived", "--json", "--sframe-version", &version.to_string()]).args(folders);
    let output = verify.output().with_context(|| format!("cannot start {}", command.display()))?;
    let code = output.status.code();
    if !matches!(code, Some(0..=2)) {
        bail!("sframe verify ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("sframe verify printed something else than its report")
}

fn describe(report: &Report, version: u8) -> Result<String> {
    let total = &report.total;
    let mut text = format!("\n## SFrame V{version}\n\n");
    let share = 100.0 * total.covered.functions as f64 / total.cfi.functions.max(1) as f64;
    writeln!(text, "- {} files, {} that could not be read", total.files, total.unusable)?;
    writeln!(text, "- {} functions, {} bytes of code in `.eh_frame`", total.cfi.functions, total.cfi.bytes)?;
    writeln!(text, "- expressed in full: {} functions, **{share:.4} %**", total.covered.functions)?;
    writeln!(
        text,
        "- {} stretches of code compared: {} functions wrong",
        total.stretches, total.wrong.functions
    )?;
    writeln!(text, "- structure: {} errors, {} warnings", total.errors, total.warnings)?;
    writeln!(text, "- beyond `.eh_frame`: {} functions", total.extra.functions)?;
    if total.uncovered.is_empty() {
        return Ok(text);
    }
    writeln!(text, "\n| not expressed because of | functions | bytes |\n|---|---:|---:|")?;
    for (reason, count) in &total.uncovered {
        writeln!(text, "| {} | {} | {} |", reason.replace('-', " "), count.functions, count.bytes)?;
    }
    writeln!(text, "\n| most of them in | functions |\n|---|---:|")?;
    for (file, functions) in worst(&report.files) {
        writeln!(text, "| {file} | {functions} |")?;
    }
    let unreadable = report.files.iter().filter_map(|file| Some((file, file.comparison.as_ref()?)));
    for (file, reason) in unreadable.flat_map(|(file, found)| found.unreadable.iter().map(move |r| (file, r)))
    {
        writeln!(text, "\nUnreadable in {}: {reason}", file.file)?;
    }
    Ok(text)
}

/// The files with the most functions that are not expressed.
fn worst(files: &[File]) -> Vec<(&str, u64)> {
    let count = |file: &File| -> u64 {
        let uncovered = file.comparison.as_ref().map(|found| &found.uncovered);
        uncovered.into_iter().flat_map(|reasons| reasons.values()).map(|count| count.functions).sum()
    };
    let mut counts: Vec<(&str, u64)> = files.iter().map(|file| (file.file.as_str(), count(file))).collect();
    counts.retain(|(_, count)| *count > 0);
    counts.sort_by_key(|(file, count)| (std::cmp::Reverse(*count), *file));
    counts.truncate(10);
    counts
}

/// The requirements that the totals break.
fn complaints(total: &Total, version: u8) -> Vec<String> {
    let left_out = total.uncovered.get("expressible").map_or(0, |count| count.functions);
    let demands = [
        (total.files > 0 && total.cfi.functions > 0, "nothing was verified"),
        (total.wrong.functions == 0, "rows differ from call frame information"),
        (total.errors == 0, "sections are malformed"),
        (left_out == 0, "functions are left out that the version can express"),
    ];
    let failed = demands.iter().filter(|(holds, _)| !holds);
    failed.map(|(_, complaint)| format!("V{version}: {complaint}")).collect()
}
