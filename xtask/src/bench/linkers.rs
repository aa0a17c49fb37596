//! Which linkers are on this machine.
//!
//! A folder of peers holds one folder per linker, with a file `cmd`: the command's words, one a line. Beside those,
//! the usual names on `PATH` are tried. What a command says for `--version` settles what it is; two commands that
//! say the same are one linker.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    SframeLd,
    Gnu,
    Gold,
    Lld,
    Mold,
    Wild,
}

#[derive(Clone, Debug)]
pub struct Linker {
    /// Short name: the folder's, or the command's on `PATH`.
    pub name: String,
    pub family: Family,
    /// First line of `--version`.
    pub version: String,
    /// The program and the words that come before a link's own arguments.
    pub command: Vec<String>,
}

impl Linker {
    /// This linker's spelling for `count` threads. GNU ld has one thread and no such option.
    pub fn thread_arguments(&self, count: usize) -> Vec<String> {
        match self.family {
            Family::Gnu => vec![],
            Family::Gold => vec!["--threads".into(), format!("--thread-count={count}")],
            Family::Mold => vec![format!("--thread-count={count}")],
            Family::Lld | Family::Wild | Family::SframeLd => vec![format!("--threads={count}")],
        }
    }

    fn probe(name: &str, command: Vec<String>) -> Option<Self> {
        let (program, rest) = command.split_first()?;
        let output = Command::new(program).args(rest).arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().filter(|_| output.status.success())?.trim().to_string();
        Some(Linker { name: name.into(), family: family(&version)?, version, command })
    }
}

/// Tells the families apart by the first line of `--version`. Most say "compatible with GNU ld", so GNU ld is last.
fn family(version: &str) -> Option<Family> {
    let lower = version.to_lowercase();
    let families = [
        ("sframe-ld", Family::SframeLd),
        ("wild", Family::Wild),
        ("mold", Family::Mold),
        ("lld", Family::Lld),
        ("gnu gold", Family::Gold),
        ("gnu ld", Family::Gnu),
    ];
    families.into_iter().find(|(word, _)| lower.contains(word)).map(|(_, family)| family)
}

/// Every linker found; `chosen` names those wanted (all if empty). `ours` is the sframe-ld to time, if any.
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
        if linker.family != Family::SframeLd && found.iter().all(|other| other.version != linker.version) {
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
    for name in ["ld.bfd", "ld.gold", "ld.lld", "mold", "wild"] {
        result.push((name.into(), vec![name.into()]));
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_by_the_version_line() {
        let families = [
            ("GNU ld (GNU Binutils for Debian) 2.40", Some(Family::Gnu)),
            ("GNU gold (GNU Binutils for Debian 2.44) 1.16", Some(Family::Gold)),
            ("Debian LLD 22.1.8 (compatible with GNU linkers)", Some(Family::Lld)),
            ("mold 3.0.0 (compatible with GNU ld)", Some(Family::Mold)),
            ("Wild 0.10.0 (compatible with GNU linkers)", Some(Family::Wild)),
            ("sframe-ld 0.1.0 (compatible with GNU ld)", Some(Family::SframeLd)),
            ("cc 12", None),
        ];
        families.into_iter().for_each(|(line, expected)| assert_eq!(family(line), expected, "{line}"));
    }
}
