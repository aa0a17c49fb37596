//! Puts into sentences what a run of the lab shows. A sentence is about the linkers and shapes that took
//! part, and about no others.

use super::shapes::{SHAPES, Subject};
use super::verdict::Verdict;
use super::{Matrix, Mode, Row};
use std::collections::{BTreeMap, BTreeSet};

/// The names of the linkers in a finding.
type Names<'a> = BTreeSet<&'a str>;

/// One sentence for each finding; none if no linker took part.
pub fn findings(matrix: &Matrix) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(outcomes(matrix));
    found.extend(refused_once(matrix));
    found.extend(frames(matrix));
    found.extend(absent(matrix));
    found
}

/// The verdicts of a row, each with the name of its linker.
fn verdicts<'a>(matrix: &'a Matrix, row: &'a Row) -> impl Iterator<Item = (&'a str, &'a Verdict)> {
    let bench = matrix.benches.iter().find(|bench| bench.machine == row.machine);
    let linkers = bench.into_iter().flat_map(|bench| &bench.linkers);
    linkers.map(|linker| linker.name.as_str()).zip(&row.verdicts)
}

/// The names of all linkers, in order.
fn linkers(matrix: &Matrix) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for linker in matrix.benches.iter().flat_map(|bench| &bench.linkers) {
        if !names.contains(&&*linker.name) {
            names.push(&linker.name);
        }
    }
    names
}

fn violates(row: &Row) -> bool {
    SHAPES.iter().any(|shape| shape.name == row.shape && shape.violates)
}

fn is_sframe(row: &Row) -> bool {
    SHAPES.iter().any(|shape| shape.name == row.shape && shape.subject == Subject::Sframe)
}

/// How each linker handled the violating shapes.
fn outcomes(matrix: &Matrix) -> Vec<String> {
    let mut lines = Vec::new();
    for name in linkers(matrix) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut silent: BTreeSet<&str> = BTreeSet::new();
        for row in matrix.rows.iter().filter(|row| violates(row)) {
            for (_, verdict) in verdicts(matrix, row).filter(|(linker, _)| *linker == name) {
                *counts.entry(&verdict.said).or_default() += 1;
                if verdict.said == "silent" {
                    silent.insert(row.shape);
                }
            }
        }
        let all: usize = counts.values().sum();
        if all == 0 {
            continue;
        }
        let words = [
            ("error", "refused"),
            ("warns", "with a warning"),
            ("complains", "complained of and made"),
            ("ok", "without a word"),
            ("silent", "without a word, with damage"),
            ("crash", "ended by a signal"),
            ("timeout", "not done in time"),
        ];
        let parts: Vec<String> = words
            .iter()
            .filter_map(|(said, text)| counts.get(said).map(|count| format!("{count} {text}")))
            .collect();
        let shapes = if silent.is_empty() { String::new() } else { format!(" ({})", list(&silent)) };
        lines.push(format!("**{name}**, of {all} links that break the rule: {}{shapes}.", parts.join(", ")));
    }
    lines
}

/// The linkers that refuse a shape in one step, but make a program of it in two.
fn refused_once(matrix: &Matrix) -> Vec<String> {
    let mut by_linker: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in matrix.rows.iter().filter(|row| row.mode == Mode::Final) {
        let same = |other: &&Row| {
            other.machine == row.machine && other.shape == row.shape && other.mode == Mode::Twice
        };
        let Some(twice) = matrix.rows.iter().find(same) else { continue };
        for ((name, straight), (_, later)) in verdicts(matrix, row).zip(verdicts(matrix, twice)) {
            if straight.said == "error" && !["error", "crash", "timeout"].contains(&&*later.said) {
                by_linker.entry(name).or_default().insert(row.shape);
            }
        }
    }
    let line = |(name, shapes): (&str, BTreeSet<&str>)| {
        format!("**{name}** refuses straight, but links by way of `-r`: {}.", list(&shapes))
    };
    by_linker.into_iter().map(line).collect()
}

