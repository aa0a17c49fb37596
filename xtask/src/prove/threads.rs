//! Proof that outputs do not depend on the number of threads: all workloads of the benchmarks, each in several modes, and
//! the links of a hundred random programs, made with 1 to 32 threads. Outputs, maps and messages must be the same bytes.

use super::proof::Proof;
use super::turns;
use crate::bench::workload::Workload;
use crate::peers;
use crate::same_bytes::{self, THREADS};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::path::Path;
use std::process::Command;

/// Ways to link each workload.
const MODES: [&[&str]; 5] = [
    &[],
    &["--gc-sections", "--icf=all"],
    &["--sframe-index", "--build-id=sha1"],
    &["--sframe=merge", "--emit-relocs"],
    &["--gc-sections", "--strip-debug", "--pack-dyn-relocs=relr"],
];

/// Random programs, each linked with its libraries.
const PROGRAMS: &str = "100";

pub fn threads(proof: &mut Proof, comparer: &Path) -> Result<()> {
    proof.note(format!(
        "Outputs, maps and messages of links with {THREADS:?} threads, compared by their hashes.\n\n\
         | workload | options | bytes of the output | links | differ |\n|---|---|---:|---:|---:|"
    ))?;
    let mut varying = Vec::new();
    // The same inputs with --gc-sections are a mode here.
    for workload in Workload::value_variants().iter().filter(|workload| **workload != Workload::LlvmGc) {
        for mode in MODES {
            let (bytes, differ) = one(proof, *workload, mode)?;
            let (name, mode) = (workload.name(), mode.join(" "));
            proof.note(format!("| {name} | {mode} | {bytes} | {} | {} |", THREADS.len(), differ.len()))?;
            varying.extend((!differ.is_empty()).then(|| format!("{name} {mode}: {differ:?} threads")));
        }
    }
    varying.extend(random(proof, comparer)?);
    ensure!(varying.is_empty(), "the number of threads changes bytes:\n{}", varying.join("\n"));
    Ok(())
}

/// Links a workload with each number of threads. Gives the size of the output, and the numbers of threads whose results
/// are not those of one thread.
fn one(proof: &Proof, workload: Workload, mode: &[&str]) -> Result<(usize, Vec<usize>)> {
    let (folder, case) = turns::prepared(proof, workload)?;
    let (output, map) = (proof.folder.join("output"), proof.folder.join("map"));
    let mut results = Vec::new();
    let mut size = 0;
    for threads in THREADS {
        let mut command = Command::new(proof.folder.join("installed/bin/sframe-ld"));
        command.current_dir(&folder).args(&case.link).args(mode).arg(format!("--threads={threads}"));
        let said = command.arg("-o").arg(&output).arg("-Map").arg(&map).output()?;
        let text = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "{} {}: {text}", workload.name(), mode.join(" "));
        let bytes = std::fs::read(&output).with_context(|| output.display().to_string())?;
        size = bytes.len();
        let parts = [&bytes, &std::fs::read(&map)?, &said.stdout, &said.stderr];
        results.push(parts.map(|part| blake3::hash(part)));
    }
    let differ = THREADS.iter().zip(&results).filter(|(_, result)| **result != results[0]);
    Ok((size, differ.map(|(threads, _)| *threads).collect()))
}

/// Links random programs and their libraries, each with every number of threads; gives those whose results vary.
fn random(proof: &mut Proof, comparer: &Path) -> Result<Vec<String>> {
    let folder = proof.folder.join("random");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let peers = peers::folder();
    let words = ["random", "--machine", "x86_64", "--count", PROGRAMS, "--peers"].map(String::from);
    let program = [comparer, &peers].map(|path| path.display().to_string());
    let command = [&program[..1], &words, &program[1..]].concat();
    let linker = proof.folder.join("installed/bin/sframe-ld");
    let repeated = same_bytes::repeat(&folder, &linker, &command)?;
    proof.note(format!(
        "\n{} different links of {PROGRAMS} random programs and their libraries: {} of them differ.",
        repeated.links,
        repeated.varying.len()
    ))?;
    Ok(repeated.varying)
}
