//! The result for one package: read from the logs of the linker and of the build, and compared with the other
//! build.

use super::ledger::{Entry, Frames, Outcome};
use super::list::Source;
use super::test_counts::Tests;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A build with one linker.
#[derive(Serialize, Default)]
pub struct Side {
    /// The exit status of `dpkg-buildpackage`.
    pub status: i32,
    pub tests: Tests,
    /// The links of the package itself, without those that its configure tries.
    pub links: usize,
    /// The processor time of these links.
    pub seconds: f64,
    /// What is known about each linked file, by its path.
    pub files: BTreeMap<String, File>,
    /// The options of these links, without values.
    pub options: BTreeSet<String>,
    pub verified: Verified,
}

/// A linked file.
#[derive(Serialize)]
pub struct File {
    pub bytes: u64,
    /// Whether `.comment` names sframe-ld.
    pub ours: bool,
    /// The libraries that it needs, its own name, and the symbols that it exports; one per line.
    pub interface: BTreeSet<String>,
}

/// The second links, with frames.
#[derive(Serialize, Default)]
pub struct Verified {
    pub files: usize,
    pub functions: u64,
    pub wrong: u64,
    pub errors: u64,
    /// The outputs whose second link failed or whose report could not be read, each with a reason.
    pub failed: Vec<String>,
}

/// A finished package.
#[derive(Serialize)]
pub struct Row {
    pub version: String,
    pub gnu: Side,
    pub ours: Side,
}

impl Side {
    /// Reads the log of the script that replaces the linker. The files that it names are in a root.
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

/// Reads the file that the second field of a line in the log names.
fn read(fields: &[&str], root: &Path) -> Result<String> {
    let path = fields.get(2).context("no file")?;
    Ok(std::fs::read_to_string(root.join(path.trim_start_matches('/')))?)
}

fn last_line(fields: &[&str], root: &Path) -> String {
    read(fields, root).unwrap_or_default().lines().last().unwrap_or("no message").to_owned()
}

/// The options among words. Values are left out, except for those of `-z`, which are part of the option.
fn options<'a>(words: &'a [&str]) -> impl Iterator<Item = String> + use<'a> {
    words.iter().enumerate().filter_map(|(at, word)| match word.as_bytes() {
        [b'-', b'z'] => Some(format!("-z {}", words.get(at + 1)?.split('=').next()?)),
        [b'-', b'l' | b'L' | b'T' | b'h' | b'y' | b'u' | b'O', _, ..] => Some(word[..2].to_owned()),
        [b'-', _, ..] => Some(word.split('=').next()?.to_owned()),
        _ => None,
    })
}

impl Row {
    /// The differences between the builds, in a sentence each.
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

    /// The entry for the record.
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
    use super::Side;
    use std::path::Path;

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
