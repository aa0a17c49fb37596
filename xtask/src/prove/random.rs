//! Proves the linker on random programs: this linker and every other one link thousands of them, in several
//! ways. The programs run, and their outputs are compared. `ld-compare random` makes, links and judges the
//! programs. This proof runs it for every machine and records the counts.

use super::proof::Proof;
use crate::install::{Comparer, Program, SframeCommand};
use crate::peers;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The machines, by the names of `--machine` and of `ld-compare`, and the number of programs for each.
const MACHINES: [(&str, &str, u64); 3] =
    [("x86-64", "x86_64", 20_000), ("aarch64", "aarch64", 2_000), ("s390x", "s390x", 2_000)];

/// `ld-compare random` writes this instead of a linker's name if this linker did something that no other
/// linker did, and no two others agree.
const ALONE: &str = "unsettled, none like ours";

/// How many programs are wanted, for which machines.
#[derive(clap::Args)]
pub struct Wanted {
    /// Only this machine; repeat it for more
    #[arg(long = "machine", value_parser = MACHINES.map(|machine| machine.0))]
    machines: Vec<String>,
    /// Number of programs for each machine
    #[arg(long)]
    count: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    comparer: Comparer,
    #[command(flatten)]
    command: SframeCommand,
}

pub fn random(proof: &mut Proof, wanted: &Wanted) -> Result<()> {
    let (comparer, sframe) = (wanted.comparer.path()?, wanted.command.path()?);
    proof.note(
        "Each description (objects of assembly and C, an archive, shared libraries) is linked in five ways, and each of these \
         programs by all linkers: lld has no plugins for gcc's intermediate code (LTO), and mold no scripts of sections. It notes every value that it can reach; the majority of the others says which output is right.\n",
    )?;
    let mut open = 0;
    for (name, machine, usual) in MACHINES {
        if wanted.machines.is_empty() || wanted.machines.iter().any(|wanted| wanted == name) {
            let count = wanted.count.unwrap_or(usual);
            open += one(proof, &comparer, &sframe, machine, count, wanted.seed)?;
        }
    }
    ensure!(open == 0, "{open} programs are linked otherwise than by the majority");
    Ok(())
}

/// Runs the programs of a machine, or the rest of an earlier run. Returns the number of open findings.
fn one(
    proof: &mut Proof,
    comparer: &Path,
    sframe: &Path,
    machine: &str,
    count: u64,
    seed: u64,
) -> Result<usize> {
    let json = proof.folder.join(format!("{machine}-{seed}.json"));
    let keep = proof.folder.join("kept");
    let mut command = Command::new(comparer);
    command.args([
        "random",
        "--machine",
        machine,
        "--seed",
        &seed.to_string(),
        "--count",
        &count.to_string(),
    ]);
    command.arg("--peers").arg(peers::folder()).arg("--json").arg(&json).arg("--keep").arg(keep);
    command.arg("--sframe").arg(sframe).env("SFRAME_LD", proof.folder.join("installed/bin/sframe-ld"));
    // ld-compare goes on where it finds a tally of these programs, which may be another linker's.
    if json.exists() {
        std::fs::remove_file(&json)?;
    }
    let status = command.status()?;
    let tally = std::fs::read_to_string(&json).with_context(|| format!("ld-compare: {status}"))?;
    record(proof, machine, &serde_json::from_str(&tally)?)
}

