//! What is recorded about every package that was ever built, on any machine: `tests/proofs/rebuild.json`,
//! with a line for each package in the order of the list. The proof continues from it, and makes the page for
//! readers from it.

use super::list::{SOURCES, Source};
use super::test_counts::Tests;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A package that both linkers have built.
#[derive(Clone, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    pub version: String,
    /// The commit that the linker was built from, and the date of this build.
    pub commit: String,
    pub date: String,
    /// The links by sframe-ld, and the files that they made.
    pub links: usize,
    pub files: usize,
    pub by_ours: usize,
    pub gnu: Outcome,
    pub ours: Outcome,
    pub same_interfaces: bool,
    pub frames: Frames,
    pub options: BTreeSet<String>,
    pub differences: Vec<String>,
    /// The builds with a table in place of `.eh_frame`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
}

/// A build with a table in place of `.eh_frame`, beside the usual one of this linker.
#[derive(Clone, Serialize, Deserialize)]
pub struct Table {
    /// What reads the table.
    pub way: String,
    /// The links, and those whose output has a table.
    pub links: usize,
    pub with_table: usize,
    pub files: usize,
    pub files_with_table: usize,
    /// Bytes that say how to unwind all files: those of the usual build, and these.
    pub usual_frames: u64,
    pub frames: u64,
    /// What `sframe unwind-table` compared.
    pub functions: u64,
    pub addresses: u64,
    pub outcome: Outcome,
    pub differences: Vec<String>,
}

/// The result of a build.
#[derive(Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The exit status of `dpkg-buildpackage`.
    pub status: i32,
    pub tests: Tests,
    pub kib: u64,
    pub seconds: f64,
}

/// The tables of the second links, verified.
#[derive(Clone, Serialize, Deserialize)]
pub struct Frames {
    pub files: usize,
    pub functions: u64,
    pub wrong: u64,
}

/// All entries, by name.
#[derive(Default)]
pub struct Ledger {
    entries: BTreeMap<String, Entry>,
}

