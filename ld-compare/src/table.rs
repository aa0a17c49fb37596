//! Writes a report as text: a table for each case, then the differences by cause.

use crate::baseline::Judgement;
use crate::compare::{CaseReport, Judged, LinkerReport, Report};
use crate::differ::{Difference, causes};
use crate::facts::{ABSENT, Aspect};
use diagnostics::words;
use std::fmt::Write;

/// How many keys of a cause are named.
const SHOWN: usize = 6;

/// One case.
pub fn case(report: &CaseReport) -> String {
    let mut text = format!("{} ({})\n", report.name, report.machine.name());
    let mut rows = vec![
        ["linker", "status", "said", "size", "ms", "kept", "frames", "SFrame", "differences"]
            .map(String::from),
    ];
    rows.extend(report.results.iter().map(row));
    text.push_str(&aligned(&rows));
    for result in &report.results {
        text.push_str(&differences(result));
    }
    if !report.split.is_empty() {
        let _ = writeln!(text, "  without majority: {}", words::count(report.split.len() as u64, "fact"));
        for split in report.split.iter().take(SHOWN) {
            let sides: Vec<String> = split
                .values
                .iter()
                .map(|(value, who)| format!("{} [{}]", short(value), who.join(", ")))
                .collect();
            let _ = writeln!(text, "    {}: {}: {}", split.aspect.name(), split.key, sides.join(" | "));
        }
    }
    text
}

fn row(result: &LinkerReport) -> [String; 9] {
    let facts = &result.facts;
    let said: Vec<String> = facts.messages.iter().map(super::facts::messages::Message::key).collect();
    [
        result.linker.name.clone(),
        facts.status.to_string(),
        match said.as_slice() {
            [] => "-".into(),
            [one] => short(one),
            [first, rest @ ..] => format!("{} +{}", short(first), rest.len()),
        },
        facts.size.map_or("-".into(), |size| size.to_string()),
        format!("{:.0}", facts.seconds * 1000.0),
        kept(result),
        covered(result, Aspect::EhFrame),
        covered(result, Aspect::Sframe),
        count(result),
    ]
}

fn kept(result: &LinkerReport) -> String {
    let Some(rows) = result.facts.table.get(&Aspect::Inputs) else { return "-".into() };
    let kept = rows.values().filter(|value| *value != "discarded").count();
    format!("{kept}/{}", rows.len())
}

/// The number of functions that `.eh_frame` or SFrame covers, with notes on the SFrame sections.
pub fn covered(result: &LinkerReport, aspect: Aspect) -> String {
    let Some(rows) = result.facts.table.get(&aspect) else { return "-".into() };
    let functions = rows.values().filter(|value| *value == "covered").count();
    let number = |key: &str| rows.get(key).filter(|value| *value != "0" && *value != "none");
    let mut text = functions.to_string();
    if let Some(versions) = rows.get("(versions)").filter(|versions| !versions.is_empty()) {
        let _ = write!(text, " {versions}");
    }
    if rows.get("(blobs)").is_some_and(|blobs| blobs == "several") {
        text.push_str(" blobs");
    }
    if let Some(wrong) = number("(wrong functions)") {
        let _ = write!(text, " {wrong} wrong");
    }
    if number("(structural errors)").is_some() {
        text.push_str(" broken");
    }
    text
}

fn count(result: &LinkerReport) -> String {
    let unexplained = result.unexplained().count();
    let judged = result.differences.iter().any(|judged| judged.judgement.is_some());
    let new = result.differences.iter().any(|judged| judged.judgement == Some(Judgement::NewVersion));
    match (result.differences.len(), judged) {
        (all, true) if new => format!("{all}, version not in the baseline"),
        (0, _) => "none".into(),
        (all, true) => format!("{all}, {unexplained} unexplained"),
        (all, false) => all.to_string(),
    }
}

fn differences(result: &LinkerReport) -> String {
    let mut text = String::new();
    let open: Vec<Difference> = result
        .differences
        .iter()
        .filter(|judged| !is_accepted(judged))
        .map(|judged| judged.difference.clone())
        .collect();
    if open.is_empty() {
        return text;
    }
    let _ = writeln!(text, "  {}:", result.linker.name);
    for cause in causes(&open) {
        let mut keys = cause.keys.iter().take(SHOWN).map(|key| short(key)).collect::<Vec<_>>().join(", ");
        if cause.keys.len() > SHOWN {
            let _ = write!(keys, " and {} more", cause.keys.len() - SHOWN);
        }
        let _ = writeln!(text, "    {}: {} ({keys})", cause.aspect.name(), cause.how);
    }
    text
}

fn is_accepted(judged: &Judged) -> bool {
    matches!(judged.judgement, Some(Judgement::Accepted(_)))
}

fn short(text: &str) -> String {
    if text == ABSENT {
        return "—".into();
    }
    match text.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Rows with aligned columns.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        row.iter().zip(&mut widths).for_each(|(cell, width)| *width = (*width).max(cell.chars().count()));
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, " {cell:width$} ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The last lines: what the baseline says about the run.
pub fn summary(report: &Report, with_baseline: bool) -> String {
    let links: usize = report.cases.iter().map(|case| case.results.len()).sum();
    let (cases, links) =
        (words::count(report.cases.len() as u64, "case"), words::count(links as u64, "link"));
    let mut text = format!("{cases}, {links}\n");
    if with_baseline {
        let _ = writeln!(text, "differences that the baseline does not explain: {}", report.unexplained());
        for (version, count) in report.new_versions() {
            let _ = writeln!(
                text,
                "not in the baseline: {version}, {}; --record-baseline adds them",
                words::count(count as u64, "difference")
            );
        }
    }
    text
}
