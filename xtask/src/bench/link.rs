//! One measured link, and builds of ours to measure.

use std::path::{Path, PathBuf};

use ::peers::Linker;
use anyhow::{Context, Result};

use super::case::{Case, must_run};
use super::linkers::thread_arguments;
use super::measure::{Cost, measure};
use super::workload::Workload;

/// What is at the output's place before a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// The output of the link before.
    Output,
}

/// A workload that is ready to be linked.
pub struct Bench {
    pub workload: Workload,
    /// The folder of its inputs.
    pub folder: PathBuf,
    pub case: Case,
    /// Threads for each linker, and processors to run on.
    pub threads: usize,
}

impl Bench {
    /// Where a linker writes.
    pub fn output(&self, linker: &Linker) -> PathBuf {
        self.folder.join(format!("output-{}", linker.name.replace(' ', "")))
    }

    /// One link by a linker that has the workload's arguments ([`Workload::taking`]): its cost, or the error.
    pub fn link(&self, linker: &Linker, before: Before) -> Result<Result<Cost, String>> {
        let output = self.output(linker);
        if before == Before::Nothing {
            drop(std::fs::remove_file(&output));
        }
        let mut command = linker.command.clone();
        command.extend(thread_arguments(linker, self.threads));
        command.extend(self.case.link.iter().cloned());
        command.extend(["-o".into(), output.display().to_string()]);
        let run = measure(&self.folder, self.threads, &command)?;
        if run.cost.success {
            return Ok(Ok(run.cost));
        }
        let first_lines: Vec<&str> = run.messages.lines().take(3).collect();
        Ok(Err(format!("link failed: {}", first_lines.join(" | "))))
    }

    /// Removes the outputs of linkers.
    pub fn clean(&self, linkers: &[Linker]) {
        linkers.iter().for_each(|linker| drop(std::fs::remove_file(self.output(linker))));
    }
}

/// A program of ours from a release build of a work tree.
pub fn release_build(tree: &Path, program: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let words = ["build", "--release", "--package", "sframe-ld", "--bin", program, "--message-format=json"];
    let text = must_run(tree, cargo, &words.map(String::from))?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut executables = messages.filter_map(|message| Some(message.get("executable")?.as_str()?.into()));
    executables.next_back().context("cargo build reports no executable")
}
