//! Measures one link.

use std::path::PathBuf;

use ::peers::Linker;
use anyhow::Result;

use super::case::Case;
use super::measure::{Cost, measure};
use super::workload::Workload;

/// What lies at the output's place before a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// The output of the previous link.
    Output,
}

/// A workload that is ready to be linked.
pub struct Bench {
    pub workload: Workload,
    /// The folder of its inputs.
    pub folder: PathBuf,
    /// The folder of the outputs.
    pub outputs: PathBuf,
    pub case: Case,
    /// The processors that each linker may use.
    pub processors: usize,
}

impl Bench {
    /// The same with outputs in another folder.
    pub fn with_outputs(&self, outputs: PathBuf) -> Bench {
        let Bench { workload, processors, .. } = *self;
        Bench { workload, folder: self.folder.clone(), outputs, case: self.case.clone(), processors }
    }

    /// Where a linker writes.
    pub fn output(&self, linker: &Linker) -> PathBuf {
        self.outputs.join(format!("output-{}", linker.name.replace(' ', "")))
    }

    /// Links once and returns the cost, or the error. The linker already has the workload's arguments
    /// ([`Workload::taking`]).
    pub fn link(&self, linker: &Linker, before: Before) -> Result<Result<Cost, String>> {
        let output = self.output(linker);
        if before == Before::Nothing {
            drop(std::fs::remove_file(&output));
        }
        let mut command = linker.command.clone();
        command.extend(self.case.link.iter().cloned());
        command.extend(["-o".into(), output.display().to_string()]);
        let run = measure(&self.folder, self.processors, &command)?;
        if run.cost.success {
            return Ok(Ok(run.cost));
        }
        let first_lines: Vec<&str> = run.messages.lines().take(3).collect();
        Ok(Err(format!("link failed: {}", first_lines.join(" | "))))
    }

    /// Removes the outputs of these linkers.
    pub fn clean(&self, linkers: &[Linker]) {
        linkers.iter().for_each(|linker| drop(std::fs::remove_file(self.output(linker))));
    }
}
