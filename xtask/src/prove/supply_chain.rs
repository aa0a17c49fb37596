//! Proves the supply chain. `cargo deny` checks the crates that this project takes from others: licences,
//! sources, duplicates and advisories. The crate that it gives to others, `sframe-format`, is checked as it
//! would be published, with its documentation and its interface.
//!
//! The tools are built from their published crates. Advisories are in a repository of their own. If that
//! cannot be reached, the record says so, and the rest still counts.

use super::proof::Proof;
use crate::commands::output;
use crate::folders;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output};

/// The crate that others build on.
const PUBLISHED: &str = "sframe-format";
/// The crates that others can build on, lowest first. On the public registry, `stacks` is another crate, so
/// this one needs another name before a first release.
const PACKAGED: [&str; 4] = ["sframe-demangle", PUBLISHED, "sframe-bpf", "stacks"];
/// Until a version is released, the crate's interface at this commit is the baseline. If you change the
/// interface on purpose, say so in the changelog and move this.
const BASELINE: &str = "ae7eb325";

pub fn supply_chain(proof: &mut Proof) -> Result<()> {
    let deny = tool(proof, "cargo-deny")?;
    dependencies(proof, &deny)?;
    advisories(proof, &deny)?;
    publishing(proof)?;
    oldest_rust(proof)?;
    let semver_checks = tool(proof, "cargo-semver-checks")?;
    interface(proof, &semver_checks)
}

/// A subcommand of cargo, built in the proof's folder.
fn tool(proof: &mut Proof, name: &str) -> Result<PathBuf> {
    let root = proof.folder.join("tools");
    let path = root.join("bin").join(name);
    if !path.exists() {
        let mut command = Command::new("cargo");
        output(command.args(["install", "--quiet", "--locked", "--root"]).arg(&root).arg(name))?;
    }
    let subcommand = name.strip_prefix("cargo-").unwrap_or(name);
    let version = proof.tool(&path, &[subcommand, "--version"])?;
    proof.note(format!("{}\n", version.trim()))?;
    Ok(path)
}

/// A command in the workspace's root.
fn here(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folders::workspace()).args(arguments);
    command
}

/// For each code of a finding, the `name version` of the crates that the finding is about, from the JSON
/// lines of `cargo deny`.
fn findings(output: &Output) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let fields = &value["fields"];
        let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        if value["type"] == "diagnostic" {
            found.entry(word(&fields["code"])).or_default().insert(word(&fields["message"]));
        }
    }
    found
}

fn dependencies(proof: &mut Proof, deny: &std::path::Path) -> Result<()> {
    let arguments = ["--format", "json", "--workspace", "check", "licenses", "bans", "sources"];
    let result = here(deny, &arguments).output()?;
    let messages = String::from_utf8_lossy(&result.stderr).into_owned();
    ensure!(result.status.success(), "cargo deny check licenses bans sources:\n{messages}");
    proof.note("- `cargo deny check licenses bans sources`: no error")?;
    for (code, messages) in findings(&result) {
        let messages: Vec<String> = messages.into_iter().collect();
        proof.note(format!("  - {code}: {}", messages.join("; ")))?;
    }
    Ok(())
}

fn advisories(proof: &mut Proof, deny: &std::path::Path) -> Result<()> {
    let fetched = here(deny, &["fetch", "db"]).output()?;
    if !fetched.status.success() {
        return proof
            .note("- `cargo deny check advisories`: the advisories could not be fetched from this machine");
    }
    let result = here(deny, &["--workspace", "check", "advisories"]).output()?;
    let messages = String::from_utf8_lossy(&result.stderr).into_owned();
    ensure!(result.status.success(), "cargo deny check advisories:\n{messages}");
    proof.note("- `cargo deny check advisories`: no crate has one")
}

/// Builds the published crate as others would get it, from its package alone, and documents it.
fn publishing(proof: &mut Proof) -> Result<()> {
    let result = here("cargo", &["publish", "--dry-run", "--allow-dirty", "-p", PUBLISHED]).output()?;
    let messages = String::from_utf8_lossy(&result.stderr).into_owned();
    ensure!(result.status.success(), "cargo publish --dry-run:\n{messages}");
    let packaged = messages.lines().map(str::trim).find(|line| line.starts_with("Packaged"));
    let packaged = packaged.context("cargo publish says nothing of what it packaged")?;
    proof.note(format!(
        "- `cargo publish --dry-run -p {PUBLISHED}`: {packaged}; it builds from the package"
    ))?;
    let packages = PACKAGED.iter().flat_map(|name| ["-p", *name]);
    output(here("cargo", &["package", "--allow-dirty"]).args(packages.clone()))?;
    proof.note(format!("- `cargo package` of {}: all build from their packages", PACKAGED.join(", ")))?;
    let arguments = ["doc", "--no-deps", "--all-features"];
    output(here("cargo", &arguments).args(packages).env("RUSTDOCFLAGS", "-D warnings"))?;
    proof.note("- their documentation with all features: no warning")
}

/// Builds the published crate with the oldest Rust that its manifest names.
fn oldest_rust(proof: &mut Proof) -> Result<()> {
    let text = output(&mut here("cargo", &["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let package = packages.iter().find(|package| package["name"] == PUBLISHED);
    let version = package
        .and_then(|package| package["rust_version"].as_str())
        .with_context(|| format!("{PUBLISHED} names no rust-version"))?;
    output(&mut here(
        "rustup",
        &["toolchain", "install", version, "--profile", "minimal", "--no-self-update"],
    ))?;
    for features in [["--no-default-features"], ["--all-features"]] {
        let folder = proof.folder.join("oldest");
        let mut command = here("rustup", &["run", version, "cargo", "check", "-p", PUBLISHED]);
        output(command.args(features).arg("--target-dir").arg(folder))?;
    }
    proof.note(format!("- Rust {version}: builds without features and with all"))
}

fn interface(proof: &mut Proof, semver_checks: &std::path::Path) -> Result<()> {
    let arguments = ["semver-checks", "-p", PUBLISHED, "--all-features", "--baseline-rev", BASELINE];
    let result = here(semver_checks, &arguments).output()?;
    let messages = String::from_utf8_lossy(&result.stderr).into_owned();
    ensure!(result.status.success(), "cargo semver-checks:\n{messages}");
    let checked = messages.lines().map(str::trim).find(|line| line.starts_with("Checked"));
    let checked = checked.context("cargo semver-checks says nothing of what it checked")?;
    proof.note(format!("- `cargo semver-checks` against {BASELINE}, as no version is released: {checked}"))
}
