//! Proves the index: a C++ project with several hundred objects, as every kind of output, in one step and
//! through `-r`. Its index is compared with its `.eh_frame`, and with GNU ld's output for the same objects.
//! Then the project gets objects of every SFrame version.

use super::proof::Proof;
use super::tools::{compile, objects, peer, write_project};
use crate::commands::output;
use crate::{install, peers};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of objects in the project.
const OBJECTS: usize = 300;
/// Kinds of output.
const KINDS: [&str; 8] = [
    "-pie",
    "-no-pie",
    "-static",
    "-shared",
    "-pie -Wl,--gc-sections",
    "-no-pie -Wl,--gc-sections",
    "-static -Wl,--gc-sections",
    "-shared -Wl,--gc-sections",
];
/// The ways to a table, each with the table's section.
const MODES: [(&str, &str); 2] = [("--sframe-index", ".sframe_idx"), ("--sframe=merge", ".sframe")];
/// Number of timed runs of a link.
const RUNS: usize = 25;
/// The most that the index may cost, in percent of the link's wall time.
const SHARE: f64 = 3.0;
/// By at least how much the index must be smaller than GNU ld's `.sframe`, in percent.
const SMALLER: usize = 15;
/// Without this option, clang emits no SFrame.
const EXPERIMENTAL: &str = "-Wa,--allow-experimental-sframe";
/// How many names are shown for one kind of difference.
const NAMED: usize = 4;

pub fn index(proof: &mut Proof, sframe: &Path) -> Result<()> {
    let assembler = peers::program("as")?;
    let version = proof.tool(&assembler, &["--version"])?;
    proof.note(format!("{OBJECTS} objects, frames by {}\n", version.lines().next().unwrap_or("")))?;
    write_project(&proof.folder, OBJECTS)?;
    let plain = proof.assembler_folder("plain-as", &assembler)?.0;
    compile(proof, ("g++", "*.cc"), "whole", &plain, &assembler)?;
    let whole: Vec<String> = objects(OBJECTS).map(|name| format!("whole/{name}")).collect();
    every_kind(proof, sframe, &whole)?;
    let mixed = mixed(proof, &assembler)?;
    every_kind(proof, sframe, &mixed)?;
    compare(proof, sframe, &whole)?;
    share(proof, &whole)
}

/// Makes every kind of output in every mode, from the objects and through `-r`.
fn every_kind(proof: &mut Proof, sframe: &Path, inputs: &[String]) -> Result<()> {
    proof.note("| mode | kind | by way of | bytes | `sframe verify` |\n|---|---|---|---|---|")?;
    for (mode, section) in MODES {
        for kind in KINDS {
            let mut rows = Vec::new();
            for (way, relocatable) in [("objects", false), ("-r", true)] {
                let out = link(proof, mode, kind, inputs, relocatable, "")?;
                let (size, said) = check(proof, sframe, &out, section)?;
                rows.push(said.clone());
                proof.note(format!("| {mode} | {kind} | {way} | {size} | {said} |"))?;
            }
            ensure!(rows[0] == rows[1], "-r loses or adds something: {rows:#?}");
            // The C library's objects have no frames, so these are derived; then nothing is left uncovered.
            let out = link(proof, mode, kind, inputs, false, ",--sframe-from-eh-frame=missing")?;
            let (size, said) = check(proof, sframe, &out, section)?;
            ensure!(!said.contains("left out though"), "{kind}: {said}");
            proof.note(format!("| {mode}, missing ones derived | {kind} | objects | {size} | {said} |"))?;
        }
    }
    Ok(())
}

/// The project, with some objects from other assemblers: one for each version that an assembler can emit.
fn mixed(proof: &mut Proof, newest: &Path) -> Result<Vec<String>> {
    let mut folder_of: BTreeMap<char, &str> = BTreeMap::new();
    proof.note("\nThe same with objects of several versions:\n")?;
    for (folder, digits, wanted, compiler) in
        [("v1", "123", 1, "g++"), ("v2", "456", 2, "g++"), ("clang", "789", 2, "clang++")]
    {
        let found = match compiler {
            "g++" => assemblers().into_iter().find(|path| emitted(proof, path, &[]) == Some(wanted)),
            _ => clang()
                .filter(|path| emitted(proof, path, &["-c", EXPERIMENTAL, "-Wa,--gsframe"]) == Some(wanted)),
        };
        let Some(found) = found else {
            proof.note(format!("- no {compiler} here that emits V{wanted} beside those above"))?;
            continue;
        };
        let (prefix, compiler) = match compiler {
            "g++" => (proof.assembler_folder(&format!("{folder}-as"), &found)?.0, "g++".to_owned()),
            _ => {
                (proof.assembler_folder("plain-as", newest)?.0, format!("{} {EXPERIMENTAL}", found.display()))
            }
        };
        let pattern = format!("part[{digits}]?.cc");
        compile(proof, (&compiler, &pattern), folder, &prefix, &found)?;
        let version = proof.tool(&found, &["--version"])?;
        proof.note(format!("- V{wanted}: 30 objects by {}", version.lines().next().unwrap_or("")))?;
        folder_of.extend(digits.chars().map(|digit| (digit, folder)));
    }
    proof.note("- V3: the others\n")?;
    Ok(objects(OBJECTS)
        .map(|name| {
            let number = name.trim_start_matches("part").trim_end_matches(".o");
            let folder = number.chars().next().filter(|_| number.len() == 2).and_then(|c| folder_of.get(&c));
            format!("{}/{name}", folder.unwrap_or(&"whole"))
        })
        .collect())
}

