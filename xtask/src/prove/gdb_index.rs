//! Proves `--gdb-index` on a Rust program with debug information, against lld, mold and gdb's own index.
//!
//! rustc lists no names, so lld and mold make an index of addresses alone. Names are compared with the index
//! that gdb writes for the same program (`save gdb-index`). gdb also knows linkage names, and lists a type in
//! one unit only.

use super::proof::Proof;
use super::turns::Turns;
use crate::bench::workload::Workload;
use crate::commands::output;
use crate::peers;
use crate::records::Measured;
use ::peers::Family;
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The case has the first option anyway: mold has no option for the opposite.
const OPTIONS: [&str; 2] = ["--gc-sections", "--gdb-index"];
const ROUNDS: usize = 9;

/// The contents of a `.gdb_index`.
struct Index {
    /// Offset and length of each unit.
    units: Vec<(u64, u64)>,
    /// Start, end and unit of each area.
    areas: Vec<(u64, u64, u32)>,
    /// The units of each name, with the kind in the upper 8 bits.
    names: BTreeMap<Vec<u8>, BTreeSet<u32>>,
}

pub fn gdb_index(proof: &mut Proof) -> Result<()> {
    let turns = Turns::new(proof, Workload::Rust, &[Family::Lld, Family::Mold])?;
    let seconds = turns.run(proof, &OPTIONS, ROUNDS)?;
    let indexes = turns.linkers.iter().map(|linker| of_file(&turns.output(proof, linker, OPTIONS[1])));
    let indexes: Vec<Index> = indexes.collect::<Result<_>>()?;
    for linker in &turns.linkers {
        proof.note(format!("- {}", linker.version))?;
    }
    proof.note("\n| linker | units | areas | names | ms without | with |\n|---|---|---|---|---|---|")?;
    for ((linker, index), times) in turns.linkers.iter().zip(&indexes).zip(&seconds) {
        proof.note(format!(
            "| {} | {} | {} | {} | {:.0} | {:.0} |",
            linker.name,
            index.units.len(),
            index.areas.len(),
            index.names.len(),
            Measured(times[0] * 1e3),
            Measured(times[1] * 1e3)
        ))?;
    }
    proof.note(format!(
        "\nMedians of {ROUNDS} rounds in turns, on two processors, over the output of the link before.\n"
    ))?;
    let ours = turns.row(Family::SFrameLd)?;
    for family in [Family::Lld, Family::Mold] {
        let row = turns.row(family)?;
        ensure!(areas(&indexes[ours]) == areas(&indexes[row]), "{family:?} has other areas");
    }
    proof.note("- the areas of lld and mold are ours, by size and by the length of their unit")?;
    beside_gdb(proof, &indexes[ours], &turns.output(proof, &turns.linkers[ours], OPTIONS[0]))
}

/// The areas, by their size and the length of their unit, because each linker has its own order of units.
fn areas(index: &Index) -> Vec<(u64, u64)> {
    let length = |unit: u32| index.units.get(unit as usize).map_or(0, |unit| unit.1);
    let mut areas: Vec<(u64, u64)> =
        index.areas.iter().map(|&(start, end, unit)| (end - start, length(unit))).collect();
    areas.sort_unstable();
    areas
}

/// Compares an index with the one that gdb makes for the program without an index.
fn beside_gdb(proof: &mut Proof, ours: &Index, program: &Path) -> Result<()> {
    let folder = proof.folder.join("by-gdb");
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new(peers::program("gdb")?);
    command.args(["-nx", "-batch", "-iex", "set auto-load no", "-ex"]);
    output(command.arg(format!("save gdb-index {}", folder.display())).arg(program))?;
    let name = program.file_name().context("a program without a name")?.to_string_lossy();
    let gdb =
        read(&std::fs::read(folder.join(format!("{name}.gdb-index")))?).context("gdb's index is damaged")?;
    ensure!(ours.units == gdb.units, "gdb lists other units");
    let linkage = |name: &[u8]| name.starts_with(b"_R") || name.starts_with(b"_ZN");
    let more = gdb.names.keys().filter(|name| !ours.names.contains_key(*name));
    let (mangled, missing): (Vec<&Vec<u8>>, Vec<&Vec<u8>>) = more.partition(|name| linkage(name));
    ensure!(missing.is_empty(), "names that gdb alone has: {}", String::from_utf8_lossy(missing[0]));
    for (name, entries) in &ours.names {
        let text = String::from_utf8_lossy(name);
        let theirs = gdb.names.get(name).with_context(|| format!("gdb has no {text}"))?;
        let part = |entries: &BTreeSet<u32>, mask: u32| -> BTreeSet<u32> {
            entries.iter().map(|e| e & mask).collect()
        };
        ensure!(part(theirs, 0xff_ffff).is_subset(&part(entries, 0xff_ffff)), "{text}: gdb lists more units");
        // The highest bit says that only its unit sees a name.
        ensure!(
            part(theirs, 0x7000_0000).is_subset(&part(entries, 0x7000_0000)),
            "{text}: gdb has another kind"
        );
    }
    proof.note(format!(
        "- gdb's own index of the same program: the same units; the same {} names with the same kinds, and {} linkage \
         names besides; no unit of a name that ours lacks",
        ours.names.len(),
        mangled.len()
    ))?;
    let covered = merged(&gdb);
    let missing = merged(ours).into_iter().filter(|area| !covered.contains(area)).count();
    ensure!(missing == 0, "{missing} areas are not gdb's");
    proof.note("- each address that ours gives to a unit gdb gives to the same unit")
}

/// The areas; adjoining areas of a unit become one.
fn merged(index: &Index) -> BTreeSet<(u64, u64, u32)> {
    let mut sorted = index.areas.clone();
    sorted.sort_unstable();
    let mut joined: Vec<(u64, u64, u32)> = Vec::new();
    for (start, end, unit) in sorted {
        match joined.last_mut() {
            Some(last) if last.1 == start && last.2 == unit => last.1 = end,
            _ => joined.push((start, end, unit)),
        }
    }
    joined.into_iter().collect()
}

fn of_file(path: &Path) -> Result<Index> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&bytes[..])?;
    let section =
        file.section_by_name(".gdb_index").with_context(|| format!("{}: no index", path.display()))?;
    read(section.data()?).with_context(|| format!("{}: the index is damaged", path.display()))
}

/// Reads an index of version 7 or 8.
fn read(data: &[u8]) -> Option<Index> {
    let word = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?));
    let start = |row: usize| word(4 + 4 * row).map(|start| start as usize);
    let rows = |row: usize, size: usize| Some((start(row)?..start(row + 1)?).step_by(size));
    if !matches!(word(0)?, 7 | 8) {
        return None;
    }
    let pool = start(4)?;
    let mut names = BTreeMap::new();
    for at in rows(3, 8)? {
        let (name, list) = (word(at)? as usize, word(at + 4)? as usize);
        if (name, list) == (0, 0) {
            continue;
        }
        let text = data.get(pool + name..)?.split(|&byte| byte == 0).next()?;
        let entries = (1..=word(pool + list)? as usize).map(|row| word(pool + list + 4 * row));
        names.insert(text.to_vec(), entries.collect::<Option<_>>()?);
    }
    Some(Index {
        units: rows(0, 16)?.map(|at| Some((long(at)?, long(at + 8)?))).collect::<Option<_>>()?,
        areas: rows(2, 20)?
            .map(|at| Some((long(at)?, long(at + 8)?, word(at + 16)?)))
            .collect::<Option<_>>()?,
        names,
    })
}
