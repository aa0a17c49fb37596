//! Builds of ours to measure.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::case::must_run;

/// A program of ours from a release build of a work tree.
pub fn release_build(tree: &Path, program: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let words = ["build", "--release", "--package", "sframe-ld", "--bin", program, "--message-format=json"];
    let text = must_run(tree, cargo, &words.map(String::from))?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut executables = messages.filter_map(|message| Some(message.get("executable")?.as_str()?.into()));
    executables.next_back().context("cargo build reports no executable")
}
