//! Builds releases with flags of rustc, each in a folder of its own.

use crate::bench::programs;
use crate::commands;
use crate::folders::workspace;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The start of a command that builds a release with these flags of rustc. C code that names the time of its
/// compilation, as mimalloc does, names that of the commit.
///
/// # Errors
/// git does not know the time of the commit.
pub fn build(folder: &Path, flags: &str) -> Result<Command> {
    let mut command = Command::new("cargo");
    command.current_dir(workspace()).env("RUSTFLAGS", flags).env("CARGO_INCREMENTAL", "0");
    command.env("SOURCE_DATE_EPOCH", commit_time()?.to_string());
    // For the package with debug information.
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
    command.args(["build", "--release", "--locked", "--target-dir"]).arg(folder);
    Ok(command)
}

/// Builds the linker as one unit, with all crates in it. That takes longer than the usual release and brings
/// some 4 % of processor time, and with a profile more. Returns the program.
///
/// # Errors
/// It does not build.
pub fn linker(folder: &Path, flags: &str) -> Result<PathBuf> {
    let target = programs::host_target(workspace())?;
    let mut command = build(folder, flags)?;
    command.env("CARGO_PROFILE_RELEASE_LTO", "fat").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
    // With a target, build scripts and procedural macros get no flags, and count nothing.
    command.args(["--bin", "sframe-ld", "-p", "sframe-ld", "--target", &target]);
    ensure!(command.status()?.success(), "the linker does not build");
    Ok(folder.join(target).join("release/sframe-ld"))
}

/// The time of the commit, in seconds since 1970.
///
/// # Errors
/// This is no clone, or there is no git.
pub fn commit_time() -> Result<u64> {
    let mut command = Command::new("git");
    let text = commands::output(command.current_dir(workspace()).args(["log", "-1", "--format=%ct"]))?;
    text.trim().parse().context("no time of the commit")
}
