//! The outcome for one package: read from the linker's log and the build's, and held against the other build.

use super::ledger::{Entry, Frames, Outcome};
use super::list::Source;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A build by one linker.
#[derive(Serialize, Default)]
pub struct Side {
    /// The exit status of `dpkg-buildpackage`.
    pub status: i32,
    pub tests: Tests,
    /// Links of the package itself, without those that a configure tries.
    pub links: usize,
    /// The time that processors gave to these.
    pub seconds: f64,
    /// What is known of each file that was linked, by its path.
    pub files: BTreeMap<String, File>,
    /// Options of these links, without values.
    pub options: BTreeSet<String>,
    pub verified: Verified,
}

/// A linked file.
#[derive(Serialize)]
pub struct File {
    pub bytes: u64,
    /// Whether `.comment` names sframe-ld.
    pub ours: bool,
    /// The libraries that it needs, its own name, and what it exports, a line each.
    pub interface: BTreeSet<String>,
}

/// Tests that a log tells of.
#[derive(Serialize, Deserialize, Default, Clone, Copy, Debug, PartialEq)]
pub struct Tests {
    pub passed: usize,
    pub failed: usize,
}

/// Second links, with frames.
#[derive(Serialize, Default)]
pub struct Verified {
    pub files: usize,
    pub functions: u64,
    pub wrong: u64,
    pub errors: u64,
    /// Outputs whose second link failed, or whose report could not be read, with a reason.
    pub failed: Vec<String>,
}

/// A package, done.
#[derive(Serialize)]
pub struct Row {
    pub version: String,
    pub gnu: Side,
    pub ours: Side,
}

impl Side {
    /// Reads the log of the script in the linker's place. Files that it names are in a root.
    pub fn read_links(&mut self, log: &str, root: &Path) {
        let mut real = false;
        for line in log.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[0] {
                "L" => {
                    real = true;
                    self.links += 1;
                    self.options.extend(options(fields.get(2..).unwrap_or_default()));
                }
                "P" => real = false,
                "T" if real => {
                    self.seconds += fields[1..].iter().filter_map(|it| it.parse::<f64>().ok()).sum::<f64>();
                }
                "V" => self.verified.read(&fields, root),
                "X" => self.verified.failed.push(format!("{}: {}", fields[1], last_line(&fields, root))),
                _ => {}
            }
        }
    }

    fn outcome(&self) -> Outcome {
        let bytes: u64 = self.files.values().map(|file| file.bytes).sum();
        Outcome {
            status: self.status,
            tests: self.tests,
            kib: bytes >> 10,
            seconds: (self.seconds * 10.0).round() / 10.0,
        }
    }
}

impl Verified {
    fn read(&mut self, fields: &[&str], root: &Path) {
        let name = fields.get(1).copied().unwrap_or_default();
        let Some(report) =
            read(fields, root).ok().and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
        else {
            return self.failed.push(format!("{name}: no report"));
        };
        let total = &report["total"];
        let count = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
        self.files += 1;
        self.functions += count(&total["covered"]["functions"]);
        self.wrong += count(&total["wrong"]["functions"]);
        self.errors += count(&total["errors"]) + count(&total["unusable"]);
    }
}

/// The file that the second field of a line of the log names.
fn read(fields: &[&str], root: &Path) -> Result<String> {
    let path = fields.get(2).context("no file")?;
    Ok(std::fs::read_to_string(root.join(path.trim_start_matches('/')))?)
}

fn last_line(fields: &[&str], root: &Path) -> String {
    read(fields, root).unwrap_or_default().lines().last().unwrap_or("no message").to_owned()
}

