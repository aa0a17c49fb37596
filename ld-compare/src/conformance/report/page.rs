//! The results as a page: a matrix whose cells open.

use super::super::case::{Case, Kind, Verdict};
use super::super::matrix::{Column, Matrix};
use crate::compare::today;
use crate::html::{Cell, Line, Mood, Page, Part};

/// What the looks of cells mean.
const KEY: [&str; 4] = [
    "holds, or is not for this tool",
    "breaks only a proposal of this project",
    "breaks a sentence of a standard",
    "the tool dies",
];

/// A matrix for each kind of tool.
pub fn page(matrix: &Matrix) -> Page {
    let parts = Kind::ALL.into_iter().filter_map(|kind| part(matrix, kind)).collect();
    let counts: Vec<String> = matrix
        .columns
        .iter()
        .map(|column| {
            let [holds, broken, proposal, absent] = column.counts();
            format!(
                "**{} {}**: {holds} hold, {broken} break a standard, {proposal} break only a proposal, {absent} are not for it.",
                column.tool.kind.name(),
                column.tool.name
            )
        })
        .collect();
    Page {
        title: "Conformance to SFrame in ELF".into(),
        lead: "Which assembler, linker and reader keeps which rule. Open a cell for what was found, and for the \
               sentence that demands it."
            .into(),
        notes: counts,
        key: KEY,
        date: today(),
        parts,
    }
}

fn part(matrix: &Matrix, kind: Kind) -> Option<Part> {
    let columns: Vec<&Column> = matrix.columns.iter().filter(|column| column.tool.kind == kind).collect();
    let rows = || matrix.cases.iter().enumerate().filter(|(_, case)| case.kind == kind);
    (!columns.is_empty()).then(|| Part {
        title: format!("{}s", kind.name()),
        columns: columns
            .iter()
            .map(|column| (column.tool.name.clone(), column.tool.version.clone()))
            .collect(),
        lines: rows().map(|(row, case)| line(case, row, &columns)).collect(),
    })
}

fn line(case: &Case, row: usize, columns: &[&Column]) -> Line {
    Line {
        group: case.family.clone(),
        about: case.about.clone(),
        name: case.name().rsplit('/').next().unwrap_or_default().to_owned(),
        cells: columns.iter().map(|column| cell(column.verdicts[row].as_ref())).collect(),
    }
}

fn cell(verdict: Option<&Verdict>) -> Cell {
    let plain = |mood, text: &str| Cell { mood, text: text.into(), detail: String::new() };
    match verdict {
        None => plain(Mood::Good, ""),
        Some(Verdict::Holds) => plain(Mood::Good, "holds"),
        Some(Verdict::Absent(reason)) => plain(Mood::Good, reason),
        Some(verdict @ Verdict::Fails(failures)) => {
            let facts: Vec<&str> = failures.iter().map(|failure| failure.fact).collect();
            let details: Vec<String> = failures
                .iter()
                .map(|f| format!("{}: {}\nfound: {}\nby: {}\n", f.fact, f.says, f.found, f.source))
                .collect();
            let dies = failures.iter().any(|failure| failure.fact == "survives");
            let mood = match (dies, verdict.breaks_standard()) {
                (true, _) => Mood::Broken,
                (false, true) => Mood::Refused,
                (false, false) => Mood::Doubtful,
            };
            Cell { mood, text: facts.join(", "), detail: details.join("\n") }
        }
    }
}
