//! Runs a test suite of another linker through this one: mold's, a shell script for each feature.
//!
//! The scripts call `./mold` and `./ld` of the folder in which they run, and compilers with `-B.`. So a
//! folder with this linker under these names is all that they need. Another one with mold itself tells which
//! scripts can work on this machine at all: only what mold passes here counts.
//!
//! Scripts also hold what no standard and no other linker says: mold's words, its layout, options that are
//! its own. `suites/mold.txt` lists those that are known not to pass, each with the reason. The proof fails
//! if another one does not, or if one of the list passes.

use super::proof::Proof;
use crate::peers;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is known not to pass with this linker.
const KNOWN: &str = include_str!("suites/mold.txt");
/// Names by which scripts call the linker.
const NAMES: [&str; 3] = ["mold", "ld", "ld.mold"];
/// The machines, as scripts name them, and the triples of their compilers.
const MACHINES: [(&str, &str); 3] =
    [("x86_64", ""), ("aarch64", "aarch64-linux-gnu"), ("s390x", "s390x-linux-gnu")];
/// How many seconds one script may take.
const LIMIT: &str = "120";

/// How a script ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// It found that the machine lacks what it needs.
    Skipped,
    Failed,
}

/// Results of the scripts for one machine, by name.
type Results = BTreeMap<String, Outcome>;

pub fn suites(proof: &mut Proof) -> Result<()> {
    let (known, scripts) = (known()?, scripts()?);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut unknown, mut stale) = (Vec::new(), known.clone());
    proof.note(
        "| mold's scripts for | run | mold passes | of these this linker | not, for a known reason |",
    )?;
    proof.note("|---|---:|---:|---:|---:|")?;
    for (machine, triple) in MACHINES {
        let own: Vec<&PathBuf> = scripts.iter().filter(|script| is_for(script, machine)).collect();
        let mold = folder_of(proof, "mold", machine, &mold(machine)?)?;
        let ours = folder_of(proof, "ours", machine, &proof.prefix.join("ld"))?;
        let (mold, ours) = (run(proof, &mold, triple, &own)?, run(proof, &ours, triple, &own)?);
        let counted = mold.iter().filter(|(_, outcome)| **outcome == Outcome::Passed);
        let counted: Vec<&str> = counted.map(|(name, _)| name.as_str()).collect();
        let failed: Vec<&str> =
            counted.iter().copied().filter(|name| ours[*name] != Outcome::Passed).collect();
        let (explained, other): (Vec<&str>, Vec<&str>) =
            failed.iter().partition(|name| known.contains_key(**name));
        unknown.extend(other.into_iter().map(|name| format!("{machine}: {name} does not pass")));
        for name in &explained {
            *kinds.entry(known[*name]).or_default() += 1;
            stale.remove(*name);
        }
        let passed = counted.len() - failed.len();
        let (run, counted, explained) = (own.len(), counted.len(), explained.len());
        proof.note(format!("| {machine} | {run} | {counted} | {passed} | {explained} |"))?;
    }
    let of = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
    proof.note(format!(
        "\n[The list](../../xtask/src/prove/suites/mold.txt) says why: {} want mold's words, {} its layout (mostly \
         where this linker does as GNU ld), {} an option of its own.",
        of("words"),
        of("layout"),
        of("option")
    ))?;
    unknown
        .extend(stale.into_keys().map(|name| format!("{name} passes, or is gone: take it out of the list")));
    ensure!(unknown.is_empty(), "suites/mold.txt:\n{}", unknown.join("\n"));
    Ok(())
}

/// The kinds of reasons why scripts do not pass, by the names of the scripts.
fn known() -> Result<BTreeMap<&'static str, &'static str>> {
    let lines = KNOWN.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let of_line = |line: &'static str| {
        let mut parts = line.splitn(3, ": ");
        let known = parts.next().zip(parts.next()).filter(|_| parts.next().is_some());
        known.with_context(|| format!("suites/mold.txt: expected NAME: KIND: REASON, found {line}"))
    };
    lines.map(of_line).collect()
}

