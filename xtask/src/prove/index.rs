//! Proof of the index: a C++ project of several hundred objects, in every kind of output, straight and by way of `-r`,
//! against its `.eh_frame` and against what GNU ld makes of the same objects.

use super::tools::{compile, objects, peer, write_project};
use super::{Proof, output};
use crate::peers;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Objects of the project.
const OBJECTS: usize = 300;
/// Runs of a link whose times are compared.
const RUNS: usize = 9;
/// Most that the index may cost, of the link's wall time, in percent.
const SHARE: f64 = 3.0;
/// Least that the index must be smaller than GNU ld's `.sframe`, in percent.
const SMALLER: usize = 15;

pub fn index(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let assembler = peers::program("as").context("no assembler")?;
    let plain = proof.folder.join("plain-as");
    std::fs::create_dir_all(&plain)?;
    let _ = std::fs::remove_file(plain.join("as"));
    std::os::unix::fs::symlink(&assembler, plain.join("as"))?;
    let version = proof.tool(&assembler, &["--version"])?;
    proof.note(format!("{OBJECTS} objects, frames by {}\n", version.lines().next().unwrap_or("")))?;
    write_project(&proof.folder, OBJECTS)?;
    std::fs::create_dir_all(proof.folder.join("whole"))?;
    compile(proof, "whole", &plain, &assembler)?;

    proof.note("| mode | kind | by way of | bytes | `sframe verify` |\n|---|---|---|---|---|")?;
    for (mode, section) in [("--sframe-index", ".sframe_idx"), ("--sframe=merge", ".sframe")] {
        for kind in
            ["-pie", "-no-pie", "-static", "-pie -Wl,--gc-sections", "-static -Wl,--gc-sections", "-shared"]
        {
            for (way, relocatable) in [("objects", false), ("-r", true)] {
                let out = link(proof, mode, kind, relocatable, "")?;
                let (size, said) = check(proof, sframe, &out, section)?;
                proof.note(format!("| {mode} | {kind} | {way} | {size} | {said} |"))?;
            }
            // What the C library's objects lack is derived; then nothing is left uncovered.
            let out = link(proof, mode, kind, false, ",--sframe-from-eh-frame=missing")?;
            let (size, said) = check(proof, sframe, &out, section)?;
            ensure!(!said.contains("left out though"), "{kind}: {said}");
            proof.note(format!("| {mode}, missing ones derived | {kind} | objects | {size} | {said} |"))?;
        }
    }
    compare(proof, sframe)?;
    share(proof)
}

fn inputs(relocatable: bool) -> Vec<String> {
    match relocatable {
        true => vec!["all.o".to_owned()],
        false => objects(OBJECTS).map(|name| format!("whole/{name}")).collect(),
    }
}

/// Links and runs; gives the program's name.
fn link(proof: &Proof, mode: &str, kind: &str, relocatable: bool, more: &str) -> Result<String> {
    if relocatable {
        let mut command = Command::new(proof.prefix.join("ld"));
        command.current_dir(&proof.folder).args(["-r", mode, "-o", "all.o"]).args(inputs(false));
        output(&mut command)?;
    }
    let mut command = Command::new("g++");
    command.current_dir(&proof.folder).arg(format!("-B{}", proof.prefix.display()));
    command.args(kind.split(' ')).arg(format!("-Wl,{mode}{more}")).args(["-o", "program"]);
    output(command.args(inputs(relocatable)))?;
    if kind != "-shared" {
        proof.tool(proof.folder.join("program"), &[])?;
    }
    Ok("program".to_owned())
}

/// Size of the table, and what `sframe verify` says of it against `.eh_frame`.
fn check(proof: &Proof, sframe: &Path, file: &str, section: &str) -> Result<(usize, String)> {
    let report = proof.tool(sframe, &["verify", file])?;
    ensure!(report.contains(" 0 errors, 0 warnings") && report.contains(", 0 wrong"), "{report}");
    let said: Vec<&str> = report.lines().map(|line| line.trim().trim_start_matches("program: ")).collect();
    Ok((section_size(proof, file, section)?, said.join("; ")))
}

fn section_size(proof: &Proof, file: &str, section: &str) -> Result<usize> {
    let headers = proof.tool("readelf", &["-SW", file])?;
    let line = headers.lines().find(|line| line.split_whitespace().any(|word| word == section));
    let line = line.with_context(|| format!("{file} has no {section}"))?;
    let fields: Vec<&str> = line.split(section).nth(1).unwrap_or("").split_whitespace().collect();
    let size = fields.get(3).with_context(|| format!("no size in {line}"))?;
    Ok(usize::from_str_radix(size, 16)?)
}

/// Against GNU ld's table of the same objects.
fn compare(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let gnu = peer("bfd")?;
    let readelf = peers::program("readelf").context("no readelf")?;
    let mut command = Command::new("g++");
    command.current_dir(&proof.folder);
    command.arg(format!("-B{}", gnu.parent().context("no folder")?.display()));
    output(command.args(["-pie", "-o", "theirs"]).args(inputs(false)))?;
    let ours = link(proof, "--sframe-index", "-pie", false, "")?;
    let listed = proof.tool(&readelf, &["--sframe=.sframe_idx", &ours])?.matches("func idx").count();
    let (ours_size, _) = check(proof, sframe, &ours, ".sframe_idx")?;
    let theirs = proof.tool(&readelf, &["--sframe", "theirs"])?.matches("func idx").count();
    let theirs_size = section_size(proof, "theirs", ".sframe")?;
    proof.note(format!(
        "\n`readelf --sframe` lists {listed} functions in {ours_size} bytes; of GNU ld {theirs} in {theirs_size}: \
         {:.1} % smaller",
        100.0 - 100.0 * ours_size as f64 / theirs_size as f64
    ))?;
    ensure!(ours_size * 100 <= theirs_size * (100 - SMALLER), "not {SMALLER} % smaller");
    Ok(())
}

/// What the index costs, in the run that costs least.
fn share(proof: &mut Proof) -> Result<()> {
    let mut shares = Vec::new();
    for _ in 0..RUNS {
        let mut command = Command::new("g++");
        command.current_dir(&proof.folder).arg(format!("-B{}", proof.prefix.display()));
        command.args(["-pie", "-Wl,--sframe-index,--time-report", "-o", "program"]).args(inputs(false));
        let result = command.output()?;
        let text = [result.stdout, result.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let time = |wanted: fn(&str) -> bool| -> f64 {
            let of = |line: &str| line.trim().split(' ').next()?.parse::<f64>().ok();
            text.lines().filter(|line| wanted(line)).filter_map(of).sum()
        };
        shares.push(100.0 * time(|line| line.contains("SFrame")) / time(|line| line.ends_with("total")));
    }
    shares.sort_by(f64::total_cmp);
    let median = shares[RUNS / 2];
    proof.note(format!(
        "Reading, choosing and ordering the functions take {median:.2} % of the link (median of {RUNS} runs, {:.2} to {:.2})",
        shares[0],
        shares[RUNS - 1]
    ))?;
    ensure!(median <= SHARE, "more than {SHARE} %");
    Ok(())
}
