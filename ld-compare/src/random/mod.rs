//! `ld-compare random`: makes random programs, links each with every linker in several ways, runs them and
//! compares what they print.
//!
//! A test suite tests what its author thought of. A random program combines what nobody thought of: a
//! protected symbol, in a COMDAT group, from an archive, by a PC-relative word. To judge it, no oracle is
//! necessary: the majority of the other linkers tells which output is right.
//!
//! `generate` makes a description of a program from a seed (`program`). Then `assembly` writes it by the
//! templates of a machine (`dialect`), and `c` writes it as C. The program notes everything that it can
//! reach: values through every kind of relocation, results of calls, texts, the order of constructors. It
//! prints no address and nothing else that linkers may decide differently. So a wrong link shows as a
//! different output.

pub mod assembly;
pub mod bench;
pub mod c;
pub mod choice;
pub mod compiled;
pub mod dialect;
pub mod frames;
pub mod generate;
pub mod judge;
pub mod link;
pub mod output;
pub mod plugin;
pub mod program;
pub mod rng;
pub mod script;
pub mod tally;
pub mod versions;

mod aarch64;
mod machines;
mod s390x;
mod x86_64;

use crate::cases::{CaseFile, FILE};
use crate::peers::{Family, Linker, Wanted};
use anyhow::{Context, Result};
use bench::Bench;
pub use choice::Choice;
use judge::{Outcome, Verdict};
use link::Way;
use program::Program;
use std::fmt::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tally::{Finding, Tally};

/// Number of programs between two records of the progress.
const BATCH: u64 = 40;

/// Runs the programs and returns the counts.
///
/// # Errors
/// A tool is missing or cannot be run, or the assembler refuses a program.
pub fn run(choice: &Choice, wanted: &Wanted, told: &(dyn Fn(&str) + Sync)) -> Result<Tally> {
    let bench = Bench::new(choice.machine, wanted)?;
    let mut tally = match choice.json.as_deref().map(std::fs::read_to_string) {
        Some(Ok(text)) => serde_json::from_str(&text).context("--json names a file of something else")?,
        _ => Tally::new(choice, &bench),
    };
    tally.check(choice, &bench)?;
    let last = choice.count.div_ceil(choice.ways.max(1));
    while tally.descriptions < last {
        let until = (tally.descriptions + BATCH).min(last);
        let next = AtomicU64::new(tally.descriptions);
        let batch = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let work = || -> Result<()> {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= until {
                        return Ok(());
                    }
                    let done = one(choice, &bench, choice.seed + number, told)?;
                    batch.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, done));
                }
            };
            let threads: Vec<_> = (0..choice.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
            })
        })?;
        let mut batch = batch.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        batch.sort_by_key(|(number, _)| *number);
        batch.into_iter().for_each(|(_, done)| tally.add(done));
        tally.descriptions = until;
        if let Some(path) = &choice.json {
            std::fs::write(path, serde_json::to_string_pretty(&tally)? + "\n")?;
        }
    }
    Ok(tally)
}

/// Makes the program of a seed and links it in every way.
fn one(choice: &Choice, bench: &Bench, seed: u64, told: &(dyn Fn(&str) + Sync)) -> Result<Tally> {
    let program = generate::generate(bench.machine, seed);
    let folder = tempfile::Builder::new().prefix("ld-compare-random-").tempdir()?;
    bench.make(&program, folder.path())?;
    let mut tally = Tally::new(choice, bench);
    for (number, way) in link::ways(&program, choice.ways as usize).iter().enumerate() {
        way.write(folder.path())?;
        let mut outcomes = Vec::new();
        let mut complaint = None;
        let linkers = bench.suitable(&program, way);
        for linker in &linkers {
            let (outcome, linked) = judge::outcome(bench, linker, &program, way, folder.path())?;
            if linker.is_ours() {
                complaint = judge::complaints(bench, choice.sframe.as_deref(), program.framed, &linked)?;
            }
            outcomes.push(outcome);
        }
        let verdict = judge::judge(&outcomes);
        tally.count(way, &outcomes, &verdict, &way.parts(&program));
        let place = Place { bench, program: &program, way, number, linkers, folder: folder.path() };
        for finding in place.findings(&outcomes, &verdict, complaint) {
            let open = finding.linker == bench.linkers[0].name;
            if open {
                told(&finding.text());
            }
            if let (Some(keep), true) = (&choice.keep, open || choice.keep_all) {
                place.keep(keep, &outcomes)?;
            }
            tally.findings.push(finding);
        }
    }
    Ok(tally)
}

/// A link of a program.
struct Place<'a> {
    bench: &'a Bench,
    program: &'a Program,
    way: &'a Way,
    number: usize,
    /// The linkers that take part, this project's first.
    linkers: Vec<&'a Linker>,
    folder: &'a Path,
}

impl Place<'_> {
    fn findings(&self, outcomes: &[Outcome], verdict: &Verdict, complaint: Option<String>) -> Vec<Finding> {
        let finding = |linker: &str, lines: Vec<String>| Finding {
            seed: self.program.seed,
            way: self.number,
            output: format!("{:?}", self.way.output),
            linker: linker.to_owned(),
            lines,
        };
        let name = |at: usize| self.linkers[at].name.as_str();
        let mut found = Vec::new();
        match verdict {
            Verdict::Agreed => {}
            Verdict::OursDiffers(majority) => found
                .push(finding(name(0), judge::difference(&outcomes[0], &outcomes[*majority], self.folder))),
            Verdict::OthersDiffer(others) => {
                found.extend(others.iter().map(|&at| {
                    finding(name(at), judge::difference(&outcomes[at], &outcomes[0], self.folder))
                }));
            }
            Verdict::Unsettled => {
                let lines =
                    (1..outcomes.len()).filter(|&at| !outcomes[at].agrees(&outcomes[0])).flat_map(|at| {
                        let lines = judge::difference(&outcomes[at], &outcomes[0], self.folder);
                        lines.into_iter().map(move |line| format!("{}: {line}", name(at)))
                    });
                let alone = judge::stands_alone(outcomes);
                found.push(finding(if alone { tally::ALONE } else { tally::UNSETTLED }, lines.collect()));
            }
        }
        found.extend(complaint.map(|text| finding(name(0), vec![text])));
        found
    }

    /// Writes the program as a case, with its sources and outcomes.
    fn keep(&self, keep: &Path, outcomes: &[Outcome]) -> Result<()> {
        let machine = self.bench.machine;
        let folder = keep.join(format!("{}-{}-{}", machine.name(), self.program.seed, self.number));
        std::fs::create_dir_all(&folder)?;
        for entry in std::fs::read_dir(self.folder)?.flatten() {
            std::fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        let case = judge::case(self.bench, self.program, self.way, Family::SFrameLd, &folder);
        let file =
            CaseFile { name: Some(case.name), machine: Some(machine), build: Vec::new(), steps: case.steps };
        std::fs::write(folder.join(FILE), serde_json::to_string_pretty(&file)? + "\n")?;
        let mut text = String::new();
        for (linker, outcome) in self.linkers.iter().zip(outcomes) {
            match outcome {
                Outcome::Refused(said) | Outcome::Broken(said) => {
                    writeln!(text, "== {}: refused\n{said}", linker.name)?;
                }
                Outcome::Ran(end, said) => writeln!(text, "== {}: {end}\n{said}", linker.name)?,
            }
        }
        Ok(std::fs::write(folder.join("outcomes.txt"), text)?)
    }
}
