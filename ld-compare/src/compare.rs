//! Runs cases with linkers and makes a report, which can become text, JSON or HTML.

use crate::baseline::{Baseline, Judgement};
use crate::cases::Case;
use crate::differ::{self, Difference, Split};
use crate::facts::{self, Facts, Inputs};
use crate::machine::Machine;
use crate::peers::{Linker, Wanted};
use crate::run::{self, Limits};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The results of all cases.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The date, as `YYYY-MM-DD`.
    pub date: String,
    /// The cases in the given order.
    pub cases: Vec<CaseReport>,
}

/// One case.
#[derive(Debug, Serialize)]
pub struct CaseReport {
    pub name: String,
    pub machine: Machine,
    /// The command lines.
    pub steps: Vec<crate::cases::Step>,
    /// The links, one for each linker.
    pub results: Vec<LinkerReport>,
    /// Facts on which the linkers have no majority.
    pub split: Vec<Split>,
}

/// One linker's link of a case.
#[derive(Debug, Serialize)]
pub struct LinkerReport {
    pub linker: Linker,
    /// Facts of its run and output.
    pub facts: Facts,
    /// Its messages, cut to a length that fits a report.
    pub said: String,
    /// Its differences from the majority, judged by the baseline.
    pub differences: Vec<Judged>,
}

/// A difference and its explanation, if there is one.
#[derive(Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub difference: Difference,
    /// The judgement of the baseline, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

impl LinkerReport {
    /// The differences that make a comparison with a baseline fail.
    pub fn unexplained(&self) -> impl Iterator<Item = &Difference> {
        let unexplained = |judged: &&Judged| judged.judgement == Some(Judgement::Unexplained);
        self.differences.iter().filter(unexplained).map(|judged| &judged.difference)
    }
}

impl Report {
    /// Number of differences that make a comparison with a baseline fail.
    pub fn unexplained(&self) -> usize {
        self.cases.iter().flat_map(|case| &case.results).map(|result| result.unexplained().count()).sum()
    }

    /// Versions that the baseline does not name, each with the number of its differences.
    pub fn new_versions(&self) -> BTreeMap<&str, usize> {
        let mut versions = BTreeMap::new();
        for result in self.cases.iter().flat_map(|case| &case.results) {
            let new =
                result.differences.iter().filter(|d| d.judgement == Some(Judgement::NewVersion)).count();
            if new > 0 {
                *versions.entry(result.linker.version.as_str()).or_default() += new;
            }
        }
        versions
    }
}

/// The longest text of a linker that a report keeps, in bytes.
const SAID: usize = 4000;

/// Runs all cases with the wanted linkers, and calls `told` with each finished case.
///
/// # Errors
/// A linker that the user named does not exist or cannot be run.
pub fn compare(
    cases: &[Case],
    wanted: &Wanted,
    limits: &Limits,
    baseline: Option<&Baseline>,
    told: &mut dyn FnMut(&CaseReport),
) -> Result<Report> {
    let mut linkers: BTreeMap<Machine, Vec<Linker>> = BTreeMap::new();
    let mut report = Report { date: today(), cases: Vec::new() };
    for case in cases {
        let linkers = match linkers.entry(case.machine) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(entry) => entry.insert(wanted.find(case.machine)?),
        };
        let case = one(case, linkers, limits, baseline)?;
        told(&case);
        report.cases.push(case);
    }
    Ok(report)
}

fn one(case: &Case, linkers: &[Linker], limits: &Limits, baseline: Option<&Baseline>) -> Result<CaseReport> {
    let inputs = Inputs::read(case);
    let (mut facts, mut said) = (Vec::new(), Vec::new());
    for linker in linkers {
        let run = run::run(linker, case, limits)?;
        facts.push(facts::gather(&run, &inputs));
        let text = run.messages.replace(&run.folder.path().display().to_string(), "OUT");
        let end = (0..=SAID.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        said.push(text[..end].to_owned());
    }
    let found = differ::differ(linkers, &facts);
    let results = linkers.iter().zip(facts).zip(said).zip(found.by_linker);
    let results = results.map(|(((linker, facts), said), differences)| LinkerReport {
        differences: differences
            .into_iter()
            .map(|difference| {
                let judgement = baseline.map(|baseline| baseline.judge(linker, &case.name, &difference));
                Judged { difference, judgement }
            })
            .collect(),
        linker: linker.clone(),
        facts,
        said,
    });
    Ok(CaseReport {
        name: case.name.clone(),
        machine: case.machine,
        steps: case.steps.clone(),
        results: results.collect(),
        split: found.split,
    })
}

/// Today's date in UTC.
pub fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let days = (since.as_secs() / 86_400) as i64;
    // The algorithm counts days of the civil calendar in years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
