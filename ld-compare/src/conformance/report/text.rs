//! The results as text: for each tool what does not hold, and counts.

use super::super::case::{Case, Verdict};
use super::super::matrix::{Column, Matrix};
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
    let verdicts = || column.verdicts.iter().flatten();
    let holds = verdicts().filter(|verdict| **verdict == Verdict::Holds).count();
    let absent = verdicts().filter(|verdict| matches!(verdict, Verdict::Absent(_))).count();
    let broken = verdicts().filter(|verdict| verdict.breaks_standard()).count();
    let other = verdicts().count() - holds - absent - broken;
    format!("{holds} hold, {broken} break a standard, {other} only a proposal, {absent} are not for it")
}
