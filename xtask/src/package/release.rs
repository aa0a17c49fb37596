//! Builds releases with flags of rustc, each in a folder of its own.

use crate::bench::programs;
use crate::folders::workspace;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The start of a command that builds a release with these flags of rustc.
pub fn build(folder: &Path, flags: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace()).env("RUSTFLAGS", flags).env("CARGO_INCREMENTAL", "0");
    command.args(["build", "--release", "--locked", "--target-dir"]).arg(folder);
    command
}

/// Builds the linker as one unit, with all crates in it. That takes longer than the usual release and brings
/// some 4 % of processor time, and with a profile more. Returns the program.
///
/// # Errors
/// It does not build.
pub fn linker(folder: &Path, flags: &str) -> Result<PathBuf> {
    let target = programs::host_target(workspace())?;
    let mut command = build(folder, flags);
    command.env("CARGO_PROFILE_RELEASE_LTO", "fat").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
    // With a target, build scripts and procedural macros get no flags, and count nothing.
    command.args(["--bin", "sframe-ld", "-p", "sframe-ld", "--target", &target]);
    ensure!(command.status()?.success(), "the linker does not build");
    Ok(folder.join(target).join("release/sframe-ld"))
}
