//! The record of known results: what each tool and version kept when it was last looked at, so that a
//! maintainer sees what changed, and a reason for everything that does not hold.
//!
//! Only what does not hold is listed, one line for a family of cases: the machines, and the facts. Everything
//! else that the tool takes part in held. Reasons are written by hand; `--bless` keeps them.

use super::case::{Case, Kind, Verdict};
use super::matrix::{Column, Matrix};
use anyhow::{Context, Result};
use glob::Pattern;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Why something does not hold.
    pub reasons: Vec<Reason>,
    /// Every family of cases that was run, with its machines: a case that is not here is new.
    pub cases: BTreeMap<String, String>,
    /// The tools.
    pub tools: Vec<Known>,
}

/// A reason for cells that are not green.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Names of tools, `KIND NAME`; `*` stands for any characters.
    pub tools: String,
    /// Families of cases, separated by blanks; `*` stands for any characters.
    pub cases: String,
    /// The reason, in a line.
    pub reason: String,
    /// The page about it, a file of `docs/defects/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

impl Reason {
    /// Whether it is about a tool's results of a family.
    pub fn fits(&self, kind: Kind, tool: &str, family: &str) -> bool {
        let matches =
            |pattern: &str, text: &str| Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(text));
        matches(&self.tools, &format!("{} {tool}", kind.name()))
            && self.cases.split_whitespace().any(|pattern| matches(pattern, family))
    }
}

/// The results of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// First line of `--version`.
    pub version: String,
    /// How many cases held.
    pub holds: usize,
    /// By family: what does not hold, as `FACT FACT on MACHINE MACHINE; FACT on MACHINE`.
    pub fails: BTreeMap<String, String>,
    /// By family: machines for which the tool took no part.
    pub absent: BTreeMap<String, String>,
}

/// What changed in a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These facts held, and fail.
    Worse { case: String, facts: String },
    /// Fewer facts fail.
    Better { case: String },
    /// The case is not in the record; `true` if it holds.
    New { case: String, holds: bool },
    /// The tool's version is not in the record.
    NewTool,
}

