//! Proves identical code folding: lld, mold and this linker fold the LLVM link, with `--icf=all` and with
//! `--icf=safe`.
//!
//! The output shows how much was folded: the bytes that are loaded from the file without the option, and with
//! it. gcc compiled the archives, without tables of significant addresses (`.llvm_addrsig`). So lld's safe
//! mode folds next to nothing, while mold and this linker look at the relocations of such objects. safe mode
//! folds next to nothing; mold and this linker look at the relocations of such objects.

use super::proof::Proof;
use super::turns::Turns;
use crate::bench::workload::Workload;
use crate::records::Measured;
use ::peers::Family;
use anyhow::{Result, ensure};
use object::{Object, ObjectSection, SectionFlags, SectionKind};
use std::path::Path;

const OPTIONS: [&str; 3] = ["--icf=none", "--icf=all", "--icf=safe"];
const ROUNDS: usize = 5;

pub fn icf(proof: &mut Proof) -> Result<()> {
    let turns = Turns::new(proof, Workload::Llvm, &[Family::Lld, Family::Mold])?;
    let seconds = turns.run(proof, &OPTIONS, ROUNDS)?;
    let mut folded = Vec::new();
    for linker in &turns.linkers {
        let sizes = OPTIONS.map(|option| loaded(&turns.output(proof, linker, option)));
        let [none, all, safe] = sizes;
        let (none, all, safe) = (none?, all?, safe?);
        folded.push([none, none - all.min(none), none - safe.min(none)]);
    }
    let (ours, lld) = (turns.row(Family::SFrameLd)?, turns.row(Family::Lld)?);
    for linker in &turns.linkers {
        proof.note(format!("- {}", linker.version))?;
    }
    proof.note(
        "\n| linker | bytes loaded | folded, all | to lld's | folded, safe | ms, none | all | safe | all to lld's |\n\
         |---|---|---|---|---|---|---|---|---|",
    )?;
    for ((linker, folded_by), times) in turns.linkers.iter().zip(&folded).zip(&seconds) {
        let [none, all, safe] = folded_by;
        let ms = |row: usize| Measured((times[row] * 1e3).round());
        proof.note(format!(
            "| {} | {none} | {all} | {:.3} | {safe} | {} | {} | {} | {:.2} |",
            linker.name,
            *all as f64 / folded[lld][1] as f64,
            ms(0),
            ms(1),
            ms(2),
            Measured(times[1] / seconds[lld][1])
        ))?;
    }
    proof.note(format!(
        "\nMedians of {ROUNDS} rounds in turns, on two processors, over the output of the link before."
    ))?;
    let [_, all, safe] = folded[ours];
    ensure!(all as f64 >= 0.98 * folded[lld][1] as f64, "lld folds more than 2 % more");
    ensure!(safe as f64 >= 0.95 * folded[lld][2] as f64, "lld's safe mode folds more than 5 % more");
    for option in OPTIONS {
        let program = turns.output(proof, &turns.linkers[ours], option);
        proof.check(&program)?;
        turns.case.check(&turns.folder, &program).map_err(anyhow::Error::msg)?;
    }
    proof.note("\nEach of this linker's three compilers compiles C++ to s390x assembly as expected.")
}

/// The size of the sections that are loaded from the file, in bytes.
fn loaded(path: &Path) -> Result<u64> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&bytes[..])?;
    let is_loaded = |section: &object::Section<'_, '_>| {
        let alloc = u64::from(object::elf::SHF_ALLOC);
        let flags = matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & alloc != 0);
        flags && !matches!(section.kind(), SectionKind::UninitializedData | SectionKind::UninitializedTls)
    };
    Ok(file.sections().filter(is_loaded).map(|section| section.size()).sum())
}
