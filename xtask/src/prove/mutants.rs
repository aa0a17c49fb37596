//! Proves robustness: thousands of objects, archives, shared libraries and scripts of every machine are
//! damaged in their structure (`damage`). This linker and every other one link them under limits, and the
//! proof counts how each link ended.
//!
//! The number of a mutant alone determines it, so a finding can be repeated: `--seed N --count 1`. This
//! linker links all mutants. The others together take longer, so they only link the first ones, and only
//! those whose originals they can link undamaged: not every linker knows every machine, or scripts.

pub mod damage;
mod originals;

use super::limits::{self, Limits};
use super::proof::Proof;
use crate::commands::first_line;
use crate::peers;
use anyhow::{Context, Result, ensure};
use damage::{Numbers, damage};
use originals::{MACHINES, Machine, Original};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of mutants that this linker links, and of those that the others link.
const COUNT: u64 = 40_000;
const FOR_OTHERS: u64 = 20_000;
/// Links that run at the same time.
const AT_A_TIME: u64 = 2;
/// No mutant is larger than half a megabyte, and a link of the originals takes some hundredths of a second.
const LIMITS: Limits = Limits { processor: 10, clock: 120, address_space: 4 << 30, file: 1 << 30 };
/// More memory than this, in KiB, is too much.
const MEMORY: i64 = 512 << 10;

/// Options that only this linker gets, so that they meet damaged inputs too.
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

/// How the link of a mutant ended.
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
    folder: PathBuf,
    count: u64,
}

impl Linker {
    fn is_ours(&self) -> bool {
        self.name == "sframe-ld"
    }

    /// Its program for a machine; GNU's linkers have one for each.
    fn program(&self, machine: Machine) -> PathBuf {
        let own = self.folder.join(machine.name).join("ld");
        if own.is_file() { own } else { self.folder.join("ld") }
    }
}

