//! The directives of a test file: how it runs, when it runs, and where other linkers differ.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Suffixes of test files.
pub const SUFFIXES: [&str; 3] = ["test", "s", "c"];

/// One file.
#[derive(Debug, Default)]
pub struct TestFile {
    pub path: PathBuf,
    /// Line number and command of each `RUN:`. Continuation lines are joined.
    pub commands: Vec<(usize, String)>,
    /// `REQUIRES:`. All conditions must hold.
    pub requires: Vec<String>,
    /// `UNSUPPORTED:`. No condition may hold.
    pub unsupported: Vec<String>,
    /// `XFAIL:`. If one of the conditions holds, the test must fail.
    pub fails: Vec<String>,
    /// Linkers that differ, and why: `PEER-DIFF: lld: reason`.
    pub differs: Vec<(String, String)>,
}

impl TestFile {
    /// Reads a file. It is an error if the file has no `RUN:` line, or if the last one ends with a backslash.
    pub fn read(path: &Path) -> Result<Self> {
        // Tests of bad input may hold any byte.
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut test = TestFile::parse(&String::from_utf8_lossy(&bytes))?;
        test.path = path.to_owned();
        Ok(test)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut test = TestFile::default();
        let mut continues = false;
        for (number, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line)) {
            if let Some(command) = after(line, "RUN:") {
                let (command, more) = match command.strip_suffix('\\') {
                    Some(command) => (command.trim_end(), true),
                    None => (command, false),
                };
                match test.commands.last_mut() {
                    Some((_, joined)) if continues => {
                        joined.push(' ');
                        joined.push_str(command);
                    }
                    _ => test.commands.push((number, command.to_owned())),
                }
                continues = more;
            } else if let Some(list) = after(line, "REQUIRES:") {
                test.requires.extend(conditions(list));
            } else if let Some(list) = after(line, "UNSUPPORTED:") {
                test.unsupported.extend(conditions(list));
            } else if let Some(list) = after(line, "XFAIL:") {
                test.fails.extend(conditions(list));
            } else if let Some(difference) = after(line, "PEER-DIFF:") {
                let (linker, reason) = difference.split_once(':').unwrap_or((difference, ""));
                if reason.trim().is_empty() {
                    bail!("line {number}: PEER-DIFF should say `linker: reason`, found `{difference}`");
                }
                test.differs.push((linker.trim().to_owned(), reason.trim().to_owned()));
            }
        }
        if test.commands.is_empty() {
            bail!("no RUN: line");
        }
        if continues {
            bail!("the last RUN: line ends with a backslash");
        }
        Ok(test)
    }

    /// Why a linker is expected to differ. A name without a version stands for all versions: `lld` for
    /// `lld-23`.
    pub fn difference(&self, linker: &str) -> Option<&str> {
        let means = |name: &str| {
            let rest = linker.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.differs.iter().find(|(name, _)| means(name)).map(|(_, reason)| reason.as_str())
    }
}

/// The text after a keyword. The keyword must be a whole word: `MY-RUN:` does not count.
fn after<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let at = line.find(keyword)?;
    let before = line[..at].chars().next_back();
    let own = before.is_none_or(|c| !(c.is_alphanumeric() || c == '-' || c == '_'));
    own.then(|| line[at + keyword.len()..].trim())
}

fn conditions(list: &str) -> impl Iterator<Item = String> + '_ {
    list.split(',').map(|condition| condition.trim().to_owned()).filter(|condition| !condition.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continued_lines_are_one_command() {
        let test = TestFile::parse("# RUN: a \\\n# RUN:   b\n# MY-RUN: no\n# RUN: c\n").unwrap();
        assert_eq!(test.commands, [(1, "a b".to_owned()), (4, "c".to_owned())]);
    }

    #[test]
    fn a_difference_holds_for_all_versions_of_a_linker() {
        let test = TestFile::parse("# RUN: a\n# PEER-DIFF: lld: it does otherwise\n").unwrap();
        assert_eq!(test.difference("lld-23"), Some("it does otherwise"));
        assert_eq!((test.difference("lldx"), test.difference("bfd")), (None, None));
    }

    #[test]
    fn a_file_must_say_what_to_run() {
        for text in ["", "# RUN: a \\\n", "# RUN: a\n# PEER-DIFF: lld\n"] {
            assert!(TestFile::parse(text).is_err(), "{text}");
        }
    }
}
