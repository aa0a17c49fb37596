//! Finds the linkers of this machine.
//!
//! The folder of peers has one folder for each linker, with a file `cmd`: the words of the command, one per
//! line. The usual names on `PATH` are tried as well. The output of `--version` identifies a command; two
//! commands with the same output are one linker.

use ::peers::{Family, Linker, PATH_NAMES};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// All linkers that are found. `chosen` names the wanted ones (all if it is empty). `ours` is the sframe-ld
/// to time, if any.
pub fn find(ours: Option<&Path>, peers: &Path, chosen: &[String]) -> Result<Vec<Linker>> {
    let mut found = vec![];
    if let Some(path) = ours {
        let linker = Linker::probe("sframe-ld", vec![path.display().to_string()])
            .with_context(|| format!("{} does not answer to --version", path.display()))?;
        found.push(linker);
    }
    for (name, command) in candidates(peers)? {
        let wanted = chosen.is_empty() || chosen.contains(&name);
        let Some(linker) = wanted.then(|| Linker::probe(&name, command)).flatten() else { continue };
        let is_peer = !matches!(linker.family, Family::SFrameLd | Family::Other);
        if is_peer && found.iter().all(|other| other.version != linker.version) {
            found.push(linker);
        }
    }
    if found.is_empty() {
        bail!("no linker found in {} or on PATH", peers.display());
    }
    Ok(found)
}

fn candidates(peers: &Path) -> Result<Vec<(String, Vec<String>)>> {
    let mut result = vec![];
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(peers).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for folder in folders {
        let Ok(words) = std::fs::read_to_string(folder.join("cmd")) else { continue };
        let name = folder.file_name().context("folder without a name")?.to_string_lossy().into_owned();
        result.push((name, words.lines().filter(|line| !line.is_empty()).map(String::from).collect()));
    }
    result.extend(PATH_NAMES.iter().map(|&name| (name.into(), vec![name.into()])));
    Ok(result)
}
