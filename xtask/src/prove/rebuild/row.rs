//! The result for one package: read from the logs of the linker and of the build, and compared with the other
//! build.

use super::ledger::{Entry, Frames, Outcome, Table};
use super::list::Source;
use super::test_counts::Tests;
use super::way::TABLES;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
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
    pub compared: Compared,
}

/// A linked file.
#[derive(Serialize)]
pub struct File {
    pub bytes: u64,
    /// Bytes of the sections that say how to unwind it, and whether a table is among these.
    pub frames: u64,
    pub has_table: bool,
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

/// The tables in place of `.eh_frame`, compared with the frames that they stand for.
#[derive(Serialize, Default)]
pub struct Compared {
    pub links: usize,
    pub functions: u64,
    pub addresses: u64,
    /// What differs, and the outputs without a table or a report, each with a reason.
    pub differences: Vec<String>,
}

/// What `sframe unwind-table --json` says of a file.
#[derive(Deserialize)]
struct Report {
    has_table: bool,
    functions: u64,
    addresses_compared: u64,
    differences: Vec<String>,
}

/// A finished package.
#[derive(Serialize)]
pub struct Row {
    pub version: String,
    pub gnu: Side,
    pub ours: Side,
    /// The builds with a table, in the order of [`TABLES`].
    pub tables: Vec<Side>,
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
                "U" => self.compared.read(&fields, root),
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

impl Compared {
    fn read(&mut self, fields: &[&str], root: &Path) {
        let name = fields.get(1).copied().unwrap_or_default();
        let text = read(fields, root).unwrap_or_default();
        let reports: Vec<Report> = serde_json::from_str(&text).unwrap_or_default();
        match &reports[..] {
            [report] if report.has_table => {
                self.links += 1;
                self.functions += report.functions;
                self.addresses += report.addresses_compared;
                self.differences.extend(report.differences.iter().map(|line| format!("{name}: {line}")));
            }
            [_] => self.differences.push(format!("{name} has no table")),
            _ => self.differences.push(format!("{name}: {}", last_line(fields, root))),
        }
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

/// The differences between two builds, in a sentence each. Lines of interfaces that are expected to differ do
/// not count.
fn differences(usual: &Side, of: &str, own: &Side, is_expected: fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    if own.status != usual.status {
        found.push(format!("the build ends with {} ({of}: {})", own.status, usual.status));
    }
    if own.tests != usual.tests {
        let show = |tests: &Tests| format!("{} passed, {} failed", tests.passed, tests.failed);
        found.push(format!("tests: {} ({of}: {})", show(&own.tests), show(&usual.tests)));
    }
    for (name, file) in &usual.files {
        match own.files.get(name) {
            None => found.push(format!("no {name}")),
            Some(own) => {
                let lines = differing(&file.interface, &own.interface, is_expected);
                if !lines.is_empty() {
                    found.push(format!("{name}: {}", lines.join(", ")));
                }
            }
        }
    }
    let added = own.files.keys().filter(|name| !usual.files.contains_key(*name));
    found.extend(added.map(|name| format!("{name} is new")));
    let of_others: Vec<&str> =
        own.files.iter().filter(|(_, file)| !file.ours).map(|(name, _)| name.as_str()).collect();
    if !of_others.is_empty() {
        found.push(format!("not by sframe-ld: {}", of_others.join(", ")));
    }
    found
}

/// The lines that only one of two interfaces has: some of each.
fn differing(usual: &BTreeSet<String>, own: &BTreeSet<String>, is_expected: fn(&str) -> bool) -> Vec<String> {
    let added = own.difference(usual).filter(|line| !is_expected(line)).take(4);
    let lost = usual.difference(own).filter(|line| !is_expected(line)).take(4);
    added.map(|line| format!("+{line}")).chain(lost.map(|line| format!("-{line}"))).collect()
}

impl Row {
    /// The differences between the usual builds.
    pub fn differences(&self) -> Vec<String> {
        let mut found = differences(&self.gnu, "GNU ld", &self.ours, |_| false);
        let verified = &self.ours.verified;
        if verified.wrong + verified.errors > 0 {
            found.push(format!("frames: {} functions wrong, {} errors", verified.wrong, verified.errors));
        }
        found.extend(verified.failed.iter().map(|line| format!("with frames: {line}")));
        found
    }

    /// What became of a build with a table.
    fn table(&self, way: &str, side: &Side) -> Table {
        let sum = |side: &Side| side.files.values().map(|file| file.frames).sum();
        let mut differences = differences(&self.ours, "usual", side, comes_with_a_table);
        differences.extend(side.compared.differences.iter().cloned());
        Table {
            way: way.to_owned(),
            links: side.links,
            with_table: side.compared.links,
            files: side.files.len(),
            files_with_table: side.files.values().filter(|file| file.has_table).count(),
            usual_frames: sum(&self.ours),
            frames: sum(side),
            functions: side.compared.functions,
            addresses: side.compared.addresses,
            outcome: side.outcome(),
            differences,
        }
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
            tables: TABLES.iter().zip(&self.tables).map(|(way, side)| self.table(way.name, side)).collect(),
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

/// Whether a line of an interface is about what comes with the look-ups or the unwinder: symbols, and libgcc
/// that is needed no more.
fn comes_with_a_table(line: &str) -> bool {
    const STARTS: [&str; 6] = [
        "_Unwind_",
        "_dl_find_object",
        "dl_iterate_phdr",
        "__register_frame",
        "__deregister_frame",
        "NEEDED [libgcc_s.so",
    ];
    STARTS.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{Side, comes_with_a_table, differences};
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

    #[test]
    fn a_table_counts_if_it_is_in_the_file_and_agrees() {
        let root = tempfile::tempdir().unwrap();
        let report = |table: bool, differences: &str| {
            format!(
                r#"[{{"has_table":{table},"functions":2,"addresses_compared":9,"differences":[{differences}]}}]"#
            )
        };
        std::fs::write(root.path().join("good"), report(true, "")).unwrap();
        std::fs::write(root.path().join("other"), report(true, "\"at 0x10: rbx\"")).unwrap();
        std::fs::write(root.path().join("none"), report(false, "")).unwrap();
        std::fs::write(root.path().join("broken"), "error: b: no ELF file\n[]").unwrap();
        let mut side = Side::default();
        side.read_links(
            "U\ta\t/good\nU\tb\t/other\nU\tc\t/none\nU\td\t/broken\nU\te\t/missing\n",
            root.path(),
        );
        assert_eq!((side.compared.links, side.compared.functions, side.compared.addresses), (2, 4, 18));
        let expected = ["b: at 0x10: rbx", "c has no table", "d: []", "e: no message"];
        assert_eq!(side.compared.differences, expected);
    }

    #[test]
    fn what_comes_with_a_table_is_no_difference() {
        let side = |lines: &[&str]| {
            let interface = lines.iter().map(|line| (*line).to_owned()).collect();
            let file = super::File { bytes: 1, frames: 1, has_table: true, ours: true, interface };
            Side { files: [("x".to_owned(), file)].into(), ..Side::default() }
        };
        let usual = side(&["NEEDED a", "NEEDED [libgcc_s.so.1]", "f T"]);
        let own = side(&["NEEDED b", "_Unwind_Find_FDE T"]);
        let found = differences(&usual, "usual", &own, comes_with_a_table);
        assert_eq!(found, ["x: +NEEDED b, -NEEDED a, -f T"]);
    }
}
