//! Proof over damaged inputs: thousands of objects, archives, shared libraries and scripts, each damaged by its
//! structure ([`damage`]), linked by this linker and by every other under limits, and counted by what became of it.
//!
//! A mutant is known by its number alone, so a finding comes back: `--seed N --count 1`. This linker links all of
//! them; the others, which take longer together, the first ones.

mod damage;
mod originals;

use super::limits::{self, Limits};
use super::proof::{Proof, first_line, output};
use crate::peers;
use anyhow::{Context, Result, ensure};
use damage::{Numbers, damage};
use originals::Original;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mutants that this linker links, and those of them that the others link.
const COUNT: u64 = 20_000;
const FOR_OTHERS: u64 = 4_000;
/// Links at a time.
const AT_A_TIME: u64 = 2;
/// No mutant has more than half a megabyte; a link of the originals takes some hundredths of a second.
const LIMITS: Limits = Limits { processor: 10, clock: 120, address_space: 4 << 30, file: 1 << 30 };
/// More memory in use than this, in KiB, is too much.
const MEMORY: i64 = 512 << 10;

/// Options that this linker gets besides, so that they meet damaged inputs too.
const MODES: &[&str] = &[
    "",
    "",
    "--sframe-index",
    "--sframe=merge",
    "--sframe-from-eh-frame=missing --sframe-index",
    "--sframe-split",
    "--icf=all",
    "--gdb-index",
    "--emit-relocs",
    "-Map=map --cref --stats",
];

/// What became of a mutant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Refused,
    Sound,
    Unsound,
    Crash,
    Hang,
    Memory,
}

const FATES: [(Fate, &str); 6] = [
    (Fate::Refused, "refused with a message"),
    (Fate::Sound, "accepted, `readelf -aW` has no complaint"),
    (Fate::Unsound, "accepted, `readelf -aW` complains"),
    (Fate::Crash, "crash"),
    (Fate::Hang, "hang"),
    (Fate::Memory, "over memory"),
];

/// A linker that takes part.
struct Linker {
    name: String,
    version: String,
    program: PathBuf,
    count: u64,
}