/// The links of one linker: how many ended in which way, for each kind of original, and the first findings.
#[derive(Default)]
struct Counts {
    fates: BTreeMap<(Machine, &'static str, Fate), u64>,
    /// How each linked mutant ended, by its number.
    each: BTreeMap<u64, Fate>,
    findings: Vec<String>,
    /// What readelf says against outputs, without numbers and names, and how often.
    complaints: BTreeMap<String, u64>,
}

#[derive(clap::Args)]
pub struct Wanted {
    /// Number of mutants
    #[arg(long, default_value_t = COUNT)]
    count: u64,
    /// Number of the first mutant
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn mutants(proof: &mut Proof, &Wanted { count, seed }: &Wanted) -> Result<()> {
    let folder = proof.folder.join("mutants");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let made: Result<Vec<_>> =
        MACHINES.iter().map(|&machine| originals::make(proof, &folder, machine)).collect();
    let originals: Vec<Original> = made?.into_iter().flatten().collect();
    let linkers = linkers(proof, count)?;
    proof.note(format!(
        "{count} mutants of {} files for {} (number {seed} on), each linked by sframe-ld; the first {} by the others as well, where \
         these link the file undamaged. Damage is \
         done to fields: of headers, symbols, relocations, groups, versions, notes, frames, archives' tables, and to words of \
         scripts, one to three times. A hang is more than {} s of processor time, too much memory is more than {} MiB in use, \
         or an end for lack of {} GiB of address space; a crash is the end by another signal, a panic or an internal error. \
         This linker gets its own options besides, in turn: SFrame modes, folding, the index of debug information, a map. What is accepted is read by `readelf -aW` of binutils 2.47: a complaint may be of bytes that the damage put there \
         and a linker copies.\n",
        originals.len(),
        MACHINES.map(|machine| machine.name).join(", "),
        count.min(FOR_OTHERS),
        LIMITS.processor,
        MEMORY >> 10,
        LIMITS.address_space >> 30
    ))?;
    let mut tables = Vec::new();
    for linker in &linkers {
        eprintln!("mutants: {}", linker.name);
        let problems = problems_undamaged(linker, &originals, &folder)?;
        if linker.is_ours() {
            let problems: Vec<&str> = problems.iter().flatten().map(String::as_str).collect();
            ensure!(problems.is_empty(), "undamaged: {}", problems.join("\n"));
        }
        tables.push(link_all(linker, &originals, &problems, &folder, seed)?);
    }
    record(proof, &linkers, &tables)?;
    let bad: Vec<&str> = tables[0].findings.iter().map(String::as_str).collect();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    Ok(())
}

/// This linker and the others.
fn linkers(proof: &Proof, count: u64) -> Result<Vec<Linker>> {
    let ours = &proof.prefix;
    let mut linkers = vec![Linker {
        name: "sframe-ld".into(),
        version: first_line(Command::new(ours.join("ld")).arg("--version"))?,
        folder: ours.clone(),
        count,
    }];
    for name in peers::linkers() {
        let folder = peers::folder().join(&name);
        let Ok(version) = first_line(Command::new(folder.join("ld")).arg("--version")) else { continue };
        // Of GNU ld, the newest one is enough.
        linkers.retain(|linker| !(name.starts_with("bfd-") && linker.name.starts_with("bfd-")));
        linkers.push(Linker { name, version, folder, count: count.min(FOR_OTHERS) });
    }
    Ok(linkers)
}

/// For each original, the problem that a linker has with it undamaged.
fn problems_undamaged(linker: &Linker, originals: &[Original], folder: &Path) -> Result<Vec<Option<String>>> {
    let problem = |original: &Original| -> Result<Option<String>> {
        let folder = folder.join(original.machine.name);
        std::fs::write(folder.join("undamaged"), &original.bytes)?;
        for way in original.ways {
            let mut command = Command::new(linker.program(original.machine));
            command.current_dir(&folder).args(["-o", "out"]).args(original.arguments(way, "undamaged"));
            let ended = limits::run(&mut command, LIMITS, &folder.join("log"))?;
            if !ended.status.success() {
                return Ok(Some(format!(
                    "{} {} {way:?}: {}",
                    original.machine.name, original.name, ended.said
                )));
            }
        }
        Ok(None)
    };
    originals.iter().map(problem).collect()
}

/// Links all mutants with one linker, except for those whose originals it cannot link.
fn link_all(
    linker: &Linker,
    originals: &[Original],
    problems: &[Option<String>],
    folder: &Path,
    seed: u64,
) -> Result<Counts> {
    let (counts, next) = (Mutex::new(Counts::default()), AtomicU64::new(0));
    let readelf = peers::program("readelf")?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|worker| {
                let (counts, next, readelf) = (&counts, &next, &readelf);
                scope.spawn(move || -> Result<()> {
                    let place = folder.join(format!("worker-{worker}"));
                    lay_out(folder, &place)?;
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= linker.count {
                            return Ok(());
                        }
                        let mut numbers = Numbers::new(seed + number);
                        let chosen = numbers.below(originals.len());
                        if problems[chosen].is_some() {
                            continue;
                        }
                        let original = &originals[chosen];
                        let place = &place.join(original.machine.name);
                        let bench = Bench { linker, readelf, place };
                        let (fate, finding) = bench.link(original, seed + number, &mut numbers)?;
                        let mut counts = counts.lock().expect("no panic");
                        let key = (original.machine, original.kind, fate);
                        *counts.fates.entry(key).or_default() += 1;
                        counts.each.insert(number, fate);
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

/// Gives a worker its own folder with the files that are not damaged.
fn lay_out(folder: &Path, place: &Path) -> Result<()> {
    for machine in MACHINES {
        let place = place.join(machine.name);
        std::fs::create_dir_all(&place)?;
        for entry in std::fs::read_dir(folder.join(machine.name))?.flatten() {
            std::fs::copy(entry.path(), place.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Where one worker works.
struct Bench<'b> {
    linker: &'b Linker,
    readelf: &'b Path,
    place: &'b Path,
}

impl Bench<'_> {
    /// Makes a mutant, links it and judges the result. Findings such as crashes come with a text.
    fn link(
        &self,
        original: &Original,
        number: u64,
        numbers: &mut Numbers,
    ) -> Result<(Fate, Option<String>)> {
        let way = original.ways[numbers.below(original.ways.len())];
        let mut bytes = original.bytes.clone();
        damage(&mut bytes, numbers);
        let mutant = format!("mutant-{}", original.name);
        std::fs::write(self.place.join(&mutant), &bytes)?;
        let out = self.place.join("out");
        let _ = std::fs::remove_file(&out);
        let arguments = original.arguments(way, &mutant);
        let mut command = Command::new(self.linker.program(original.machine));
        command.current_dir(self.place).args(["-o", "out"]).args(&arguments);
        if self.linker.is_ours() {
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
                "{number} ({} {}, {}): {}, {} KiB, {}",
                original.machine.name,
                original.name,
                arguments.join(" "),
                ended.status,
                ended.memory,
                said
            )
        });
        if finding.is_some() && self.linker.is_ours() {
            let kept = self.place.join("../../kept");
            std::fs::create_dir_all(&kept)?;
            std::fs::write(kept.join(format!("{number}-{mutant}")), &bytes)?;
        }
        Ok((fate, finding))
    }

    /// How a link ended, and what readelf says about its output.
    fn judge(&self, ended: &limits::Ended, out: &Path) -> Result<(Fate, String)> {
        let silent = |fate| Ok((fate, String::new()));
        let said = ended.said.to_lowercase();
        let lacks_memory = [
            "memory exhausted",
            "std::bad_alloc",
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

/// A complaint without what belongs to one output: numbers, and quoted names.
fn kind_of(complaint: &str) -> String {
    let has_digit = |word: &str| word.chars().any(|c| c.is_ascii_digit());
    let words = complaint.split_whitespace().skip(1).map(|word| if has_digit(word) { "…" } else { word });
    words.take(16).collect::<Vec<_>>().join(" ")
}

/// A text whose paths have lost their folders, which are those of this machine.
fn without_folders(text: &str) -> String {
    let word = |word: &str| match word.rfind('/') {
        Some(at) => word[at + 1..].to_owned(),
        None => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Records each other linker, and this linker on exactly the same mutants. This linker comes first in
/// `tables`, because it links the most originals undamaged.
fn record_beside(proof: &mut Proof, names: &[&str], tables: &[Counts]) -> Result<()> {
    let [ours, others @ ..] = tables else { return Ok(()) };
    proof.note("\nEach other linker, and sframe-ld over exactly the mutants that the other one linked:\n")?;
    let header: Vec<&str> = FATES.iter().map(|(_, what)| *what).collect();
    let rule = "---:|".repeat(header.len() + 1);
    proof.note(format!("| linker | mutants | {} |\n|---|{rule}", header.join(" | ")))?;
    for (name, other) in names.iter().skip(1).zip(others) {
        let same = || other.each.keys().filter_map(|number| ours.each.get(number)).copied();
        proof.note(format!("| {name} | {} |", cells(|| other.each.values().copied())))?;
        proof.note(format!("| sframe-ld, those of {name} | {} |", cells(same)))?;
    }
    Ok(())
}

/// The number of mutants, and how many of them ended in each way.
fn cells<I: Iterator<Item = Fate>>(fates: impl Fn() -> I) -> String {
    let of_fate = FATES.iter().map(|(fate, _)| fates().filter(|found| found == fate).count());
    let counts: Vec<String> =
        std::iter::once(fates().count()).chain(of_fate).map(|count| count.to_string()).collect();
    counts.join(" | ")
}

fn record(proof: &mut Proof, linkers: &[Linker], tables: &[Counts]) -> Result<()> {
    let names: Vec<&str> = linkers.iter().map(|linker| linker.name.as_str()).collect();
    proof.note(format!(
        "| what became of it | {} |\n|---|{}",
        names.join(" | "),
        "---:|".repeat(names.len())
    ))?;
    let row = |what: &str, cells: Vec<String>| format!("| {what} | {} |", cells.join(" | "));
    let all = |counts: &Counts| counts.fates.values().sum::<u64>().to_string();
    proof.note(row("mutants", tables.iter().map(all).collect()))?;
    for (fate, what) in FATES {
        let cell = |counts: &Counts| {
            let of_fate = counts.fates.iter().filter(|((_, _, found), _)| *found == fate);
            of_fate.map(|(_, count)| count).sum::<u64>().to_string()
        };
        proof.note(row(what, tables.iter().map(cell).collect()))?;
    }
    record_beside(proof, &names, tables)?;
    proof.note("\nThose of sframe-ld by machine and kind of file:\n")?;
    let header: Vec<&str> = FATES.iter().map(|(_, what)| *what).collect();
    proof.note(format!("| damaged | {} |\n|---|{}", header.join(" | "), "---:|".repeat(header.len())))?;
    let ours = &tables[0].fates;
    let mut kinds: Vec<(Machine, &str)> = ours.keys().map(|&(machine, kind, _)| (machine, kind)).collect();
    kinds.dedup();
    for (machine, kind) in kinds {
        let cell = |(fate, _): &(Fate, &str)| ours.get(&(machine, kind, *fate)).unwrap_or(&0).to_string();
        proof.note(row(&format!("{}: {kind}", machine.name), FATES.iter().map(cell).collect()))?;
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
