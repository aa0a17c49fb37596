//! The program that unwinds in the kernel, compiled: `examples/bpf/unwind.bpf.o`, which machines without a
//! compiler for BPF load.
//!
//! Beside it stands what it was made of: a hash of the sources and the compiler's version. The same compiler
//! makes the same code again, so a test can hold one against the other; another compiler's code may differ
//! and be as good.

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

const SOURCES: [&str; 2] = ["compact.h", "unwind.bpf.c"];
/// BTF, which the kernel wants of programs with callbacks, is made with debug information only.
const FLAGS: [&str; 9] =
    ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-c"];
/// What the kernel gets of the object.
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
    // Without its folder, so that the object says nothing of this machine.
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
    // Without the very compiler there is nothing to hold it against.
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
