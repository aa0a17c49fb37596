//! Builds the programs of this project that are measured.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::case::must_run;

/// A program of this project's package of that name, from a release build of a work tree. It is copied, as an
/// installation would do. A linker writes its output in many pieces, so the file lies page by page in the
/// system's cache. Starting such a file takes 0.7 ms longer (a small link takes 5 ms) than starting a file
/// that was written from front to back. Packages and `cargo install` write the other linkers in that way.
pub fn release_build(tree: &Path, program: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let words = ["build", "--release", "--package", program, "--bin", program, "--message-format=json"];
    let text = must_run(tree, cargo, &words.map(String::from))?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut executables = messages.filter_map(|message| Some(message.get("executable")?.as_str()?.into()));
    let built: PathBuf = executables.next_back().context("cargo build reports no executable")?;
    let folder = built.with_file_name("installed");
    std::fs::create_dir_all(&folder)?;
    let installed = folder.join(program);
    std::fs::copy(&built, &installed).with_context(|| format!("cannot install {}", built.display()))?;
    Ok(installed)
}
