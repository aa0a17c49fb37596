//! Proves that other projects' programs read what the linker writes. Every link of the test suite is made
//! again, and each different SFrame section in an output is given to libsframe of several releases, row for
//! row, and to readelf, objdump and llvm-readobj of every release that was fetched.
//!
//! No program that prints sections may stop by a signal or an assertion, not even at a version that it does
//! not know. libsframe must have every row of a blob whose version it reads, and the newest readelf and
//! objdump must print what `sframe dump --readelf` prints. Damaged blobs, which tests of damage let through,
//! are left out.

use super::proof::Proof;
use crate::children::output_within;
use crate::commands::output;
use crate::{folders, same_bytes};
use ::peers::libsframe::{Libsframe, every_row};
use ::peers::tree;
use anyhow::{Result, ensure};
use object::{Object, ObjectKind, ObjectSection};
use sframe_format::{Attributes, Blob, Error, Fde, Section};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The longest time that a reader may take for a file. An object with 66,000 sections takes half a minute.
const LIMIT: Duration = Duration::from_secs(300);
/// The programs that print sections, and how their folders' names begin.
const READERS: [(&str, &str); 3] =
    [("binutils-", "readelf"), ("binutils-", "objdump"), ("llvm-", "llvm-readobj")];

#[derive(clap::Args)]
pub struct Arguments {
    /// Take the links in FOLDER, as `same-bytes capture` keeps them, instead of running the tests
    #[arg(long, value_name = "FOLDER")]
    links: Option<PathBuf>,
    #[command(flatten)]
    sframe: crate::install::SframeCommand,
}

pub fn libsframe(proof: &mut Proof, arguments: &Arguments) -> Result<()> {
    let sframe = crate::install::Program::path(&arguments.sframe)?;
    let linker = proof.folder.join("installed/bin/sframe-ld");
    let links = match &arguments.links {
        Some(folder) => folder.clone(),
        None => captured(proof, &linker)?,
    };
    let mut judge = Judge::new(proof.folder.clone(), sframe)?;
    let made = same_bytes::outputs(&links, &linker, &mut |link, file| judge.take(link, &file))?;
    judge.report(proof, made)
}

/// Whether a blob can be read, and the rows of each function are in order and inside it.
fn is_sound(blob: &Blob<'_>) -> bool {
    let is_in_order = |(fde, attributes): (Fde, Result<Attributes, Error>)| {
        let Ok(attributes) = attributes else { return false };
        let starts: Vec<u32> = blob.fres(&attributes).flatten().map(|fre| fre.start).collect();
        starts.is_sorted_by(|before, start| before < start)
            && starts.last().is_none_or(|&last| last == 0 || last < fde.size)
    };
    blob.check().is_ok() && blob.functions().all(is_in_order)
}

/// Runs the tests that link, and keeps their links.
fn captured(proof: &Proof, linker: &Path) -> Result<PathBuf> {
    let folder = proof.folder.join("links");
    let _ = std::fs::remove_dir_all(&folder);
    let tests =
        "cargo test --quiet --test integration && cargo test --quiet --test lit -- --ld sframe-ld=$SFRAME_LD";
    let line = format!("cd '{}' && {tests}", folders::workspace().display());
    same_bytes::capture(&folder, linker, &["sh".into(), "-c".into(), line])?;
    Ok(folder)
}

/// A program that prints sections.
struct Reader {
    name: String,
    program: PathBuf,
    /// Whether its text must be ours.
    is_newest: bool,
}

/// What became of sections that a reader was given, or of blobs that libsframe was given.
#[derive(Default)]
struct Tally {
    read: usize,
    rows: usize,
    refused: usize,
    /// The links whose outputs made it stop, or are not read as we read them, each with the reason.
    wrong: Vec<String>,
}