/// The options among words: values are left out, but those of `-z` are part of the option.
fn options<'a>(words: &'a [&str]) -> impl Iterator<Item = String> + use<'a> {
    words.iter().enumerate().filter_map(|(at, word)| match word.as_bytes() {
        [b'-', b'z'] => Some(format!("-z {}", words.get(at + 1)?.split('=').next()?)),
        [b'-', b'l' | b'L' | b'T' | b'h' | b'y' | b'u' | b'O', _, ..] => Some(word[..2].to_owned()),
        [b'-', _, ..] => Some(word.split('=').next()?.to_owned()),
        _ => None,
    })
}

impl Tests {
    /// Counts what the usual drivers of tests print: automake's totals and `PASS:` lines, TAP, CTest, Meson, Python's
    /// `unittest` and pytest, Perl's `prove`, Rust's and Go's.
    pub fn count(log: &str) -> Tests {
        let mut tests = Tests::default();
        let (mut lines_passed, mut lines_failed) = (0, 0);
        for line in log.lines().map(str::trim) {
            let number =
                |start: &str| line.strip_prefix(start).and_then(|rest| rest.trim().parse::<usize>().ok());
            if let Some(count) = number("# PASS:") {
                tests.passed += count;
            } else if let Some(count) = number("# FAIL:").or_else(|| number("# ERROR:")) {
                tests.failed += count;
            } else if line.starts_with("PASS: ") {
                lines_passed += 1;
            } else if line.starts_with("FAIL: ") || line.starts_with("ERROR: ") {
                lines_failed += 1;
            } else {
                tests.add_other(line);
            }
        }
        // The totals repeat these lines.
        if !log.contains("# PASS:") {
            tests.passed += lines_passed;
            tests.failed += lines_failed;
        }
        tests
    }

    fn add_other(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number =
            |word: &str| -> Option<usize> { word.trim_matches(|it: char| !it.is_ascii_digit()).parse().ok() };
        match words[..] {
            ["ok", index, ..] if number(index).is_some() => self.passed += 1,
            ["not", "ok", ..] if !line.contains("# TODO") => self.failed += 1,
            // CTest: `100% tests passed, 0 tests failed out of 12`.
            [_, "tests", "passed,", failed, "tests", "failed", "out", "of", all] => {
                let (failed, all) = (number(failed).unwrap_or(0), number(all).unwrap_or(0));
                self.passed += all.saturating_sub(failed);
                self.failed += failed;
            }
            // Meson's summary.
            ["Ok:", count] => self.passed += number(count).unwrap_or(0),
            ["Fail:", count] => self.failed += number(count).unwrap_or(0),
            // unittest, then Perl's prove.
            ["Ran", count, "tests", "in", ..] => self.passed += number(count).unwrap_or(0),
            [first, count, ..] if first.starts_with("Files=") && count.starts_with("Tests=") => {
                self.passed += number(count).unwrap_or(0);
            }
            // Rust: `test result: ok. 5 passed; 0 failed; …`
            ["test", "result:", _, passed, "passed;", failed, "failed;", ..] => {
                self.passed += number(passed).unwrap_or(0);
                self.failed += number(failed).unwrap_or(0);
            }
            // Go, with -v.
            ["---", "PASS:", ..] => self.passed += 1,
            ["---", "FAIL:", ..] => self.failed += 1,
            _ => {}
        }
    }
}

