//! Commands and folders for the other modules of packages.

use crate::commands::first_line;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the machine in packages: `amd64`.
pub fn architecture() -> Result<String> {
    first_line(Command::new("dpkg").arg("--print-architecture"))
}

/// All files and links below a folder, sorted, by their paths relative to it.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(folder)?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