/// Gives sections to all readers.
struct Judge {
    folder: PathBuf,
    sframe: PathBuf,
    libraries: Vec<Libsframe>,
    readers: Vec<Reader>,
    tallies: BTreeMap<String, Tally>,
    /// The hashes of the sections so far.
    known: BTreeSet<[u8; 32]>,
    files: usize,
    blobs: BTreeMap<String, usize>,
}

impl Judge {
    fn new(folder: PathBuf, sframe: PathBuf) -> Result<Self> {
        let libraries = Libsframe::all(&folder).map_err(anyhow::Error::msg)?;
        ensure!(libraries.len() > 1, "libsframe of one release at most (cargo xtask peers)");
        let (known, blobs) = (BTreeSet::new(), BTreeMap::new());
        let readers = readers()?;
        Ok(Judge { folder, sframe, libraries, readers, tallies: BTreeMap::new(), known, files: 0, blobs })
    }

    /// Looks at a file that the linker wrote.
    fn take(&mut self, link: &str, file: &[u8]) -> Result<()> {
        let Ok(parsed) = object::File::parse(file) else { return Ok(()) };
        let is_linked = parsed.kind() != ObjectKind::Relocatable;
        let mut sections = Vec::new();
        for section in parsed.sections() {
            let (Ok(name), Ok(data)) = (section.name(), section.data()) else { continue };
            let found = Section::new(data, section.address());
            let blobs: Vec<Blob<'_>> = found.blobs().filter(|blob| !blob.header().is_light()).collect();
            // Programs take a section by its name, and find another one of that name as well.
            if name.starts_with(".sframe") && !blobs.iter().all(is_sound) {
                return Ok(());
            }
            if name.starts_with(".sframe") && !blobs.is_empty() {
                sections.push((name, data, blobs));
            }
        }
        let mut is_new = false;
        for (name, data, blobs) in sections {
            let hash = blake3::hash(&[data, name.as_bytes(), &[u8::from(is_linked)]].concat());
            if !self.known.insert(*hash.as_bytes()) {
                continue;
            }
            if !is_new {
                std::fs::write(self.folder.join("output"), file)?;
                (is_new, self.files) = (true, self.files + 1);
            }
            self.print(&format!("{link} {name}"), name, is_linked && blobs[0].offset() == 0)?;
            for (number, blob) in blobs.iter().enumerate() {
                let header = blob.header();
                *self.blobs.entry(format!("{} {:?}", header.version, header.abi)).or_default() += 1;
                self.ask(&format!("{link} {name}, blob {number}"), blob, is_linked)?;
            }
        }
        Ok(())
    }

    /// Asks every release of libsframe for every row of a blob. In an object, starts are not yet addresses.
    fn ask(&mut self, what: &str, blob: &Blob<'_>, is_linked: bool) -> Result<()> {
        for library in &self.libraries {
            let tally = self.tallies.entry(format!("libsframe {}", library.binutils())).or_default();
            if !library.reads(blob) {
                tally.refused += 1;
                continue;
            }
            let questions = every_row(blob, is_linked && library.looks_up(blob));
            match library.differences(&self.folder, blob, &questions) {
                Ok(differences) if differences.is_empty() => {
                    (tally.read, tally.rows) = (tally.read + 1, tally.rows + questions.len());
                }
                Ok(differences) => tally.wrong.push(format!("{what}: {}", differences.join("; "))),
                Err(error) => tally.wrong.push(format!("{what}: {error}")),
            }
        }
        Ok(())
    }

