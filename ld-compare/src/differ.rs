//! Finds where linkers disagree, and groups the differences by cause.
//!
//! No specification says what is right for most facts of an output, so the majority of the linkers decides.
//! But five versions of GNU ld agree because they are one program, not because they are right. So for each
//! key, every family of linkers has one vote, and its newest version that linked casts it. If several linkers
//! have that version, more than half of them must agree. This project's own linker has no vote.
//!
//! ```text
//! ld 2.40: a    ld 2.47: b    lld: b    mold: a    ours: a
//! votes:        b             b         a          majority: b; mold and ours differ, and ld 2.40 too
//! ```
//!
//! If more than half of the votes have one value, a linker with another value differs. Without a majority no
//! linker differs, and the key is split. Differences with the same aspect, own value and majority value have
//! the same cause, so a report shows them once, with all their keys.

use crate::facts::{ABSENT, Aspect, Facts};
use crate::peers::{Family, Linker};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A linker's value, which is not the majority's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Difference {
    /// Its kind of fact.
    pub aspect: Aspect,
    pub key: String,
    /// The linker's value.
    pub own: String,
    /// The majority's.
    pub majority: String,
}

impl Difference {
    /// The difference in one line. A baseline knows the difference by it.
    pub fn line(&self) -> String {
        format!("{}: {}: {}", self.aspect.name(), self.key, self.how())
    }

    fn how(&self) -> String {
        if self.own.len() + self.majority.len() < 160 {
            return format!("{} instead of {}", self.own, self.majority);
        }
        // For long lists, show only the first element that differs.
        let pair = self.own.split(' ').zip(self.majority.split(' ')).find(|(own, other)| own != other);
        match pair {
            Some((own, other)) => format!("… {own} instead of … {other}"),
            None => "a list of another length".into(),
        }
    }
}

/// Differences with one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Their kind of fact.
    pub aspect: Aspect,
    /// The linker's value and the majority's, in the form `a instead of b`.
    pub how: String,
    /// The keys with this difference, ascending.
    pub keys: Vec<String>,
}

/// A key without a majority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Its kind of fact.
    pub aspect: Aspect,
    pub key: String,
    /// The values, and the linkers that have each.
    pub values: BTreeMap<String, Vec<String>>,
}

/// All differences of one case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Differences {
    /// For each linker, in the order of the list, its differences from the majority, sorted.
    pub by_linker: Vec<Vec<Difference>>,
    /// The keys without a majority.
    pub split: Vec<Split>,
}

/// Compares the facts that several linkers produced for one case. A linker that did not link has no say about
/// facts of outputs.
pub fn differ(linkers: &[Linker], facts: &[Facts]) -> Differences {
    let mut result = Differences { by_linker: vec![Vec::new(); linkers.len()], split: Vec::new() };
    let mut keys: BTreeSet<(Aspect, &str)> = BTreeSet::new();
    for facts in facts {
        keys.extend(
            facts.table.iter().flat_map(|(aspect, rows)| rows.keys().map(|key| (*aspect, key.as_str()))),
        );
    }
    for (aspect, key) in keys {
        let values: Vec<Option<&str>> = facts.iter().map(|facts| value(facts, aspect, key)).collect();
        match majority(linkers, &values) {
            Some(majority) => {
                for (linker, own) in values.iter().enumerate() {
                    if let Some(own) = own.filter(|own| *own != majority) {
                        result.by_linker[linker].push(Difference {
                            aspect,
                            key: key.into(),
                            own: own.into(),
                            majority: majority.into(),
                        });
                    }
                }
            }
            None => result.split.extend(split(linkers, &values, aspect, key)),
        }
    }
    result
}

/// The value of a key in a run; `None` if the run says nothing about the key.
fn value<'a>(facts: &'a Facts, aspect: Aspect, key: &str) -> Option<&'a str> {
    let about_output = !matches!(aspect, Aspect::Status | Aspect::Messages);
    if about_output && !facts.status.is_success() {
        return None;
    }
    Some(facts.table.get(&aspect).and_then(|rows| rows.get(key)).map_or(ABSENT, String::as_str))
}

/// The value for which more than half of the families vote.
fn majority<'a>(linkers: &[Linker], values: &[Option<&'a str>]) -> Option<&'a str> {
    let mut ballots: BTreeMap<(Family, &str), Ballot<'_>> = BTreeMap::new();
    for (linker, value) in linkers.iter().zip(values) {
        let (false, Some(value)) = (linker.is_ours(), value) else { continue };
        let name = if linker.family == Family::Other { linker.name.as_str() } else { "" };
        let version = numbers(&linker.version);
        let ballot = ballots.entry((linker.family, name)).or_default();
        if ballot.values.is_empty() || version > ballot.version {
            *ballot = Ballot { version, values: vec![*value] };
        } else if version == ballot.version {
            ballot.values.push(value);
        }
    }
    let votes: Vec<&str> = ballots.values().filter_map(|ballot| more_than_half(&ballot.values)).collect();
    more_than_half(&votes)
}

/// The newest version of a family so far, and the values of its linkers.
#[derive(Default)]
struct Ballot<'a> {
    version: Vec<u64>,
    values: Vec<&'a str>,
}