impl Row {
    /// Where the builds differ, a sentence each.
    pub fn differences(&self) -> Vec<String> {
        let (gnu, ours) = (&self.gnu, &self.ours);
        let mut found = Vec::new();
        if ours.status != gnu.status {
            found.push(format!("the build ends with {} (GNU ld: {})", ours.status, gnu.status));
        }
        if ours.tests != gnu.tests {
            let show = |tests: &Tests| format!("{} passed, {} failed", tests.passed, tests.failed);
            found.push(format!("tests: {} (GNU ld: {})", show(&ours.tests), show(&gnu.tests)));
        }
        for (name, file) in &gnu.files {
            match ours.files.get(name) {
                None => found.push(format!("no {name}")),
                Some(own) => {
                    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>, sign: &str| -> Vec<String> {
                        a.difference(b).take(4).map(|line| format!("{sign}{line}")).collect()
                    };
                    let lines = [
                        only(&own.interface, &file.interface, "+"),
                        only(&file.interface, &own.interface, "-"),
                    ];
                    let lines = lines.concat();
                    if !lines.is_empty() {
                        found.push(format!("{name}: {}", lines.join(", ")));
                    }
                }
            }
        }
        found.extend(
            ours.files
                .keys()
                .filter(|name| !gnu.files.contains_key(*name))
                .map(|name| format!("{name} is new")),
        );
        let of_others: Vec<&str> =
            ours.files.iter().filter(|(_, file)| !file.ours).map(|(name, _)| name.as_str()).collect();
        if !of_others.is_empty() {
            found.push(format!("not by sframe-ld: {}", of_others.join(", ")));
        }
        let verified = &ours.verified;
        if verified.wrong + verified.errors > 0 {
            found.push(format!("frames: {} functions wrong, {} errors", verified.wrong, verified.errors));
        }
        found.extend(verified.failed.iter().map(|line| format!("with frames: {line}")));
        found
    }

    /// What the record keeps of it.
    pub fn entry(&self, source: &Source, commit: &str, date: &str) -> Entry {
        let (gnu, ours) = (&self.gnu, &self.ours);
        Entry {
            name: source.name.to_owned(),
            version: self.version.clone(),
            commit: commit.to_owned(),
            date: date.to_owned(),
            links: ours.links,
            files: ours.files.len(),
            by_ours: ours.files.values().filter(|file| file.ours).count(),
            gnu: gnu.outcome(),
            ours: ours.outcome(),
            same_interfaces: self.same_interfaces(),
            frames: Frames {
                files: ours.verified.files,
                functions: ours.verified.functions,
                wrong: ours.verified.wrong,
            },
            options: ours.options.clone(),
            differences: self.differences(),
        }
    }

    fn same_interfaces(&self) -> bool {
        let (gnu, ours) = (&self.gnu.files, &self.ours.files);
        gnu.len() == ours.len()
            && gnu
                .iter()
                .all(|(name, file)| ours.get(name).is_some_and(|own| own.interface == file.interface))
    }
}

#[cfg(test)]
mod tests {
    use super::{Side, Tests};
    use std::path::Path;

    #[test]
    fn tests_of_every_driver_are_counted_once() {
        for (log, passed, failed) in [
            ("PASS: a\nFAIL: b\n# TOTAL: 2\n# PASS:  1\n# FAIL:  1\n", 1, 1),
            ("PASS: a\nPASS: b\n", 2, 0),
            ("ok 1 - x\nnot ok 2 - y\nnot ok 3 - z # TODO\nok then\n", 1, 1),
            ("100% tests passed, 0 tests failed out of 12\n", 12, 0),
            ("Ok:                 7   \nFail:               1   \n", 7, 1),
            ("Files=3, Tests=40,  1 wallclock secs\n", 40, 0),
            ("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n", 5, 0),
            ("--- PASS: TestX (0.00s)\n", 1, 0),
        ] {
            assert_eq!(Tests::count(log), Tests { passed, failed }, "{log}");
        }
    }

    #[test]
    fn links_of_a_configure_are_left_out() {
        let log = "P\t/b\t-o\tconftest\nT\t1.0\t1.0\nL\t/b\t-z\tnow\t-lm\t--hash-style=gnu\tx.o\t-o\tx\nT\t0.250\t0.5\nX\tx\t/none\n";
        let mut side = Side::default();
        side.read_links(log, Path::new("/nowhere"));
        assert_eq!((side.links, side.seconds), (1, 0.75));
        assert_eq!(side.options.into_iter().collect::<Vec<_>>(), ["--hash-style", "-l", "-o", "-z now"]);
        assert_eq!(side.verified.failed, ["x: no message"]);
    }
}
