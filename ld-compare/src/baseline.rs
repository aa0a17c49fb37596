//! Known differences, by the version of each linker.
//!
//! A baseline is a file with rules for version strings. If a rule matches a difference, the difference is
//! accepted, and the rule gives the reason. If the file does not name a version, that version is new: its
//! differences are reported but are no failures, and `--record-baseline` adds them. Any other difference
//! without a rule is a failure.

use crate::differ::Difference;
use crate::peers::Linker;
use anyhow::{Context, Result};
use glob::{MatchOptions, Pattern};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// By the first line of `--version`.
    pub linkers: BTreeMap<String, Vec<Rule>>,
}

/// Accepted differences. In `cases` and `difference`, `*` matches anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Names of cases.
    pub cases: String,
    /// The difference in one line.
    pub difference: String,
    /// Why it is accepted.
    pub reason: String,
}

/// What a baseline says about a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// A rule accepts it, for this reason.
    Accepted(String),
    /// The version is not in the baseline.
    NewVersion,
    /// The version is in the baseline, the difference is not.
    Unexplained,
}

/// The reason in a rule that `--record-baseline` wrote.
const RECORDED: &str = "recorded";

impl Baseline {
    /// Reads a file. If it does not exist and `may_be_new` is set, the baseline is empty.
    ///
    /// # Errors
    /// The file cannot be read or is no baseline, or a pattern in it is malformed.
    pub fn load(path: &Path, may_be_new: bool) -> Result<Self> {
        if may_be_new && !path.exists() {
            return Ok(Self::default());
        }
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let baseline: Self =
            serde_json::from_str(&text).with_context(|| format!("{} is not a baseline", path.display()))?;
        for rule in baseline.linkers.values().flatten() {
            for pattern in [&rule.cases, &rule.difference] {
                Pattern::new(&escaped(pattern))
                    .with_context(|| format!("in {}: {pattern}", path.display()))?;
            }
        }
        Ok(baseline)
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Judges a difference of a linker in a case.
    pub fn judge(&self, linker: &Linker, case: &str, difference: &Difference) -> Judgement {
        let Some(rules) = self.linkers.get(&linker.version) else { return Judgement::NewVersion };
        let line = difference.line();
        let rule = rules.iter().find(|rule| fits(&rule.cases, case) && fits(&rule.difference, &line));
        rule.map_or(Judgement::Unexplained, |rule| Judgement::Accepted(rule.reason.clone()))
    }

    /// Adds an entry for the linker's version, and a rule for each difference that has none.
    pub fn record(&mut self, linker: &Linker, case: &str, differences: &[Difference]) {
        self.linkers.entry(linker.version.clone()).or_default();
        for difference in differences {
            if self.judge(linker, case, difference) == Judgement::Unexplained {
                let rule =
                    Rule { cases: case.into(), difference: difference.line(), reason: RECORDED.into() };
                self.linkers.entry(linker.version.clone()).or_default().push(rule);
            }
        }
    }
}

/// Makes a pattern in which only `*` is special.
fn escaped(pattern: &str) -> String {
    pattern.replace('[', "[[]").replace('?', "[?]")
}

fn fits(pattern: &str, text: &str) -> bool {
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: false,
        require_literal_leading_dot: false,
    };
    Pattern::new(&escaped(pattern)).is_ok_and(|pattern| pattern.matches_with(text, options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Aspect;
    use crate::peers::Family;
    use pretty_assertions::assert_eq;

    fn linker(version: &str) -> Linker {
        Linker { name: "x".into(), family: Family::Other, version: version.into(), command: Vec::new() }
    }

    fn difference(key: &str) -> Difference {
        Difference {
            aspect: Aspect::Sections,
            key: key.into(),
            own: "absent".into(),
            majority: "PROGBITS A".into(),
        }
    }

    #[test]
    fn versions_are_kept_apart() {
        let mut baseline = Baseline::default();
        assert_eq!(baseline.judge(&linker("1"), "c", &difference(".a")), Judgement::NewVersion);
        baseline.record(&linker("1"), "c", &[difference(".a")]);
        assert_eq!(
            baseline.judge(&linker("1"), "c", &difference(".a")),
            Judgement::Accepted("recorded".into())
        );
        assert_eq!(baseline.judge(&linker("1"), "c", &difference(".b")), Judgement::Unexplained);
        assert_eq!(baseline.judge(&linker("1"), "d", &difference(".a")), Judgement::Unexplained);
        assert_eq!(baseline.judge(&linker("2"), "c", &difference(".a")), Judgement::NewVersion);
    }

    #[test]
    fn recording_twice_changes_nothing_and_files_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baseline.json");
        let mut baseline = Baseline::load(&path, true).unwrap();
        baseline.record(&linker("1"), "c", &[difference(".a")]);
        let before = baseline.clone();
        baseline.record(&linker("1"), "c", &[difference(".a")]);
        assert_eq!(baseline, before);
        baseline.save(&path).unwrap();
        assert_eq!(Baseline::load(&path, false).unwrap(), before);
        assert!(Baseline::load(&folder.path().join("none"), false).is_err());
    }

    #[test]
    fn stars_stand_for_anything_and_brackets_for_themselves() {
        assert!(fits("sections: .got*: * instead of *", "sections: .got.plt: absent instead of PROGBITS WA"));
        assert!(fits("a[1]?", "a[1]?") && !fits("a[1]?", "a1x"));
        assert!(fits("x*/static", "x86_64/c/static"));
    }
}