/// All assemblers in the folder of tools and on `PATH`.
fn assemblers() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(peers::folder()).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> = folders.map(|folder| folder.join("as")).filter(|p| p.is_file()).collect();
    found.sort();
    found.push("/usr/bin/as".into());
    found
}

fn clang() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = (19..40).rev().map(|n| format!("clang++-{n}")).chain(["clang++".to_owned()]);
    names.flat_map(|name| folders.iter().map(move |f| f.join(&name))).find(|path| path.is_file())
}

/// The SFrame version that an assembler emits, if it emits any.
fn emitted(proof: &Proof, assembler: &Path, options: &[&str]) -> Option<u8> {
    let source = proof.folder.join("probe.s");
    std::fs::write(&source, ".cfi_sections .sframe\nf: .cfi_startproc\nnop\n.cfi_endproc\n").ok()?;
    let _ = std::fs::remove_file(proof.folder.join("probe.o"));
    let words = [options, &["-o", "probe.o", "probe.s"]].concat();
    proof.tool(assembler, &words).ok()?;
    let object = std::fs::read(proof.folder.join("probe.o")).ok()?;
    object.windows(3).find(|bytes| bytes[..2] == [0xe2, 0xde]).map(|bytes| bytes[2])
}

/// Links and runs; returns the name of the program.
fn link(
    proof: &Proof,
    mode: &str,
    kind: &str,
    inputs: &[String],
    relocatable: bool,
    more: &str,
) -> Result<String> {
    if relocatable {
        let mut command = Command::new(proof.prefix.join("ld"));
        command.current_dir(&proof.folder).args(["-r", mode, "-o", "all.o"]).args(inputs);
        output(&mut command)?;
    }
    let mut command = Command::new("g++");
    command.current_dir(&proof.folder).arg(format!("-B{}", proof.prefix.display()));
    command.args(kind.split(' ')).arg(format!("-Wl,{mode}{more}")).args(["-o", "program"]);
    let through = ["all.o".to_owned()];
    output(command.args(if relocatable { &through } else { inputs }))?;
    install::made_here(&proof.folder.join("program"))?;
    if !kind.starts_with("-shared") {
        proof.tool(proof.folder.join("program"), &[])?;
    }
    Ok("program".to_owned())
}

/// The size of the table, and what `sframe verify` says about it and `.eh_frame`.
fn check(proof: &Proof, sframe: &Path, file: &str, section: &str) -> Result<(usize, String)> {
    let report = proof.tool(sframe, &["verify", file])?;
    ensure!(report.contains(" 0 errors, 0 warnings") && report.contains(", 0 wrong"), "{report}");
    let said: Vec<&str> = report.lines().map(|line| line.trim().trim_start_matches("program: ")).collect();
    Ok((section_size(proof, file, section)?, said.join("; ")))
}

fn section_size(proof: &Proof, file: &str, section: &str) -> Result<usize> {
    let (_, _, size) = sections(proof, file)?
        .into_iter()
        .find(|(name, ..)| name == section)
        .with_context(|| format!("{file} has no {section}"))?;
    Ok(size as usize)
}

/// Name, address and size of each section.
fn sections(proof: &Proof, file: &str) -> Result<Vec<(String, u64, u64)>> {
    let headers = proof.tool("readelf", &["-SW", file])?;
    let parsed = headers.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_once("] ")?.1.split_whitespace().collect();
        let number = |place: usize| u64::from_str_radix(fields.get(place)?, 16).ok();
        Some(((*fields.first()?).to_owned(), number(2)?, number(4)?))
    });
    Ok(parsed.collect())
}

/// The functions of a table as `readelf --sframe` lists them: each name, and how often it occurs. A function
/// without a symbol has the name of its section.
fn functions(proof: &Proof, file: &str, section: &str) -> Result<BTreeMap<String, usize>> {
    let readelf = peers::program("readelf")?;
    let mut command = Command::new(&readelf);
    let listing = command.current_dir(&proof.folder).args([&format!("--sframe={section}"), file]).output()?;
    let complaints = String::from_utf8_lossy(&listing.stderr).into_owned();
    ensure!(listing.status.success() && complaints.is_empty(), "readelf on {file}: {complaints}");
    let mut symbols: BTreeMap<u64, String> = BTreeMap::new();
    for line in proof.tool("nm", &["-C", file])?.lines() {
        let Some((address, rest)) = line.split_once(' ') else { continue };
        if let (Ok(address), Some((kind, name))) = (u64::from_str_radix(address, 16), rest.split_once(' '))
            && "tTwWiu".contains(kind)
        {
            symbols.entry(address).or_insert_with(|| name.to_owned());
        }
    }
    let sections = sections(proof, file)?;
    let mut found = BTreeMap::new();
    for line in String::from_utf8_lossy(&listing.stdout).lines().filter(|line| line.contains("func idx")) {
        let fields = line.split_once("pc = 0x").and_then(|(_, rest)| rest.split_once(", size = "));
        let (start, size) = fields.with_context(|| line.to_owned())?;
        let start = u64::from_str_radix(start, 16)?;
        let within = sections.iter().find(|(_, address, size)| (*address..address + size).contains(&start));
        let name = match (symbols.get(&start), within) {
            (Some(name), _) => name.clone(),
            (None, Some((name, ..))) => format!("{name}, {}", size.trim()),
            (None, None) => format!("nothing at {start:#x}, {}", size.trim()),
        };
        *found.entry(name).or_default() += 1;
    }
    Ok(found)
}

