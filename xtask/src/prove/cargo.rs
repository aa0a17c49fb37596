//! Proves that cargo can build Rust programs with the linker: this project itself, and ripgrep.

use super::proof::Proof;
use crate::commands::output;
use crate::{install, peers};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// The release of ripgrep to build.
const RIPGREP_VERSION: &str = "14.1.1";

/// The flags with which rustc finds the linker in a folder.
fn rust_flags(prefix: &Path) -> String {
    format!("-Clink-self-contained=-linker -Clink-arg=-B{}", prefix.display())
}

pub fn itself(proof: &mut Proof) -> Result<()> {
    let target = proof.folder.join("target");
    let program = target.join("release/sframe-ld");
    let mut generations = Vec::new();
    for generation in 2..=3 {
        // The objects and the flags are the same; only the linker differs.
        forget_link(&target, "sframe_ld")?;
        let mut command = Command::new("cargo");
        command.current_dir(crate::folders::workspace()).args([
            "build",
            "--release",
            "--quiet",
            "--bin",
            "sframe-ld",
        ]);
        command.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", rust_flags(&proof.prefix));
        output(&mut command).with_context(|| format!("generation {generation}"))?;
        proof.note(format!("\nGeneration {generation}, linked by generation {}:", generation - 1))?;
        proof.check(&program)?;
        generations.push(std::fs::read(&program)?);
        proof.prefix = install::install(&program, &proof.folder.join("installed"))?;
    }
    ensure!(generations[0] == generations[1], "generations 2 and 3 differ");
    proof.note("\nGenerations 2 and 3 are the same, byte for byte.")?;
    let mut command = Command::new("cargo");
    command.current_dir(crate::folders::workspace()).args(["test", "--test", "integration"]);
    let linker = proof.folder.join("installed/bin/sframe-ld");
    command.env("SFRAME_TEST_LD", linker).env("SFRAME_TEST_OWN", "1");
    command.env("SFRAME_PEERS", peers::folder());
    let text = output(&mut command)?;
    let result = text.lines().find(|l| l.starts_with("test result")).unwrap_or("").to_owned();
    proof.note(format!("The integration tests with generation 3: {result}"))
}

/// Removes the files of a program that cargo has linked, so that cargo links it again.
fn forget_link(target: &Path, program: &str) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(target.join("release/deps")) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.strip_prefix(program).is_some_and(|rest| rest.starts_with('-')) && path.extension().is_none()
        {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

pub fn ripgrep(proof: &mut Proof) -> Result<()> {
    let target = proof.folder.join("target");
    forget_link(&target, "rg")?;
    let mut command = Command::new("cargo");
    command.args(["install", "ripgrep", "--locked", "--force", "--version", RIPGREP_VERSION, "--root"]);
    command.arg(proof.folder.join("root")).env("CARGO_TARGET_DIR", target);
    command.env("RUSTFLAGS", rust_flags(&proof.prefix));
    output(&mut command)?;
    let program = proof.folder.join("root/bin/rg");
    proof.check(&program)?;
    let version = proof.tool(&program, &["--version"])?;
    proof.note(format!("- says {:?}", version.lines().next().unwrap_or("")))?;
    let source = crate::folders::workspace().join("src").display().to_string();
    let ours = proof.tool(&program, &["--no-config", "-c", "--sort", "path", r"\bfn \w+\(", &source])?;
    let grep = proof.tool("grep", &["-rcP", r"\bfn \w+\(", &source])?;
    let sum =
        |text: &str| text.lines().filter_map(|l| l.rsplit(':').next()?.parse::<u64>().ok()).sum::<u64>();
    ensure!(sum(&ours) == sum(&grep) && sum(&ours) > 0, "rg counts {}, grep {}", sum(&ours), sum(&grep));
    proof.note("- counts the functions of `src` as grep does")
}