impl Record {
    /// Reads a file; with `may_be_new`, a file that does not exist is an empty record.
    ///
    /// # Errors
    /// It cannot be read, or is no record.
    pub fn load(path: &Path, may_be_new: bool) -> Result<Self> {
        if may_be_new && !path.exists() {
            return Ok(Self::default());
        }
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no record of conformance", path.display()))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The entry of a tool: of its version, and of its name if several have that version.
    fn entry(&self, column: &Column) -> Option<&Known> {
        let tool = &column.tool;
        let of = |known: &&Known| known.kind == tool.kind && known.version == tool.version;
        let named = self.tools.iter().filter(of).find(|known| known.name == tool.name);
        named.or_else(|| self.tools.iter().find(of))
    }

    /// What differs from the record, tool by tool.
    pub fn changes(&self, matrix: &Matrix, column: &Column) -> Vec<Change> {
        let Some(known) = self.entry(column) else { return vec![Change::NewTool] };
        let mut changes = Vec::new();
        for (case, verdict) in matrix.cases.iter().zip(&column.verdicts) {
            let now = match verdict {
                None | Some(Verdict::Absent(_)) => continue,
                Some(Verdict::Holds) => Vec::new(),
                Some(Verdict::Fails(failures)) => failures.iter().map(|failure| failure.fact).collect(),
            };
            let (family, place) = (key(case), place(case));
            let recorded =
                self.cases.get(&family).is_some_and(|places| places.split(' ').any(|word| word == place));
            let before = known.fails.get(&family).and_then(|text| facts_on(text, &place)).unwrap_or_default();
            let case = case.name();
            if recorded {
                changes.extend(change(case, &before, &now));
            } else {
                changes.push(Change::New { case, holds: now.is_empty() });
            }
        }
        changes
    }

    /// Takes the results of a matrix; tools that it does not hold stay as they are.
    pub fn bless(&mut self, matrix: &Matrix) {
        for case in &matrix.cases {
            add_word(self.cases.entry(key(case)).or_default(), &place(case));
        }
        for column in &matrix.columns {
            let tool = &column.tool;
            let same = |known: &Known| known.kind == tool.kind && known.name == tool.name;
            let before = self.tools.iter().position(same);
            let mut known = Known {
                kind: tool.kind,
                name: tool.name.clone(),
                version: tool.version.clone(),
                holds: 0,
                fails: BTreeMap::new(),
                absent: BTreeMap::new(),
            };
            let mut failing: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
            for (case, verdict) in matrix.cases.iter().zip(&column.verdicts) {
                match verdict {
                    None => {}
                    Some(Verdict::Holds) => known.holds += 1,
                    Some(Verdict::Absent(_)) => {
                        add_word(known.absent.entry(key(case)).or_default(), &place(case));
                    }
                    Some(Verdict::Fails(failures)) => {
                        let facts: Vec<&str> = failures.iter().map(|failure| failure.fact).collect();
                        let on = failing.entry(key(case)).or_default().entry(facts.join(" ")).or_default();
                        add_word(on, &place(case));
                    }
                }
            }
            for (family, by_facts) in failing {
                let parts: Vec<String> =
                    by_facts.iter().map(|(facts, on)| format!("{facts} on {on}")).collect();
                known.fails.insert(family, parts.join("; "));
            }
            match before {
                Some(row) => self.tools[row] = known,
                None => self.tools.push(known),
            }
        }
        self.tools.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    }

    /// Reasons for a tool's results of a family.
    pub fn reason(&self, kind: Kind, tool: &str, family: &str) -> Option<&Reason> {
        self.reasons.iter().find(|reason| reason.fits(kind, tool, family))
    }

    /// Families that do not hold and have no reason, and reasons that are about nothing.
    pub fn loose_ends(&self) -> Vec<String> {
        let mut found = Vec::new();
        for known in &self.tools {
            for (family, facts) in &known.fails {
                if self.reason(known.kind, &known.name, family).is_none() {
                    found.push(format!("{} {}: {family}: {facts}", known.kind.name(), known.name));
                }
            }
        }
        for reason in &self.reasons {
            let used = self.tools.iter().any(|known| {
                known.fails.keys().any(|family| {
                    self.reason(known.kind, &known.name, family).is_some_and(|first| first == reason)
                })
            });
            if !used {
                found.push(format!("a reason about nothing: {}: {}", reason.tools, reason.cases));
            }
        }
        found
    }
}

/// The family of a case, with its kind.
pub fn key(case: &Case) -> String {
    format!("{}/{}", case.kind.name(), case.family)
}

/// The machine of a case, with its variant.
pub fn place(case: &Case) -> String {
    match case.variant {
        None => case.machine.name().to_owned(),
        Some(variant) => format!("{}-{variant}", case.machine.name()),
    }
}

fn add_word(text: &mut String, word: &str) {
    if !text.split(' ').any(|known| known == word) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
}

/// What changed of a case if these facts failed before and those fail now.
fn change(case: String, before: &str, now: &[&str]) -> Option<Change> {
    let before: Vec<&str> = before.split_whitespace().collect();
    let new: Vec<&str> = now.iter().copied().filter(|fact| !before.contains(fact)).collect();
    if new.is_empty() {
        return (now.len() < before.len()).then_some(Change::Better { case });
    }
    Some(Change::Worse { case, facts: new.join(" ") })
}

/// The facts that fail on a machine.
fn facts_on(text: &str, place: &str) -> Option<String> {
    text.split("; ").find_map(|part| {
        let (facts, on) = part.split_once(" on ")?;
        on.split(' ').any(|word| word == place).then(|| facts.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_by_machine() {
        let text = "links described on x86_64 s390x; sound on aarch64-be";
        assert_eq!(facts_on(text, "s390x").as_deref(), Some("links described"));
        assert_eq!(facts_on(text, "aarch64-be").as_deref(), Some("sound"));
        assert_eq!(facts_on(text, "aarch64"), None);
    }

    #[test]
    fn a_case_is_worse_if_a_fact_fails_that_held() {
        let change = |before, now: &[&str]| change("c".into(), before, now);
        let worse = |facts: &str| Some(Change::Worse { case: "c".into(), facts: facts.into() });
        let better = Some(Change::Better { case: "c".into() });
        assert_eq!((change("", &[]), change("tells", &["tells"])), (None, None));
        assert_eq!(
            (change("", &["tells"]), change("survives", &["tells"])),
            (worse("tells"), worse("tells"))
        );
        assert_eq!(change("survives", &["survives", "tells"]), worse("tells"));
        assert_eq!((change("tells", &[]), change("survives tells", &["survives"])), (better.clone(), better));
    }

    #[test]
    fn reasons_fit_by_pattern() {
        let reason = Reason {
            tools: "linker bfd-2.4*".into(),
            cases: "linker/plt/* linker/gc/a".into(),
            reason: String::new(),
            page: None,
        };
        assert!(reason.fits(Kind::Linker, "bfd-2.40", "linker/plt/got"));
        assert!(reason.fits(Kind::Linker, "bfd-2.40", "linker/gc/a"));
        assert!(!reason.fits(Kind::Linker, "lld", "linker/plt/got"));
        assert!(!reason.fits(Kind::Reader, "bfd-2.40", "linker/plt/got"));
    }
}