/// Compares with GNU ld's table for the same objects, for every kind of output, and lists the differences by
/// name.
fn compare(proof: &mut Proof, sframe: &Path, inputs: &[String]) -> Result<()> {
    let gnu = peer("bfd")?;
    let version = proof.tool(&gnu, &["--version"])?;
    proof.note(format!(
        "\nAgainst {}, as `readelf --sframe` lists both:\n",
        version.lines().next().unwrap_or("")
    ))?;
    proof.note("| kind | functions | GNU ld's | bytes | GNU ld's | smaller | only here | only there |\n|---|---|---|---|---|---|---|---|")?;
    for kind in KINDS {
        let mut command = Command::new("g++");
        command.current_dir(&proof.folder);
        command.arg(format!("-B{}", gnu.parent().context("no folder")?.display())).args(kind.split(' '));
        output(command.args(["-o", "theirs"]).args(inputs))?;
        let ours = link(proof, "--sframe-index", kind, inputs, false, "")?;
        let (size, _) = check(proof, sframe, &ours, ".sframe_idx")?;
        let their_size = section_size(proof, "theirs", ".sframe")?;
        let (here, there) = (functions(proof, &ours, ".sframe_idx")?, functions(proof, "theirs", ".sframe")?);
        let smaller = 100.0 - 100.0 * size as f64 / their_size as f64;
        proof.note(format!(
            "| {kind} | {} | {} | {size} | {their_size} | {smaller:.1} % | {} | {} |",
            here.values().sum::<usize>(),
            there.values().sum::<usize>(),
            surplus(&here, &there),
            surplus(&there, &here)
        ))?;
        ensure!(size * 100 <= their_size * (100 - SMALLER), "{kind}: not {SMALLER} % smaller");
    }
    Ok(())
}

/// The functions that one table has more often than another. Names that only differ in numbers count as one.
fn surplus(one: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>) -> String {
    let mut more: BTreeMap<String, usize> = BTreeMap::new();
    for (name, &count) in one {
        let surplus = count.saturating_sub(other.get(name).copied().unwrap_or(0));
        let kind: String =
            if name.starts_with('.') { name.clone() } else { name.replace(|c: char| c.is_ascii_digit(), "") };
        if surplus > 0 {
            *more.entry(kind).or_default() += surplus;
        }
    }
    let mut named: Vec<String> = more
        .iter()
        .take(NAMED)
        .map(|(name, count)| if *count > 1 { format!("{count} × `{name}`") } else { format!("`{name}`") })
        .collect();
    if more.len() > NAMED {
        named.push(format!("{} other names", more.len() - NAMED));
    }
    if named.is_empty() { "nothing".to_owned() } else { named.join(", ") }
}

/// The cost of the index. Other work on the machine can only make a time longer, so the shortest times are
/// compared.
fn share(proof: &mut Proof, inputs: &[String]) -> Result<()> {
    let (mut shares, mut passes, mut totals) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let mut command = Command::new("g++");
        command.current_dir(&proof.folder).arg(format!("-B{}", proof.prefix.display()));
        command.args(["-pie", "-Wl,--sframe-index,--time-report", "-o", "program"]).args(inputs);
        let result = command.output()?;
        let text = [result.stdout, result.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let time = |wanted: fn(&str) -> bool| -> f64 {
            let of = |line: &str| line.trim().split(' ').next()?.parse::<f64>().ok();
            text.lines().filter(|line| wanted(line)).filter_map(of).sum()
        };
        passes.push(time(|line| line.contains("SFrame")));
        totals.push(time(|line| line.ends_with("total")));
        shares.push(100.0 * passes[passes.len() - 1] / totals[totals.len() - 1]);
    }
    for times in [&mut shares, &mut passes, &mut totals] {
        times.sort_by(f64::total_cmp);
    }
    let least = 100.0 * passes[0] / totals[0];
    proof.note(format!(
        "\nReading, choosing and ordering the functions take {:.2} ms of {:.2} ms, {least:.2} %, at the least of {RUNS} runs; \
         the median of their shares is {:.2} % ({:.2} to {:.2}).",
        passes[0],
        totals[0],
        shares[RUNS / 2],
        shares[0],
        shares[RUNS - 1]
    ))?;
    ensure!(least <= SHARE, "more than {SHARE} %");
    Ok(())
}
