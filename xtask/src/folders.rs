//! Finds the workspace's folder, cargo's folder, and the files in a folder.

use crate::commands::output;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's folder.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The project's files in these folders, by names relative to the workspace.
///
/// # Errors
/// This is not a work tree of git.
pub fn tracked(parts: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let listed = output(Command::new("git").current_dir(workspace()).arg("ls-files").args(parts))?;
    Ok(listed.lines().map(PathBuf::from).collect())
}

/// Copies a file of the workspace to the same name below `folder`.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy_to(name: &Path, folder: &Path) -> std::io::Result<()> {
    let at = folder.join(name);
    std::fs::create_dir_all(at.parent().unwrap_or(folder))?;
    std::fs::copy(workspace().join(name), at).map(drop)
}

/// Makes a symbolic link and replaces what is there.
///
/// # Errors
/// It cannot be made.
pub fn link(target: impl AsRef<Path>, at: &Path) -> anyhow::Result<()> {
    let _ = std::fs::remove_file(at);
    std::os::unix::fs::symlink(target, at).with_context(|| format!("cannot link {}", at.display()))
}

/// The files in a folder, by name.
///
/// # Errors
/// The folder cannot be read.
pub fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.is_file());
    found.sort();
    Ok(found)
}
