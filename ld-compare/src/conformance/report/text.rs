//! The results as text: for each tool what does not hold, and counts.

use super::super::case::{Case, Verdict};
use super::super::matrix::{Column, Matrix};
use super::super::record::{Change, Record};
use std::fmt::Write;

/// The cases with their facts and the sentences behind them.
pub fn list(cases: &[Case]) -> String {
    let mut text = String::new();
    for case in cases {
        let _ = writeln!(text, "{}\n    {}", case.name(), case.about);
        for fact in &case.facts {
            let _ = writeln!(text, "    - {}: {} [{}]", fact.id, fact.says, fact.source);
        }
    }
    let _ = writeln!(text, "{} cases", cases.len());
    text
}

/// What each tool does not keep, and how much it keeps.
pub fn text(matrix: &Matrix) -> String {
    let mut text = String::new();
    for column in &matrix.columns {
        let _ = writeln!(text, "{} {}: {}", column.tool.kind.name(), column.tool.name, column.tool.version);
        for (case, verdict) in matrix.cases.iter().zip(&column.verdicts) {
            let Some(Verdict::Fails(failures)) = verdict else { continue };
            let _ = writeln!(text, "  {}", case.name());
            for failure in failures {
                let _ = writeln!(text, "    {}: {} [{}]", failure.fact, failure.found, failure.source);
            }
        }
        let _ = writeln!(text, "  {}\n", counts(column));
    }
    text
}

/// The counts of a column.
fn counts(column: &Column) -> String {
    let [holds, broken, proposal, absent] = column.counts();
    format!("{holds} hold, {broken} break a standard, {proposal} only a proposal, {absent} are not for it")
}

/// What differs from a record, and whether anything is worse.
pub fn changes(matrix: &Matrix, record: &Record) -> (String, bool) {
    let (mut text, mut worse) = (String::new(), false);
    for column in &matrix.columns {
        let name = format!("{} {}", column.tool.kind.name(), column.tool.name);
        for change in record.changes(matrix, column) {
            let _ = match change {
                Change::NewTool => {
                    writeln!(text, "{name}: this version is not in the baseline: {}", column.tool.version)
                }
                Change::New { case, holds } => {
                    writeln!(
                        text,
                        "{name}: new case, {}: {case}",
                        if holds { "holds" } else { "does not hold" }
                    )
                }
                Change::Better { case } => writeln!(text, "{name}: better than before: {case}"),
                Change::Worse { case, facts } => {
                    worse = true;
                    writeln!(text, "{name}: does not hold any more: {case}: {facts}")
                }
            };
        }
    }
    if text.is_empty() {
        text.push_str("nothing differs from the baseline\n");
    }
    (text, worse)
}