fn record(proof: &mut Proof, machine: &str, tally: &Value) -> Result<usize> {
    let number = |key: &str| tally[key].as_u64().unwrap_or(0);
    let list = |key: &str| tally[key].as_array().map_or(&[][..], Vec::as_slice);
    proof.note(format!("## {machine}\n"))?;
    let outputs = tally["outputs"].as_object().into_iter().flatten();
    let outputs: Vec<String> = outputs.map(|(output, count)| format!("{count} {output}")).collect();
    let parts = tally["parts"].as_object().into_iter().flatten();
    let parts: Vec<String> = parts.map(|(part, count)| format!("{count} with {part}")).collect();
    proof.note(format!(
        "{} programs of {} descriptions from seed {} ({}; {}), {} values noted\n",
        number("programs"),
        number("descriptions"),
        number("seed"),
        outputs.join(", "),
        parts.join(", "),
        number("notes")
    ))?;
    let versions: Vec<&str> =
        list("linkers").iter().filter_map(|linker| linker["version"].as_str()).collect();
    proof.note(format!("Linkers: {}\n", versions.join("; ")))?;
    for (key, meaning) in [
        ("agreed", "all linkers' programs did the same"),
        ("refused", "all linkers refused"),
        ("others", "others differ from the majority, sframe-ld agrees with it"),
        ("unsettled", "the others have no majority"),
        ("ours", "sframe-ld differs from the majority"),
    ] {
        proof.note(format!("- {}: {meaning}", number(key)))?;
    }
    let alone = list("findings").iter().filter(|finding| finding["linker"] == ALONE).count();
    proof.note(format!(
        "\nIn {alone} of those without a majority, sframe-ld does a thing that none of the others does, or its program notes \
         a value that no other's does; `random-explained.md` says how that comes about."
    ))?;
    let mut counted: BTreeMap<(String, String), u64> = BTreeMap::new();
    for finding in list("findings") {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let said = text(&finding["lines"][0]);
        *counted.entry((text(&finding["linker"]), kind(&said))).or_default() += 1;
    }
    if !counted.is_empty() {
        proof.note("\n| linker | how it differs | programs |\n|---|---|---|")?;
    }
    for ((linker, said), count) in &counted {
        proof.note(format!("| {linker} | {} | {count} |", said.replace('|', "\\|")))?;
    }
    proof.note("")?;
    Ok(list("findings").iter().filter(|finding| finding["linker"] == "sframe-ld").count())
}

/// The kind of a difference: its first words, without what belongs to one program (numbers, names and paths).
fn kind(said: &str) -> String {
    let is_note =
        |text: &str| text.split_once(": ").is_some_and(|(id, _)| u64::from_str_radix(id, 16).is_ok());
    let names_linker = |first: &str| first.contains('-') && !first.contains(' ');
    let said = said.split_once(": ").filter(|(first, _)| names_linker(first)).map_or(said, |(_, rest)| rest);
    if is_note(said) {
        return "notes another value".to_owned();
    }
    let plain = |word: &str| {
        let word = word.rsplit('/').next().unwrap_or(word);
        let has_digit = word.contains(|c: char| c.is_ascii_digit());
        let is_file = word.contains(".o:") || word.starts_with("joined") || word == "program:";
        let is_general = word.starts_with("R_") || word.contains(".c:");
        if (has_digit && !is_general) || is_file { "..".to_owned() } else { word.to_owned() }
    };
    let mut words: Vec<String> = said.split_whitespace().map(plain).collect();
    words.dedup();
    words.truncate(24);
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_one_kind_are_counted_together() {
        let one = kind("refuses: error: unit0.o: relocation R_X86_64_PC32 against symbol `data_4'");
        assert_eq!(one, kind("refuses: error: unit7.o: relocation R_X86_64_PC32 against symbol `data_19'"));
        assert_eq!(
            one,
            kind("refuses: error: /tmp/x/joined.o: relocation R_X86_64_PC32 against symbol `data_1'")
        );
        assert_ne!(one, kind("refuses: error: unit7.o: relocation R_X86_64_64 against symbol `data_19'"));
        let value = kind("3c: 64c7 instead of 1: unit3.s: load holder_12 (Local, unit 0)+0 by GOTENT");
        assert_eq!(
            value,
            kind("lld-21.1: a: 3 instead of 5: unit1.s: call function_4 (Default, unit 1) by PLT")
        );
        assert_ne!(value, kind("ends with signal 11 instead of ok"));
    }
}