/// The linkers that describe every live function of every `.sframe` shape and print no message.
fn frames(matrix: &Matrix) -> Option<String> {
    let rows: Vec<&Row> =
        matrix.rows.iter().filter(|row| is_sframe(row) && row.mode != Mode::Relocatable).collect();
    if rows.is_empty() {
        return None;
    }
    let all: Names<'_> = linkers(matrix).into_iter().collect();
    let all_verdicts = rows.into_iter().flat_map(|row| verdicts(matrix, row));
    let failing: Names<'_> =
        all_verdicts.filter(|(_, verdict)| verdict.said != "ok").map(|(name, _)| name).collect();
    let right: Names<'_> = all.difference(&failing).copied().collect();
    Some(match right.len() {
        0 => "No linker makes every `.sframe` shape into frames for all live functions without a message."
            .into(),
        _ => format!(
            "All live functions of every `.sframe` shape described, without a message: {}.",
            list(&right)
        ),
    })
}

/// The linkers that took part for some machines only.
fn absent(matrix: &Matrix) -> Vec<String> {
    let lacks = |name: &str| {
        let without =
            matrix.benches.iter().filter(|bench| bench.linkers.iter().all(|linker| linker.name != name));
        without.map(|bench| bench.machine.name()).collect::<Names<'_>>()
    };
    let lines = linkers(matrix).into_iter().map(|name| (name, lacks(name)));
    lines
        .filter(|(_, machines)| !machines.is_empty())
        .map(|(name, machines)| format!("**{name}** took no part for {}.", list(&machines)))
        .collect()
}

fn list(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::Bench;
    use super::*;
    use crate::machine::Machine;
    use crate::peers::Linker;

    fn matrix(said: &[(&'static str, Mode, &[&str])]) -> Matrix {
        let linkers = ["one=echo GNU ld", "two=echo LLD"].map(|word| {
            let (name, command) = word.split_once('=').unwrap();
            Linker::probe(name, command.split(' ').map(String::from).collect()).unwrap()
        });
        let bench =
            |machine, count| Bench { machine, assembler: String::new(), linkers: linkers[..count].to_vec() };
        let verdict =
            |said: &&str| Verdict { said: (*said).into(), made: String::new(), detail: String::new() };
        Matrix {
            date: String::new(),
            benches: vec![bench(Machine::X86_64, 2), bench(Machine::S390x, 1)],
            rows: said
                .iter()
                .map(|(shape, mode, said)| Row {
                    machine: Machine::X86_64,
                    shape,
                    mode: *mode,
                    verdicts: said.iter().map(verdict).collect(),
                })
                .collect(),
        }
    }

    #[test]
    fn sentences_follow_from_the_verdicts() {
        let shape = "sframe-monolithic-v3";
        let found = findings(&matrix(&[
            (shape, Mode::Final, &["error", "silent"]),
            (shape, Mode::Twice, &["warns", "ok"]),
        ]));
        assert_eq!(
            found,
            [
                "**one**, of 2 links that break the rule: 1 refused, 1 with a warning.",
                "**two**, of 2 links that break the rule: 1 without a word, 1 without a word, with damage \
                 (sframe-monolithic-v3).",
                "**one** refuses straight, but links by way of `-r`: sframe-monolithic-v3.",
                "No linker makes every `.sframe` shape into frames for all live functions without a message.",
                "**two** took no part for s390x.",
            ]
        );
        let found = findings(&matrix(&[(shape, Mode::Final, &["warns", "ok"])]));
        assert!(found.iter().any(|line| line.ends_with("without a message: two.")), "{found:?}");
    }

    #[test]
    fn nothing_is_said_of_what_did_not_run() {
        let found = findings(&matrix(&[]));
        assert_eq!(found, ["**two** took no part for s390x."]);
    }
}
