//! Compiles the program that unwinds in the kernel. Machines without a compiler for BPF load the result,
//! `examples/bpf/unwind.bpf.o`.
//!
//! A file beside it says what it was made from: a hash of the sources, and the version of the compiler. The
//! same compiler makes the same code again, so a test can compare the two. The code of another compiler may
//! differ and be as good.

use crate::commands::version;
use crate::folders::workspace;
use crate::peers;
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Only say whether the object is of these sources
    #[arg(long)]
    check: bool,
}

const SOURCES: [&str; 4] = ["compact.h", "outer.h", "unwind.bpf.c", "unwind.h"];
/// The kernel needs BTF for programs with callbacks, and the compiler only writes BTF with debug information.
const FLAGS: [&str; 9] =
    ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-c"];
/// The parts of the object that the kernel gets.
const PARTS: [&str; 6] = [".text", "perf_event", ".rodata", ".maps", "license", ".BTF"];

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check { check() } else { make() }
}

fn folder() -> PathBuf {
    workspace().join("examples/bpf")
}

fn make() -> Result<()> {
    peers::prepare(&peers::folder(), true)?;
    compile(&folder().join("unwind.bpf.o"))?;
    std::fs::write(folder().join("unwind.bpf.txt"), origin()?)?;
    Ok(())
}

fn compile(object: &Path) -> Result<()> {
    let mut command = Command::new(peers::program("clang")?);
    // Without the folder, the object says nothing about this machine.
    command.current_dir(folder()).args(FLAGS).arg("-fdebug-compilation-dir=.");
    command.arg("-o").arg(object).arg("unwind.bpf.c");
    ensure!(command.status()?.success(), "clang does not compile the program");
    Ok(())
}

/// The version of the compiler.
fn compiler() -> Result<String> {
    version(peers::program("clang")?)
}

fn sources() -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for name in SOURCES {
        hasher.update(&std::fs::read(folder().join(name))?);
    }
    Ok(format!("sources: {}", hasher.finalize().to_hex()))
}

fn origin() -> Result<String> {
    Ok(format!("{}\n{}\n", sources()?, compiler()?))
}

fn check() -> Result<()> {
    let noted = std::fs::read_to_string(folder().join("unwind.bpf.txt"))?;
    let stale = "unwind.bpf.o is not of these sources: run `cargo xtask bpf`";
    ensure!(noted.lines().next() == Some(&*sources()?), stale);
    // Only the same compiler makes the same code, so without it there is nothing to compare.
    if !compiler().is_ok_and(|compiler| noted.lines().nth(1) == Some(&*compiler)) {
        return Ok(());
    }
    let scratch = tempfile::tempdir()?;
    let again = scratch.path().join("unwind.bpf.o");
    compile(&again)?;
    ensure!(parts(&again)? == parts(&folder().join("unwind.bpf.o"))?, stale);
    Ok(())
}

fn parts(object: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(object)?;
    let file = object::File::parse(&*bytes)?;
    let part =
        |name: &&str| Ok(file.section_by_name(name).with_context(|| format!("no {name}"))?.data()?.to_vec());
    PARTS.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_compiled_program_is_of_its_sources() {
        super::check().unwrap();
    }
}
