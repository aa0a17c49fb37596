//! Links a benchmark case with several linkers, with and without an option, in turns: if the machine's speed
//! changes, it changes for all of them.

use super::proof::Proof;
use crate::bench::case::Case;
use crate::bench::workload::Workload;
use crate::bench::{linkers, measure};
use ::peers::{Family, Linker};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// Processors that each link may use, as in the benchmarks.
const PROCESSORS: usize = 2;

/// A benchmark case that is ready to be linked.
pub struct Turns {
    pub folder: PathBuf,
    pub case: Case,
    /// This linker, and the peers that support the option.
    pub linkers: Vec<Linker>,
}

/// The folder and the case of a workload; from the benchmarks' folder if the case is prepared there.
pub fn prepared(proof: &Proof, workload: Workload) -> Result<(PathBuf, Case)> {
    let shared = std::env::var_os("SFRAME_BENCH").map_or_else(|| proof.folder.clone(), PathBuf::from);
    let folder = shared.join(workload.folder());
    let case = workload.prepared(&folder)?;
    Ok((folder, case))
}

/// The median wall times in seconds, by linker and option.
pub type Seconds = Vec<Vec<f64>>;

impl Turns {
    /// Prepares the workload and the linkers of these families.
    pub fn new(proof: &Proof, workload: Workload, families: &[Family]) -> Result<Self> {
        let (folder, case) = prepared(proof, workload)?;
        let ours = proof.folder.join("installed/bin/sframe-ld");
        let mut linkers = linkers::find(Some(&ours), &crate::peers::folder(), &[])?;
        linkers.retain(|linker| linker.is_ours() || families.contains(&linker.family));
        Ok(Turns { folder, case, linkers })
    }

    pub fn output(&self, proof: &Proof, linker: &Linker, option: &str) -> PathBuf {
        proof.folder.join(format!("{}{option}", linker.name).replace(['=', ' '], "-"))
    }

    /// Links with each of `options` and every linker: once for the outputs, then in `rounds` for the times.
    pub fn run(&self, proof: &Proof, options: &[&str], rounds: usize) -> Result<Seconds> {
        let mut times = vec![vec![Vec::new(); options.len()]; self.linkers.len()];
        for round in 0..=rounds {
            for turn in 0..self.linkers.len() {
                // Each round begins with another linker.
                let number = (turn + round) % self.linkers.len();
                let linker = &self.linkers[number];
                for (option, times) in options.iter().zip(&mut times[number]) {
                    let output = self.output(proof, linker, option);
                    let mut command = linker.command.clone();
                    command.extend(self.case.link.iter().cloned());
                    command.extend([(*option).to_owned(), "-o".into(), output.display().to_string()]);
                    let run = measure::measure(&self.folder, PROCESSORS, &command)?;
                    ensure!(run.cost.success, "{} {option}: {}", linker.name, run.messages);
                    if round > 0 {
                        times.push(run.cost.wall);
                    }
                }
            }
        }
        let medians = times.into_iter().map(|options| {
            options.into_iter().map(|times| measure::median(times).unwrap_or(f64::NAN)).collect()
        });
        Ok(medians.collect())
    }

    /// The row of the first linker of a family.
    pub fn row(&self, family: Family) -> Result<usize> {
        let found = self.linkers.iter().position(|linker| linker.family == family);
        found.with_context(|| format!("no linker of the family {family:?}; run cargo xtask peers"))
    }
}