/// Links of one linker: how many had which fate, by kind of original, and the first findings.
#[derive(Default)]
struct Counts {
    fates: BTreeMap<(&'static str, Fate), u64>,
    findings: Vec<String>,
    /// What readelf complains of in outputs, without numbers and names, by how often.
    complaints: BTreeMap<String, u64>,
}

pub fn mutants(proof: &mut Proof, count: Option<u64>, seed: u64) -> Result<()> {
    let count = count.unwrap_or(COUNT);
    let folder = proof.folder.join("mutants");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let originals = originals::make(proof, &folder)?;
    let ours = proof.prefix.join("ld");
    let mut linkers = vec![Linker {
        name: "sframe-ld".into(),
        version: first_line(Command::new(&ours).arg("--version"))?,
        program: ours,
        count,
    }];
    for name in peers::linkers() {
        let program = peers::folder().join(&name).join("ld");
        let Ok(version) = first_line(Command::new(&program).arg("--version")) else { continue };
        // Of GNU ld the newest is enough.
        linkers.retain(|linker| !(name.starts_with("bfd-") && linker.name.starts_with("bfd-")));
        linkers.push(Linker { name, version, program, count: count.min(FOR_OTHERS) });
    }
    proof.note(format!(
        "{count} mutants of {} files (number {seed} on), each linked by sframe-ld; the first {} by the others as well. Damage is \
         done to fields: of headers, symbols, relocations, groups, versions, notes, frames, archives' tables, and to words of \
         scripts, one to three times. A hang is more than {} s of processor time, too much memory is more than {} MiB in use, \
         or an end for lack of {} GiB of address space; a crash is the end by another signal, a panic or an internal error. \
         This linker gets its own options besides, in turn: SFrame modes, folding, the index of debug information, a map. What is accepted is read by `readelf -aW` of binutils 2.47: a complaint may be of bytes that the damage put there \
         and a linker copies.\n",
        originals.len(),
        count.min(FOR_OTHERS),
        LIMITS.processor,
        MEMORY >> 10,
        LIMITS.address_space >> 30
    ))?;
    for original in &originals {
        std::fs::write(folder.join("undamaged"), &original.bytes)?;
        for way in original.ways {
            let words = way.iter().map(|word| word.replace("MUTANT", "undamaged"));
            output(Command::new(&linkers[0].program).current_dir(&folder).args(["-o", "out"]).args(words))
                .with_context(|| format!("{} without damage", original.name))?;
        }
    }
    let mut tables = Vec::new();
    for linker in &linkers {
        eprintln!("mutants: {}", linker.name);
        tables.push(link_all(linker, &originals, &folder, seed)?);
    }
    record(proof, &linkers, &tables)?;
    let bad: Vec<&str> = tables[0].findings.iter().map(String::as_str).collect();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    Ok(())
}

/// Links all mutants by one linker.
fn link_all(linker: &Linker, originals: &[Original], folder: &Path, seed: u64) -> Result<Counts> {
    let (counts, next) = (Mutex::new(Counts::default()), AtomicU64::new(0));
    let readelf = peers::program("readelf")?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|worker| {
                let (counts, next, readelf) = (&counts, &next, &readelf);
                scope.spawn(move || -> Result<()> {
                    // A folder of its own, whose links lead to the files that are not damaged.
                    let place = folder.join(format!("worker-{worker}"));
                    std::fs::create_dir_all(&place)?;
                    for entry in std::fs::read_dir(folder)?.flatten() {
                        let name = entry.file_name();
                        if entry.path().is_file() && !place.join(&name).exists() {
                            std::fs::copy(entry.path(), place.join(&name))?;
                        }
                    }
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= linker.count {
                            return Ok(());
                        }
                        let bench = Bench { linker, readelf, place: &place };
                        let (kind, fate, finding) = bench.link(originals, seed + number)?;
                        let mut counts = counts.lock().expect("no panic");
                        *counts.fates.entry((kind, fate)).or_default() += 1;
                        match finding {
                            Some(said) if fate == Fate::Unsound => {
                                *counts.complaints.entry(kind_of(&said)).or_default() += 1;
                            }
                            finding => counts.findings.extend(finding),
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    let mut counts = counts.into_inner().expect("no panic");
    counts.findings.sort();
    Ok(counts)
}

/// One worker's place of work.
struct Bench<'b> {
    linker: &'b Linker,
    readelf: &'b Path,
    place: &'b Path,
}

impl Bench<'_> {
    /// Makes a mutant, links it and judges; findings of crashes and the like come with a text.
    fn link(&self, originals: &[Original], number: u64) -> Result<(&'static str, Fate, Option<String>)> {
        let mut numbers = Numbers::new(number);
        let original = &originals[numbers.below(originals.len())];
        let way = original.ways[numbers.below(original.ways.len())];
        let mut bytes = original.bytes.clone();
        damage(&mut bytes, &mut numbers);
        let mutant = format!("mutant-{}", original.name);
        std::fs::write(self.place.join(&mutant), &bytes)?;
        let out = self.place.join("out");
        let _ = std::fs::remove_file(&out);
        let arguments: Vec<String> = way.iter().map(|word| word.replace("MUTANT", &mutant)).collect();
        let mut command = Command::new(&self.linker.program);
        command.current_dir(self.place).args(["-o", "out"]).args(&arguments);
        if self.linker.name == "sframe-ld" {
            command.env("SFRAME_LD_OPTIONS", numbers.pick(MODES));
        }
        let ended = limits::run(&mut command, LIMITS, &self.place.join("log"))?;
        let (fate, complaint) = self.judge(&ended, &out).with_context(|| format!("mutant {number}"))?;
        let finding = (fate >= Fate::Unsound).then(|| {
            if fate == Fate::Unsound {
                return complaint.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
            }
            let said: Vec<&str> = ended.said.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
            let said = without_folders(&said.join(" | "));
            format!(
                "{number} ({}, {}): {}, {} KiB, {}",
                original.name,
                arguments.join(" "),
                ended.status,
                ended.memory,
                said
            )
        });
        if finding.is_some() && self.linker.name == "sframe-ld" {
            let kept = self.place.with_file_name("kept");
            std::fs::create_dir_all(&kept)?;
            std::fs::write(kept.join(format!("{number}-{mutant}")), &bytes)?;
        }
        Ok((original.kind, fate, finding))
    }

    /// The fate of a link, and what readelf says of its output.
    fn judge(&self, ended: &limits::Ended, out: &Path) -> Result<(Fate, String)> {
        let silent = |fate| Ok((fate, String::new()));
        let said = ended.said.to_lowercase();
        let lacks_memory = [
            "memory exhausted",
            "bad_alloc",
            "out of memory",
            "cannot allocate memory",
            "no more memory",
            "memory allocation of",
        ];
        if ended.memory > MEMORY
            || !ended.status.success() && lacks_memory.iter().any(|words| said.contains(words))
        {
            return silent(Fate::Memory);
        }
        match ended.signal() {
            Some(libc::SIGXCPU | libc::SIGALRM | libc::SIGKILL) => return silent(Fate::Hang),
            Some(_) => return silent(Fate::Crash),
            None => {}
        }
        if said.contains("panicked")
            || said.contains("internal error")
            || said.contains("please submit a bug report")
        {
            return silent(Fate::Crash);
        }
        if !ended.status.success() {
            return silent(Fate::Refused);
        }
        if !out.exists() {
            return Ok((Fate::Unsound, "no output".into()));
        }
        let read =
            limits::run(Command::new(self.readelf).arg("-aW").arg(out), LIMITS, &self.place.join("read"))?;
        let sound = read.status.success() && read.said.trim().is_empty();
        Ok(if sound { (Fate::Sound, String::new()) } else { (Fate::Unsound, read.said) })
    }
}

/// A complaint without what belongs to one output: numbers, and what stands in quotes.
fn kind_of(complaint: &str) -> String {
    let has_digit = |word: &str| word.chars().any(|c| c.is_ascii_digit());
    let words = complaint.split_whitespace().skip(1).map(|word| if has_digit(word) { "…" } else { word });
    words.take(16).collect::<Vec<_>>().join(" ")
}

/// A text in which paths have lost their folders, which are this machine's.
fn without_folders(text: &str) -> String {
    let word = |word: &str| match word.rfind('/') {
        Some(at) => word[at + 1..].to_owned(),
        None => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn record(proof: &mut Proof, linkers: &[Linker], tables: &[Counts]) -> Result<()> {
    let names: Vec<&str> = linkers.iter().map(|linker| linker.name.as_str()).collect();
    proof.note(format!(
        "| what became of it | {} |\n|---|{}",
        names.join(" | "),
        "---:|".repeat(names.len())
    ))?;
    let row = |what: &str, cells: Vec<String>| format!("| {what} | {} |", cells.join(" | "));
    proof.note(row("mutants", linkers.iter().map(|linker| linker.count.to_string()).collect()))?;
    for (fate, what) in FATES {
        let cell = |counts: &Counts| {
            counts
                .fates
                .iter()
                .filter(|((_, found), _)| *found == fate)
                .map(|(_, count)| count)
                .sum::<u64>()
                .to_string()
        };
        proof.note(row(what, tables.iter().map(cell).collect()))?;
    }
    proof.note("\nThose of sframe-ld by kind of file:\n")?;
    let header: Vec<&str> = FATES.iter().map(|(_, what)| *what).collect();
    proof.note(format!("| damaged | {} |\n|---|{}", header.join(" | "), "---:|".repeat(header.len())))?;
    let mut kinds: Vec<&str> = tables[0].fates.keys().map(|(kind, _)| *kind).collect();
    kinds.dedup();
    for kind in kinds {
        let cell = |(fate, _): &(Fate, &str)| tables[0].fates.get(&(kind, *fate)).unwrap_or(&0).to_string();
        proof.note(row(kind, FATES.iter().map(cell).collect()))?;
    }
    proof.note("\nLinkers:\n")?;
    for linker in linkers {
        proof.note(format!("- {}: {}", linker.name, linker.version))?;
    }
    if !tables[0].complaints.is_empty() {
        proof.note("\nWhat readelf says first of outputs of sframe-ld:\n")?;
        for (complaint, count) in &tables[0].complaints {
            proof.note(format!("- {count}: {complaint}"))?;
        }
    }
    for (linker, counts) in linkers.iter().zip(tables).filter(|(_, counts)| !counts.findings.is_empty()) {
        proof.note(format!("\nCrashes, hangs and too much memory of {} (the first ten):\n", linker.name))?;
        for finding in counts.findings.iter().take(10) {
            proof.note(format!("- {}", finding.chars().take(300).collect::<String>()))?;
        }
    }
    Ok(())
}
