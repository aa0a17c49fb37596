//! Proves tables that stand in place of `.eh_frame`: of well-known system files, a table of version 2 says
//! the same as the call frame information, for every register at every address, as gimli reads it, with the
//! personality routines and the language-specific data. What a table cannot say is listed, with the reasons.
//!
//! `sframe unwind-table` makes the table of a finished file in memory and compares. The record is what the
//! page about these tables shows.

use super::proof::Proof;
use super::system_files::{FILES, S390X_FILES, find, packaged};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The most that the tables of all files may take, with the frames that stay, as a share of `.eh_frame` and
/// its header.
const OF_FRAMES: f64 = 0.19;

/// What `sframe unwind-table --json` says of a file. Sizes are in bytes.
#[derive(Deserialize)]
struct Report {
    functions: u64,
    handlers: u64,
    table_size: u64,
    frames_size: u64,
    kept_size: u64,
    /// How many frames stay, by the reason.
    kept: BTreeMap<String, u64>,
    addresses_compared: u64,
    differences: Vec<serde_json::Value>,
}

/// Sums over files.
#[derive(Default)]
struct Sum {
    functions: u64,
    handlers: u64,
    size: u64,
    frames: u64,
    kept: u64,
    addresses: u64,
}

impl Sum {
    fn of(report: &Report) -> Self {
        Sum {
            functions: report.functions,
            handlers: report.handlers,
            size: report.table_size + report.kept_size,
            frames: report.frames_size,
            kept: report.kept.values().sum(),
            addresses: report.addresses_compared,
        }
    }

    fn add(&mut self, other: &Sum) {
        self.functions += other.functions;
        self.handlers += other.handlers;
        self.size += other.size;
        self.frames += other.frames;
        self.kept += other.kept;
        self.addresses += other.addresses;
    }

    fn share(&self) -> f64 {
        self.size as f64 / self.frames.max(1) as f64
    }

    fn row(&self, name: &str) -> String {
        let each = self.size as f64 / self.functions.max(1) as f64;
        let Sum { functions, handlers, size, frames, kept, addresses } = self;
        format!(
            "| {name} | {functions} | {handlers} | {frames} | {size} | {each:.1} | {:.3} | {kept} | {addresses} |",
            self.share()
        )
    }
}

pub fn unwind_table(proof: &mut Proof, sframe: &Path) -> Result<()> {
    proof.note(
        "| file | functions | with a personality routine | `.eh_frame` + header | table, and frames that stay | for a function | \
         share | frames that stay | addresses compared |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    )?;
    let (mut machines, mut reasons, mut missing) =
        (BTreeMap::<String, Sum>::new(), BTreeMap::<String, u64>::new(), Vec::new());
    let own = FILES.into_iter().chain(S390X_FILES).map(|(name, parts)| (name.to_owned(), find(parts)));
    for (name, path) in own.chain(packaged()) {
        let path = match path {
            Ok(Some(path)) => path,
            Ok(None) => {
                missing.push(name);
                continue;
            }
            Err(error) => {
                missing.push(format!("{name} ({error:#})"));
                continue;
            }
        };
        let report = examined(proof, sframe, &path)?;
        for (reason, count) in &report.kept {
            *reasons.entry(reason.clone()).or_default() += count;
        }
        let sum = Sum::of(&report);
        proof.note(sum.row(&name))?;
        let machine = name.split_once(", ").map_or("x86-64", |(_, machine)| machine);
        machines.entry(machine.to_owned()).or_default().add(&sum);
    }
    let mut all = Sum::default();
    for (machine, sum) in &machines {
        proof.note(sum.row(&format!("**all, {machine}**")))?;
        all.add(sum);
    }
    proof.note(all.row("**all**"))?;
    if !missing.is_empty() {
        proof.note(format!("\nNot on this machine: {}.", missing.join("; ")))?;
    }
    proof.note(
        "\nAt every address, the table gives every register the place that gimli's evaluation gives it, and every function its \
         personality routine and language-specific data: 0 differences. Frames that stay, by the reason:\n",
    )?;
    for (reason, count) in &reasons {
        proof.note(format!("- {count}: {reason}"))?;
    }
    ensure!(all.functions > 0, "none of the files is on this machine");
    ensure!(all.share() <= OF_FRAMES, "{:.3} of .eh_frame", all.share());
    Ok(())
}

/// Compares a table of a file with its frames.
fn examined(proof: &Proof, sframe: &Path, path: &Path) -> Result<Report> {
    let said = proof.tool(sframe, &["unwind-table", "--json", &path.display().to_string()])?;
    let reports: Vec<Report> = serde_json::from_str(&said)?;
    let report = reports.into_iter().next().with_context(|| format!("nothing about {}", path.display()))?;
    ensure!(report.differences.is_empty(), "{}: {:?}", path.display(), report.differences);
    Ok(report)
}
