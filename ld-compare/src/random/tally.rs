//! Counts the results of a run of random programs.

use super::bench::Bench;
use super::choice::Choice;
use super::judge::{Outcome, Verdict};
use super::link::Way;
use crate::peers::Linker;
use anyhow::{Result, ensure};
use diagnostics::words;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Stands for a linker in a finding: the others have no majority, but for everything that this project's
/// linker did, at least one of them did the same.
pub const UNSETTLED: &str = "unsettled";
/// Stands for a linker in a finding: the others have no majority, and this project's linker did something
/// that none of them did ([`super::judge::stands_alone`]).
pub const ALONE: &str = "unsettled, none like ours";

/// A disagreement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The program's seed.
    pub seed: u64,
    /// The number of the way to link it.
    pub way: usize,
    /// The kind of output.
    pub output: String,
    /// The linker that disagrees, or [`UNSETTLED`] or [`ALONE`].
    pub linker: String,
    /// The differences.
    pub lines: Vec<String>,
}

impl Finding {
    /// The finding in a few lines.
    pub fn text(&self) -> String {
        let lines: String = self.lines.iter().take(6).map(|line| format!("\n  {line}")).collect();
        format!("seed {} way {} ({}), {}:{lines}", self.seed, self.way, self.output, self.linker)
    }
}

/// The counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// The machine.
    pub machine: String,
    /// The first seed.
    pub seed: u64,
    /// Ways to link each description.
    pub ways: u64,
    /// The linkers.
    pub linkers: Vec<Linker>,
    /// Number of descriptions.
    pub descriptions: u64,
    /// Number of programs: a description that every linker links in one way is one.
    pub programs: u64,
    /// Programs by the kind of output.
    pub outputs: BTreeMap<String, u64>,
    /// Programs by the parts that they contain: `.sframe`, C, a script and so on.
    pub parts: BTreeMap<String, u64>,
    /// Number of values that programs noted which this project's linker linked.
    pub notes: u64,
    /// Programs on which all linkers agree.
    pub agreed: u64,
    /// Programs that all linkers refused.
    pub refused: u64,
    /// Programs on which one or two of the others disagree with the rest.
    pub others: u64,
    /// Programs on which the others have no majority.
    pub unsettled: u64,
    /// Programs on which the majority disagrees with this project's linker.
    pub ours: u64,
    /// All disagreements.
    pub findings: Vec<Finding>,
}

impl Tally {
    /// Counts of nothing yet.
    pub fn new(choice: &Choice, bench: &Bench) -> Self {
        Tally {
            machine: choice.machine.name().into(),
            seed: choice.seed,
            ways: choice.ways,
            linkers: bench.linkers.clone(),
            descriptions: 0,
            programs: 0,
            outputs: BTreeMap::new(),
            parts: BTreeMap::new(),
            notes: 0,
            agreed: 0,
            refused: 0,
            others: 0,
            unsettled: 0,
            ours: 0,
            findings: Vec::new(),
        }
    }

    /// Checks that the run with these counts can be continued.
    ///
    /// # Errors
    /// It has other programs or other linkers.
    pub fn check(&self, choice: &Choice, bench: &Bench) -> Result<()> {
        let versions = |linkers: &[Linker]| linkers.iter().map(|it| it.version.clone()).collect::<Vec<_>>();
        let same = self.machine == choice.machine.name()
            && (self.seed, self.ways) == (choice.seed, choice.ways)
            && versions(&self.linkers) == versions(&bench.linkers);
        ensure!(same, "the file of --json is of another run: remove it to start anew");
        Ok(())
    }

    /// Counts one link with all linkers.
    pub fn count(&mut self, way: &Way, outcomes: &[Outcome], verdict: &Verdict, parts: &[&str]) {
        self.programs += 1;
        parts.iter().for_each(|part| *self.parts.entry((*part).to_owned()).or_default() += 1);
        *self.outputs.entry(format!("{:?}", way.output)).or_default() += 1;
        if let Some(Outcome::Ran(_, text)) = outcomes.first() {
            self.notes += text.lines().count() as u64;
        }
        match verdict {
            Verdict::Agreed if matches!(outcomes[0], Outcome::Refused(_)) => self.refused += 1,
            Verdict::Agreed => self.agreed += 1,
            Verdict::OthersDiffer(_) => self.others += 1,
            Verdict::Unsettled => self.unsettled += 1,
            Verdict::OursDiffers(_) => self.ours += 1,
        }
    }

    /// Adds the counts of one description.
    pub fn add(&mut self, more: Tally) {
        self.programs += more.programs;
        self.notes += more.notes;
        self.agreed += more.agreed;
        self.refused += more.refused;
        self.others += more.others;
        self.unsettled += more.unsettled;
        self.ours += more.ours;
        for (output, count) in more.outputs {
            *self.outputs.entry(output).or_default() += count;
        }
        for (part, count) in more.parts {
            *self.parts.entry(part).or_default() += count;
        }
        self.findings.extend(more.findings);
    }

    /// The counts in a few lines.
    pub fn summary(&self) -> String {
        let outputs: Vec<String> =
            self.outputs.iter().map(|(output, count)| format!("{count} {output}")).collect();
        let parts: Vec<String> =
            self.parts.iter().map(|(part, count)| format!("{count} with {part}")).collect();
        let mut text = format!(
            "{}: {} programs of {} descriptions ({}; {}), {} values noted\n\
             all agree: {}; all refuse: {}; others differ: {}; unsettled: {}; ours differs: {}\n",
            self.machine,
            self.programs,
            self.descriptions,
            outputs.join(", "),
            parts.join(", "),
            self.notes,
            self.agreed,
            self.refused,
            self.others,
            self.unsettled,
            self.ours
        );
        let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
        self.findings.iter().for_each(|finding| *counted.entry(&finding.linker).or_default() += 1);
        counted.iter().for_each(|(linker, count)| {
            text.push_str(&format!("{linker}: {}\n", words::count(*count, "finding")));
        });
        text
    }

    /// Disagreements about this project's linker, and complaints about its files.
    pub fn open(&self) -> impl Iterator<Item = &Finding> {
        let ours = self.linkers.first().map_or("", |linker| &linker.name);
        self.findings.iter().filter(move |finding| finding.linker == ours)
    }
}