impl Ledger {
    /// Reads the file. If it does not exist, nothing was built yet.
    pub fn read(file: &Path) -> Result<Ledger> {
        if !file.exists() {
            return Ok(Ledger::default());
        }
        let text = std::fs::read_to_string(file)?;
        Ledger::parse(&text).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<Ledger> {
        let mut ledger = Ledger::default();
        for entry in serde_json::from_str::<Vec<Entry>>(text)? {
            ensure!(SOURCES.iter().any(|it| it.name == entry.name), "{} is not in the list", entry.name);
            ledger.insert(entry);
        }
        Ok(ledger)
    }

    pub fn insert(&mut self, entry: Entry) {
        self.entries.insert(entry.name.clone(), entry);
    }

    pub fn has(&self, source: &Source) -> bool {
        self.entries.contains_key(source.name)
    }

    /// The file's text.
    pub fn text(&self) -> Result<String> {
        let lines = self.in_order().map(|(_, entry)| serde_json::to_string(entry));
        Ok(format!("[\n{}\n]\n", lines.collect::<Result<Vec<_>, _>>()?.join(",\n")))
    }

    fn in_order(&self) -> impl Iterator<Item = (&'static Source, &Entry)> {
        SOURCES.iter().filter_map(|source| Some((source, self.entries.get(source.name)?)))
    }

    /// The part of the page about tables in place of `.eh_frame`.
    fn tables(&self) -> Vec<String> {
        let rows: Vec<String> = self.in_order().flat_map(|(source, entry)| entry.tables(source)).collect();
        if rows.is_empty() {
            return rows;
        }
        let mut lines = vec![
            "\n## With a table in place of `.eh_frame`\n\n\
             Packages that throw exceptions, end threads or show their own stacks are built twice more by sframe-ld with \
             `--unwind-table=replace`: with look-ups for libgcc, and with an unwinder (`--unwind-runtime=full`); shared libraries with \
             `--unwind-runtime=program`. Links with `-r` and of libraries that the distribution's compiler loads are left as they are; \
             what configure tries is not. Differences are those to the usual build by sframe-ld. Symbols that come with the look-ups \
             count as none, nor does a program that needs libgcc_s no more. Bytes are of `.eh_frame`, its header and the table, in all \
             files; what links into a program has functions, too. In each output, `sframe unwind-table` compared every register at \
             every address.\n\n\
             | package | by | links | with a table | files | with a table | tests, usual | tests, table | bytes, usual | bytes, table | \
             share | functions compared | addresses | KiB, usual | KiB, table | differences |\n\
             |---|---|---:|---:|---:|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---|"
                .to_owned(),
        ];
        lines.extend(rows);
        lines
    }

    /// The page for readers, without its title.
    pub fn page(&self) -> String {
        let good =
            self.in_order().filter(|(_, entry)| entry.gnu.status == 0 && entry.ours.status == 0).count();
        let mut lines = vec![
            format!(
                "{good} of {} packages were built to their end by both linkers, each by `dpkg-buildpackage --target=build-arch` with \
                 its own tests, first by GNU ld, then by sframe-ld in its place. Links are those of the package, without what its \
                 configure tries; each of ours was made a second time with `--sframe-from-eh-frame=all --sframe-index` and verified. \
                 The interface of a file is what it needs, its name and run path, and every dynamic symbol that it defines, with kind \
                 and version. Where no tests are counted, the build ran none, or they print nothing that can be counted and end well. \
                 Seconds are of links alone, of all processors together, beside other work. A row says of which commit the linker was \
                 and when it linked; `rebuild.json` has the same for programs.\n",
                SOURCES.len()
            ),
            "| package | built by | links | by ours | tests, GNU ld | tests, ours | interfaces | with frames | KiB, GNU ld | KiB, ours \
             | s, GNU ld | s, ours | commit, date | differences |\n\
             |---|---|---:|---|---|---|---|---|---:|---:|---:|---:|---|---|"
                .to_owned(),
        ];
        lines.extend(self.in_order().map(|(source, entry)| entry.show(source)));
        lines.extend(self.tables());
        let options: BTreeSet<&String> = self.entries.values().flat_map(|entry| &entry.options).collect();
        let options: Vec<String> = options.into_iter().map(|option| format!("`{option}`")).collect();
        lines.push(format!("\nOptions of these links: {}", options.join(", ")));
        let missing: Vec<&str> = SOURCES.iter().filter(|it| !self.has(it)).map(|it| it.name).collect();
        if !missing.is_empty() {
            lines.push(format!("\nNot built yet: {}", missing.join(", ")));
        }
        lines.join("\n")
    }
}

/// Differences as the page shows them, with the explanation if the builds are unlike what is wanted. An
/// explanation must not hide a difference that comes later.
fn shown(differences: &[String], source: &Source, is_unlike: bool) -> String {
    let explained = source.explained.filter(|_| is_unlike);
    let all: Vec<&str> = differences.iter().map(String::as_str).chain(explained).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ").replace('|', "\\|") }
}

impl Outcome {
    fn show(&self) -> String {
        match (self.status, self.tests.passed, self.tests.failed) {
            (0, 0, 0) => "none counted".to_owned(),
            (0, passed, 0) => format!("{passed}"),
            (status, passed, failed) => format!("{passed}, {failed} failed, status {status}"),
        }
    }
}

impl Entry {
    /// The rows of the builds with a table.
    pub fn tables(&self, source: &Source) -> impl Iterator<Item = String> {
        self.tables.iter().map(|table| {
            let differences = shown(&table.differences, source, !table.differences.is_empty());
            format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.3} | {} | {} | {} | {} | {differences} |",
                self.name,
                table.way,
                table.links,
                table.with_table,
                table.files,
                table.files_with_table,
                self.ours.show(),
                table.outcome.show(),
                table.usual_frames,
                table.frames,
                table.frames as f64 / table.usual_frames.max(1) as f64,
                table.functions,
                table.addresses,
                self.ours.kib,
                table.outcome.kib,
            )
        })
    }

    /// The columns of the page.
    pub fn show(&self, source: &Source) -> String {
        let unlike = !self.differences.is_empty() || self.gnu.status != 0;
        let differences = shown(&self.differences, source, unlike);
        let (gnu, ours, frames) = (&self.gnu, &self.ours, &self.frames);
        format!(
            "| {} {} | {} | {} | {} of {} | {} | {} | {} | {} files, {} functions, {} wrong | {} | {} | {:.1} | {:.1} | {}, {} | {differences} |",
            self.name,
            self.version,
            source.about,
            self.links,
            self.by_ours,
            self.files,
            gnu.show(),
            ours.show(),
            if self.same_interfaces { "the same" } else { "different" },
            frames.files,
            frames.functions,
            frames.wrong,
            gnu.kib,
            ours.kib,
            gnu.seconds,
            ours.seconds,
            self.commit,
            self.date,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;

    #[test]
    fn the_committed_file_is_read_and_written_the_same() {
        let committed = include_str!("../../../../tests/proofs/rebuild.json");
        let ledger = Ledger::parse(committed).unwrap();
        assert_eq!(ledger.text().unwrap(), committed);
        let page = include_str!("../../../../tests/proofs/rebuild.md");
        assert!(page.trim_end().ends_with(&ledger.page()), "rebuild.md is not made of rebuild.json");
    }

    #[test]
    fn packages_out_of_the_list_are_refused() {
        let committed = include_str!("../../../../tests/proofs/rebuild.json");
        let other = committed.replacen("\"name\":\"bzip2\"", "\"name\":\"unknown\"", 1);
        assert!(Ledger::parse(&other).is_err());
    }
}