/// All scripts, sorted.
fn scripts() -> Result<Vec<PathBuf>> {
    let folder = peers::folder().join("mold-tests/test");
    let entries = std::fs::read_dir(&folder).context("no tests of mold; run cargo xtask peers")?;
    let mut found: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "sh"));
    found.sort();
    Ok(found)
}

fn name_of(script: &Path) -> String {
    script.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a script is about every machine, or about this one.
fn is_for(script: &Path, machine: &str) -> bool {
    let name = name_of(script);
    let of_machine = name.strip_prefix("arch-");
    of_machine.is_none_or(|rest| rest.strip_prefix(machine).is_some_and(|rest| rest.starts_with('-')))
}

/// mold itself for a machine.
fn mold(machine: &str) -> Result<PathBuf> {
    let newest = peers::linkers().into_iter().rfind(|name| name.starts_with("mold-"));
    let folder = peers::folder().join(newest.context("no mold; run cargo xtask peers")?);
    Ok(if machine == "x86_64" { folder.join("ld") } else { folder.join(machine).join("ld") })
}

/// An empty folder for scripts, in which a linker has the names of [`NAMES`].
fn folder_of(proof: &Proof, name: &str, machine: &str, linker: &Path) -> Result<PathBuf> {
    let folder = proof.folder.join(format!("{name}-{machine}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let linker = linker.canonicalize().with_context(|| linker.display().to_string())?;
    NAMES.iter().try_for_each(|name| crate::folders::link(&linker, &folder.join(name)))?;
    Ok(folder)
}

/// Runs scripts in a folder, as many at once as the machine has processors.
fn run(proof: &Proof, folder: &Path, triple: &str, scripts: &[&PathBuf]) -> Result<Results> {
    let tools = tools(proof)?;
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Results::new()));
    let work = || -> Result<()> {
        while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run_one(folder, triple, &tools, script)?;
            results
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .insert(name_of(script), outcome);
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no script panics"))
    })?;
    Ok(results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn run_one(folder: &Path, triple: &str, tools: &str, script: &Path) -> Result<Outcome> {
    // `timeout` also ends what a script has started.
    let mut command = Command::new("timeout");
    command.args([LIMIT, "bash"]).arg(script).current_dir(folder).env("PATH", tools);
    // Variables of compilers would change what the scripts compile.
    for name in ["MAKEFLAGS", "LDFLAGS", "CFLAGS", "SFRAME_LD_OPTIONS"] {
        command.env_remove(name);
    }
    if !triple.is_empty() {
        command.env("TRIPLE", triple);
    }
    let output = command.stdin(Stdio::null()).output().context("timeout")?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(match output.status.success() {
        true if said.lines().any(|line| line == "skipped") => Outcome::Skipped,
        true => Outcome::Passed,
        false => Outcome::Failed,
    })
}

/// `PATH` with the newest binutils, the compilers for other machines, and emulators that find these machines'
/// libraries: the scripts name a folder in which only an installed cross compiler would have them.
fn tools(proof: &Proof) -> Result<String> {
    let emulators = proof.folder.join("emulators");
    std::fs::create_dir_all(&emulators)?;
    for (machine, triple) in MACHINES.into_iter().filter(|(_, triple)| !triple.is_empty()) {
        let emulator = peers::program(&format!("qemu-{machine}"))?;
        let text = format!(
            "[ \"$1\" = -L ] && shift 2\nexec '{}' -L '{}' \"$@\"",
            emulator.display(),
            peers::sysroot(triple).display()
        );
        peers::write_script(&emulators.join(format!("qemu-{machine}")), &text)?;
    }
    let readelf = peers::program("readelf")?;
    let binutils = readelf.parent().context("readelf has a folder")?.to_owned();
    let folders = [emulators, peers::folder().join("cross"), binutils];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(all)?.to_string_lossy().into_owned())
}