    /// Lets every program print a section of the output. If it begins with a blob, the newest ones must print
    /// that as we do.
    fn print(&mut self, what: &str, section: &str, is_first: bool) -> Result<()> {
        let file = self.folder.join("output");
        let own = output(Command::new(&self.sframe).args(["dump", "--readelf"]).arg(&file))?;
        let own = of_section(&own, section);
        for reader in &self.readers {
            let tally = self.tallies.entry(reader.name.clone()).or_default();
            let option = if reader.name.starts_with("llvm") { "--sframe" } else { "--sframe=" };
            let option = if section == ".sframe" { "--sframe".into() } else { format!("{option}{section}") };
            let said = output_within(Command::new(&reader.program).arg(option).arg(&file), LIMIT)?;
            let text = String::from_utf8_lossy(&said.stdout).into_owned();
            if let Some(reason) = stopped(&said) {
                tally.wrong.push(format!("{what}: {reason}"));
            } else if !text.contains("Header") {
                tally.refused += 1;
            } else if is_first && reader.is_newest && words(&text) != own {
                tally.wrong.push(format!("{what}: {}", first_difference(&own, &words(&text))));
            } else {
                tally.read += 1;
                tally.rows += if reader.is_newest { words(&text).len() } else { 0 };
            }
        }
        Ok(())
    }

    fn report(self, proof: &mut Proof, links: usize) -> Result<()> {
        let blobs: Vec<String> =
            self.blobs.iter().map(|(kind, count)| format!("{count} of {kind}")).collect();
        proof.note(format!(
            "{links} links of the tests. {} of their outputs have SFrame sections that no other has, with sound blobs: {}.\n\n\
             libsframe was asked for every row by its place, and in sorted blobs by addresses; the newest readelf and objdump\n\
             must print the lines of `sframe dump --readelf`. What a release does not know it must refuse in good order.\n\n\
             | reader | read | rows or lines compared | another version | stops or differs |\n|---|---:|---:|---:|---:|",
            self.files,
            blobs.join(", ")
        ))?;
        let mut wrong = Vec::new();
        for (name, tally) in self.tallies {
            let Tally { read, rows, refused, wrong: differ } = tally;
            proof.note(format!("| {name} | {read} | {rows} | {refused} | {} |", differ.len()))?;
            wrong.extend(differ.iter().map(|line| format!("{name}: {line}")));
        }
        ensure!(wrong.is_empty(), "{} are not read as we read them:\n{}", wrong.len(), wrong.join("\n"));
        Ok(())
    }
}

/// Every reader in the tree of tools.
fn readers() -> Result<Vec<Reader>> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(tree::folder())?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    folders.sort();
    let mut found = Vec::new();
    for (prefix, tool) in READERS {
        let named = |folder: &&PathBuf| {
            folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        };
        let fitting: Vec<_> = folders.iter().filter(named).filter(|path| path.join(tool).is_file()).collect();
        for (at, folder) in fitting.iter().enumerate() {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let version = name.rsplit_once('-').map_or("", |(_, version)| version);
            found.push(Reader {
                name: format!("{tool} {version}"),
                program: folder.join(tool),
                is_newest: prefix == "binutils-" && at + 1 == fitting.len(),
            });
        }
    }
    ensure!(!found.is_empty(), "no readelf (cargo xtask peers)");
    Ok(found)
}

/// How a program stopped that should not have.
fn stopped(said: &Output) -> Option<String> {
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    let line = errors.lines().find(|line| line.to_lowercase().contains("assert"));
    match (said.status.code(), line) {
        (Some(_), None) => None,
        (_, line) => Some(format!("{}, {}", said.status, line.unwrap_or("no message"))),
    }
}

/// The words of each line of what was printed of a blob, from its header on.
fn words(text: &str) -> Vec<String> {
    let rest = text.find("Header :").map_or("", |at| &text[at..]);
    let lines = rest.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect()
}

/// The lines of the first blob of a section in what `sframe dump --readelf` prints.
fn of_section(text: &str, section: &str) -> Vec<String> {
    let title = format!("Contents of the SFrame section {section}:");
    let rest = text.find(&title).map_or("", |at| &text[at + title.len()..]);
    words(rest.find("Contents of the SFrame section").map_or(rest, |end| &rest[..end]))
}

fn first_difference(own: &[String], theirs: &[String]) -> String {
    let at = own.iter().zip(theirs).take_while(|(own, theirs)| own == theirs).count();
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "the end".into());
    format!("line {at}: {}, {}", line(own), line(theirs))
}
