//! The results for programs: JSON, and JUnit's XML for the ones that show tests.

use super::super::case::{Fact, Verdict};
use super::super::matrix::{Column, Matrix};
use serde_json::{Value, json};
use std::fmt::Write;

/// Everything, as JSON.
pub fn json(matrix: &Matrix) -> Value {
    let fact = |fact: &Fact| json!({ "fact": fact.id, "says": fact.says, "source": fact.source });
    let cases: Vec<Value> = matrix
        .cases
        .iter()
        .enumerate()
        .map(|(row, case)| {
            let results: Vec<Value> = matrix
                .columns
                .iter()
                .filter_map(|column| {
                    let verdict = column.verdicts[row].as_ref()?;
                    Some(json!({ "tool": column.tool.name, "verdict": verdict }))
                })
                .collect();
            json!({
                "name": case.name(),
                "about": case.about,
                "facts": case.facts.iter().map(fact).collect::<Vec<_>>(),
                "results": results,
            })
        })
        .collect();
    let tools: Vec<Value> = matrix
        .columns
        .iter()
        .map(|column| {
            let [holds, broken, proposal, absent] = column.counts();
            json!({
                "kind": column.tool.kind,
                "name": column.tool.name,
                "version": column.tool.version,
                "hold": holds,
                "break_a_standard": broken,
                "break_only_a_proposal": proposal,
                "not_for_it": absent,
            })
        })
        .collect();
    json!({ "tools": tools, "cases": cases })
}

/// JUnit's form: a suite for each tool.
pub fn junit(matrix: &Matrix) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for column in &matrix.columns {
        suite(&mut text, matrix, column);
    }
    text.push_str("</testsuites>\n");
    text
}

fn suite(text: &mut String, matrix: &Matrix, column: &Column) {
    let [holds, broken, proposal, absent] = column.counts();
    let name = escape(&format!("{} {}", column.tool.kind.name(), column.tool.name));
    let (tests, failures) = (holds + broken + proposal + absent, broken + proposal);
    let _ = writeln!(
        text,
        "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{absent}\">"
    );
    for (case, verdict) in matrix.cases.iter().zip(&column.verdicts) {
        let Some(verdict) = verdict else { continue };
        let class = escape(&format!("{}.{}", case.kind.name(), case.topic()));
        let _ = write!(text, "    <testcase classname=\"{class}\" name=\"{}\"", escape(&case.name()));
        match verdict {
            Verdict::Holds => text.push_str("/>\n"),
            Verdict::Absent(reason) => {
                let _ = writeln!(text, "><skipped message=\"{}\"/></testcase>", escape(reason));
            }
            Verdict::Fails(failures) => {
                text.push('>');
                for failure in failures {
                    let message = escape(&format!("{}: {}", failure.fact, failure.found));
                    let body = escape(&format!("{} ({})", failure.says, failure.source));
                    let _ = write!(text, "<failure message=\"{message}\">{body}</failure>");
                }
                text.push_str("</testcase>\n");
            }
        }
    }
    text.push_str("  </testsuite>\n");
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no other control characters.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