/// The value that more than half of these are. A single value is a majority.
fn more_than_half<'a>(values: &[&'a str]) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    values.iter().for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_iter().find(|(_, count)| 2 * count > values.len()).map(|(value, _)| value)
}

/// The numbers in a linker's version. In all versions of one family they are in the same order.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

fn split(linkers: &[Linker], values: &[Option<&str>], aspect: Aspect, key: &str) -> Option<Split> {
    let mut sides: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (linker, value) in linkers.iter().zip(values) {
        if let Some(value) = value {
            sides.entry((*value).to_owned()).or_default().push(linker.name.clone());
        }
    }
    (sides.len() > 1).then(|| Split { aspect, key: key.to_owned(), values: sides })
}

/// Groups differences by cause. Within an aspect, the causes with the most keys come first.
pub fn causes(differences: &[Difference]) -> Vec<Cause> {
    let mut causes: BTreeMap<(Aspect, String), Vec<String>> = BTreeMap::new();
    for difference in differences {
        causes.entry((difference.aspect, difference.how())).or_default().push(difference.key.clone());
    }
    let mut causes: Vec<Cause> =
        causes.into_iter().map(|((aspect, how), keys)| Cause { aspect, how, keys }).collect();
    causes.sort_by(|a, b| (a.aspect, b.keys.len(), &a.how).cmp(&(b.aspect, a.keys.len(), &b.how)));
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Status;
    use pretty_assertions::assert_eq;

    fn linker(name: &str, family: Family) -> Linker {
        Linker { name: name.into(), family, version: name.into(), command: Vec::new() }
    }

    fn facts(status: i32, rows: &[(Aspect, &str, &str)]) -> Facts {
        let mut table = crate::facts::Table::new();
        for (aspect, key, value) in rows {
            table.entry(*aspect).or_default().insert((*key).into(), (*value).into());
        }
        Facts { status: Status::Exit(status), seconds: 0.0, size: None, messages: Vec::new(), table }
    }

    fn linkers() -> Vec<Linker> {
        vec![
            linker("ours", Family::SFrameLd),
            linker("bfd-1", Family::Gnu),
            linker("bfd-2", Family::Gnu),
            linker("lld", Family::Lld),
            linker("mold", Family::Mold),
        ]
    }

    #[test]
    fn versions_of_one_linker_have_one_vote() {
        let row = |value| facts(0, &[(Aspect::Sections, ".a", value)]);
        // The two of GNU ld have one vote against those of lld and mold.
        let found = differ(&linkers(), &[row("y"), row("x"), row("x"), row("y"), row("y")]);
        let lines: Vec<usize> = found.by_linker.iter().map(Vec::len).collect();
        assert_eq!(lines, [0, 1, 1, 0, 0]);
        assert_eq!(found.by_linker[1][0].line(), "sections: .a: x instead of y");
    }

    #[test]
    fn the_order_of_linkers_does_not_matter() {
        let (old, new) = (linker("bfd-2.9", Family::Gnu), linker("bfd-2.10", Family::Gnu));
        assert_eq!(majority(&[old.clone(), new.clone()], &[Some("o"), Some("n")]), Some("n"));
        assert_eq!(majority(&[new.clone(), old.clone()], &[Some("n"), Some("o")]), Some("n"));
        let same = [new.clone(), new.clone(), new.clone(), old];
        assert_eq!(majority(&same, &[Some("n"), Some("n"), Some("bad"), Some("o")]), Some("n"));
        assert_eq!(majority(&same[..2], &[Some("n"), Some("bad")]), None, "one of them is wrong");
    }

    #[test]
    fn a_key_without_majority_is_split() {
        let row = |value| facts(0, &[(Aspect::Sections, ".a", value)]);
        let found = differ(&linkers(), &[row("q"), row("x"), row("x"), row("y"), row("z")]);
        assert!(found.by_linker.iter().all(Vec::is_empty));
        assert_eq!(found.split.len(), 1);
        assert_eq!(found.split[0].values["x"], ["bfd-1", "bfd-2"]);
    }

    #[test]
    fn failed_links_give_no_facts_of_outputs() {
        let good = || facts(0, &[(Aspect::Status, "link", "ok"), (Aspect::Sections, ".a", "x")]);
        let bad = facts(1, &[(Aspect::Status, "link", "error")]);
        let found = differ(&linkers(), &[bad, good(), good(), good(), good()]);
        assert_eq!(found.by_linker[0].len(), 1);
        assert_eq!(found.by_linker[0][0].line(), "status: link: error instead of ok");
    }

    #[test]
    fn one_cause_has_many_keys() {
        let difference = |key: &str, own: &str| Difference {
            aspect: Aspect::Symbols,
            key: key.into(),
            own: own.into(),
            majority: "global in .text".into(),
        };
        let found =
            causes(&[difference("a", ABSENT), difference("b", ABSENT), difference("c", "weak in .text")]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].how.as_str(), found[0].keys.len()), ("absent instead of global in .text", 2));
    }

    #[test]
    fn long_lists_show_their_first_difference() {
        let list = |middle: &str| format!("{} {middle} {}", "a ".repeat(60).trim(), "b ".repeat(60).trim());
        let difference =
            Difference { aspect: Aspect::Order, key: ".text".into(), own: list("x"), majority: list("y") };
        assert_eq!(difference.line(), "order: .text: … x instead of … y");
    }
}
