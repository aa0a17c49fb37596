//! The results as Markdown: counts, a matrix for each kind of tool, and reasons.

use super::super::case::{Case, Kind, Verdict};
use super::super::matrix::{Column, Matrix};
use super::super::record::{Record, key, place};
use std::collections::BTreeMap;
use std::fmt::Write;

/// All results, with the reasons of a record.
pub fn markdown(matrix: &Matrix, record: &Record) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let columns: Vec<&Column> = matrix.columns.iter().filter(|column| column.tool.kind == kind).collect();
        if columns.is_empty() {
            continue;
        }
        let name = match kind {
            Kind::Assembler => "Assemblers",
            Kind::Linker => "Linkers",
            Kind::Reader => "Readers",
        };
        let _ = writeln!(text, "## {name}\n");
        counts(&mut text, &columns);
        table(&mut text, matrix, kind, &columns);
        for column in columns {
            reasons(&mut text, matrix, column, record);
        }
    }
    text
}

fn counts(text: &mut String, columns: &[&Column]) {
    text.push_str("| tool | version | hold | break a standard | break only a proposal | not for it |\n");
    text.push_str("|---|---|---:|---:|---:|---:|\n");
    for column in columns {
        let [holds, broken, proposal, absent] = column.counts();
        let tool = &column.tool;
        let _ = writeln!(
            text,
            "| {} | {} | {holds} | {broken} | {proposal} | {absent} |",
            tool.name, tool.version
        );
    }
    text.push('\n');
}

/// The cases of a family, with the verdicts of a column.
type Families<'m> = BTreeMap<String, Vec<(&'m Case, usize)>>;

fn families(matrix: &Matrix, kind: Kind) -> Families<'_> {
    let mut families: Families<'_> = BTreeMap::new();
    for (row, case) in matrix.cases.iter().enumerate().filter(|(_, case)| case.kind == kind) {
        families.entry(key(case)).or_default().push((case, row));
    }
    families
}

fn table(text: &mut String, matrix: &Matrix, kind: Kind, columns: &[&Column]) {
    let names: Vec<&str> = columns.iter().map(|column| column.tool.name.as_str()).collect();
    let _ = writeln!(text, "| case | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for (family, rows) in families(matrix, kind) {
        let cells: Vec<String> = columns.iter().map(|column| cell(column, &rows)).collect();
        let short = family.split_once('/').map_or(family.as_str(), |(_, short)| short);
        let _ = writeln!(text, "| {short} | {} |", cells.join(" | "));
    }
    text.push('\n');
}

/// A sign for all machines, and the machines if they differ.
fn cell(column: &Column, rows: &[(&Case, usize)]) -> String {
    let mut by_sign: BTreeMap<char, Vec<String>> = BTreeMap::new();
    for (case, row) in rows {
        let sign = match &column.verdicts[*row] {
            None | Some(Verdict::Absent(_)) => '–',
            Some(Verdict::Holds) => '✓',
            Some(verdict) if verdict.breaks_standard() => '✗',
            Some(Verdict::Fails(_)) => '△',
        };
        by_sign.entry(sign).or_default().push(place(case));
    }
    let taking_part = by_sign.keys().filter(|sign| **sign != '–').count();
    let parts: Vec<String> = by_sign
        .iter()
        .filter(|(sign, _)| taking_part == 0 || **sign != '–')
        .map(|(sign, on)| if taking_part > 1 { format!("{sign} {}", on.join(" ")) } else { sign.to_string() })
        .collect();
    parts.join("; ")
}

/// What does not hold, by reason.
fn reasons(text: &mut String, matrix: &Matrix, column: &Column, record: &Record) {
    let kind = column.tool.kind;
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (family, rows) in families(matrix, kind) {
        let fails = rows.iter().find_map(|(_, row)| match &column.verdicts[*row] {
            Some(Verdict::Fails(failures)) => failures.first(),
            _ => None,
        });
        let Some(failure) = fails else { continue };
        let reason = match record.reason(kind, &column.tool.name, &family) {
            Some(reason) => match &reason.page {
                Some(page) => format!("{} ([page](defects/{page}))", reason.reason),
                None => reason.reason.clone(),
            },
            None => format!("{}: {}", failure.fact, failure.found),
        };
        let short = family.split_once('/').map_or(family.as_str(), |(_, short)| short).to_owned();
        by_reason.entry(reason).or_default().push(short);
    }
    if by_reason.is_empty() {
        return;
    }
    let _ = writeln!(text, "**{}** does not keep:\n", column.tool.name);
    for (reason, families) in by_reason {
        let _ = writeln!(text, "- {reason}: {}", names(&families));
    }
    text.push('\n');
}

/// How many families a reason may name. Of more, only the topics are named, each with a count.
const MOST: usize = 12;

fn names(families: &[String]) -> String {
    if families.len() <= MOST {
        return families.iter().map(|family| format!("`{family}`")).collect::<Vec<_>>().join(", ");
    }
    let mut topics: BTreeMap<&str, usize> = BTreeMap::new();
    for family in families {
        *topics.entry(family.split('/').next().unwrap_or_default()).or_default() += 1;
    }
    topics.iter().map(|(topic, count)| format!("`{topic}/*` ({count})")).collect::<Vec<_>>().join(", ")
}
