//! Proves that outputs do not depend on the number of threads. All workloads of the benchmarks, each in
//! several modes, and a hundred random programs are linked with 1 to 32 threads. Outputs, maps and messages
//! must be the same bytes.

use super::proof::Proof;
use super::turns;
use crate::bench::case::Case;
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

/// The number of random programs. Each is linked with its libraries.
const PROGRAMS: &str = "100";

pub fn threads(proof: &mut Proof, comparer: &Path) -> Result<()> {
    proof.note(format!(
        "Outputs, maps and messages of links with {THREADS:?} threads, compared by their hashes.\n\n\
         | workload | options | bytes of the output | links | differ |\n|---|---|---:|---:|---:|"
    ))?;
    let mut wrong = Vec::new();
    // The same inputs with --gc-sections are one of the modes here.
    for workload in Workload::value_variants().iter().filter(|workload| **workload != Workload::LlvmGc) {
        let (folder, case) = turns::prepared(proof, *workload)?;
        for mode in MODES {
            let linker = || Command::new(proof.folder.join("installed/bin/sframe-ld"));
            let (bytes, differ) = varying(proof, (&folder, &case), mode, &THREADS, linker)?;
            let (name, mode) = (workload.name(), mode.join(" "));
            proof.note(format!("| {name} | {mode} | {bytes} | {} | {} |", THREADS.len(), differ.len()))?;
            wrong.extend((!differ.is_empty()).then(|| format!("{name} {mode}: {differ:?} threads")));
        }
    }
    wrong.extend(random(proof, comparer)?);
    ensure!(wrong.is_empty(), "the number of threads changes bytes:\n{}", wrong.join("\n"));
    Ok(())
}

/// Links a case with each of these numbers of threads; `linker` makes the start of the command. Returns the
/// size of the output in bytes, and the numbers of threads whose output, map or messages differ from those of
/// the first.
///
/// # Errors
/// A link fails, or an output cannot be read.
pub fn varying(
    proof: &Proof,
    (folder, case): (&Path, &Case),
    options: &[&str],
    threads: &[usize],
    linker: impl Fn() -> Command,
) -> Result<(usize, Vec<usize>)> {
    let (output, map) = (proof.folder.join("output"), proof.folder.join("map"));
    let mut first = None;
    let mut size = 0;
    let mut differ = Vec::new();
    for &threads in threads {
        let mut command = linker();
        command.current_dir(folder).args(&case.link).args(options).arg(format!("--threads={threads}"));
        let said = command.arg("-o").arg(&output).arg("-Map").arg(&map).output()?;
        let text = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "{} {}: {text}", folder.display(), options.join(" "));
        let bytes = std::fs::read(&output).with_context(|| output.display().to_string())?;
        size = bytes.len();
        let parts = [&bytes, &std::fs::read(&map)?, &said.stdout, &said.stderr];
        let result = parts.map(|part| blake3::hash(part));
        if *first.get_or_insert(result) != result {
            differ.push(threads);
        }
        std::fs::remove_file(&output)?;
    }
    Ok((size, differ))
}

/// Links random programs and their libraries with each number of threads. Returns those whose results vary.
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
