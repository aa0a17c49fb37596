//! Writes the lab's matrix as Markdown and as a page.

use super::findings::findings;
use super::shapes::SHAPES;
use super::{Bench, Matrix, Mode, Row};
use crate::html::{Cell, LINKS, Line, Mood, Page, Part};
use diagnostics::words::count;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The verdicts that need an explanation.
const WORDS: [(&str, &str); 2] = [
    ("complains", "of an error, and links all the same"),
    ("silent", "no word, and the output is not right: frames are lost or dead, or an address means nothing"),
];

/// The matrix as Markdown, with date, versions and findings.
pub fn markdown(matrix: &Matrix) -> String {
    let mut text = format!(
        "# `ld-compare lab`\n\n{}. Each shape has two files with a copy of `shared` in a COMDAT group; the second copy loses. Verdicts \
         are read from outputs and messages. ",
        matrix.date
    );
    for (word, meaning) in WORDS {
        if matrix.rows.iter().flat_map(|row| &row.verdicts).any(|verdict| verdict.said == word) {
            let _ = write!(text, "*{word}*: {meaning}. ");
        }
    }
    text.push_str("A cell that says \u{2033} has the verdict of the cell before it.\n\n");
    for bench in &matrix.benches {
        let _ = writeln!(text, "## {}\n\nAssembler: {}. Linkers:\n", bench.machine.name(), bench.assembler);
        for linker in &bench.linkers {
            let _ = writeln!(text, "- {}: {}", linker.name, linker.version);
        }
        text.push('\n');
        table(&mut text, matrix, bench);
    }
    text.push_str("## Shapes\n\n| shape | what is in it | violates the rule |\n|---|---|---|\n");
    for shape in SHAPES.iter().filter(|shape| matrix.rows.iter().any(|row| row.shape == shape.name)) {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            shape.name,
            shape.what,
            if shape.violates { "yes" } else { "no" }
        );
    }
    text.push_str("\n## What it shows\n\n");
    for finding in findings(matrix) {
        let _ = writeln!(text, "- {finding}");
    }
    text
}

fn table(text: &mut String, matrix: &Matrix, bench: &Bench) {
    let names: Vec<&str> = bench.linkers.iter().map(|linker| linker.name.as_str()).collect();
    let _ =
        writeln!(text, "| shape | mode | {} |\n|---|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for row in matrix.rows.iter().filter(|row| row.machine == bench.machine) {
        let shape = if row.mode == Mode::Final { row.shape } else { "" };
        let mut cells: Vec<String> = Vec::new();
        let mut last = String::new();
        for verdict in &row.verdicts {
            let cell = verdict.text();
            cells.push(if cell == last { "\u{2033}".into() } else { cell.clone() });
            last = cell;
        }
        let _ = writeln!(text, "| {shape} | {} | {} |", row.mode.name(), cells.join(" | "));
    }
    text.push('\n');
}

/// The matrix as a page.
pub fn page(matrix: &Matrix) -> Page {
    let mut parts = Vec::new();
    for bench in &matrix.benches {
        let rows: Vec<&Row> = matrix.rows.iter().filter(|row| row.machine == bench.machine).collect();
        parts.push(Part {
            title: format!("{} — as: {}", bench.machine.name(), bench.assembler),
            columns: bench
                .linkers
                .iter()
                .map(|linker| (linker.name.clone(), linker.version.clone()))
                .collect(),
            lines: rows.into_iter().map(line).collect(),
        });
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for verdict in matrix.rows.iter().flat_map(|row| &row.verdicts) {
        *counts.entry(verdict.said.as_str()).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(said, count)| format!("{count} {said}")).collect();
    Page {
        title: "Section-group violations".into(),
        key: LINKS,
        lead: format!(
            "What each linker makes of references into a discarded COMDAT group. {}: {}. Open a cell for the \
             linker's own words.",
            count(matrix.rows.iter().map(|row| row.verdicts.len() as u64).sum::<u64>(), "link"),
            counts.join(", ")
        ),
        notes: findings(matrix),
        date: matrix.date.clone(),
        parts,
    }
}

fn line(row: &Row) -> Line {
    let shape = SHAPES.iter().find(|shape| shape.name == row.shape);
    Line {
        group: row.shape.to_owned(),
        about: shape.map_or(String::new(), |shape| shape.what.to_owned()),
        name: row.mode.name().to_owned(),
        cells: row
            .verdicts
            .iter()
            .map(|verdict| Cell {
                mood: match verdict.said.as_str() {
                    "ok" => Mood::Good,
                    "warns" | "complains" => Mood::Doubtful,
                    "error" => Mood::Refused,
                    _ => Mood::Broken,
                },
                text: verdict.text(),
                detail: verdict.detail.clone(),
            })
            .collect(),
    }
}
