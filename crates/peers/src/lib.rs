//! The identity of a linker: a command, and its answer to `--version`. Also the tree of tools that tests take
//! from other projects ([`tree`]).
//!
//! Two commands with the same answer are one linker. Callers search for commands themselves, because each
//! searches in its own way: a comparison needs one command for each machine; a benchmark needs the program
//! itself, and no shell script around it. The same tree has a judge of frames ([`libsframe`]).

pub mod libsframe;
pub mod tree;

use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};

/// Linkers with the same origin. Their versions agree with each other, so they count once in a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// This project's.
    #[serde(rename = "sframe-ld")]
    SFrameLd,
    /// GNU ld.
    Gnu,
    /// GNU gold.
    Gold,
    /// LLVM's.
    Lld,
    /// mold.
    Mold,
    /// wild.
    Wild,
    /// Any other.
    Other,
}

/// A linker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linker {
    /// Short name.
    pub name: String,
    /// The project that it comes from.
    pub family: Family,
    /// First line of `--version`.
    pub version: String,
    /// The program, and the words that precede the arguments of a link.
    #[serde(skip)]
    pub command: Vec<String>,
}

impl Linker {
    /// Asks a command who it is; `None` if it does not answer.
    pub fn probe(name: &str, command: Vec<String>) -> Option<Self> {
        let (program, rest) = command.split_first()?;
        let output = Command::new(program).args(rest).arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().filter(|_| output.status.success())?.trim().to_owned();
        Some(Linker { name: name.into(), family: family(&version), version, command })
    }

    /// Whether it is this project's linker.
    pub fn is_ours(&self) -> bool {
        self.family == Family::SFrameLd
    }
}

/// Finds the family by the first line of `--version`. Most linkers print "compatible with GNU ld", so the
/// check for GNU ld comes last.
fn family(version: &str) -> Family {
    let lower = version.to_lowercase();
    let families = [
        ("sframe-ld", Family::SFrameLd),
        ("wild", Family::Wild),
        ("mold", Family::Mold),
        ("lld", Family::Lld),
        ("gnu gold", Family::Gold),
        ("gnu ld", Family::Gnu),
    ];
    families.into_iter().find(|(word, _)| lower.contains(word)).map_or(Family::Other, |(_, family)| family)
}

/// The names of linkers on `PATH`.
pub const PATH_NAMES: &[&str] = &["ld.bfd", "ld.gold", "ld.lld", "mold", "wild"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_by_the_version_line() {
        let families = [
            ("GNU ld (GNU Binutils for Debian) 2.40", Family::Gnu),
            ("GNU gold (GNU Binutils for Debian 2.44) 1.16", Family::Gold),
            ("Debian LLD 22.1.8 (compatible with GNU linkers)", Family::Lld),
            ("mold 3.0.0 (compatible with GNU ld)", Family::Mold),
            ("Wild 0.10.0 (compatible with GNU linkers)", Family::Wild),
            ("sframe-ld 0.1.0 (compatible with GNU ld)", Family::SFrameLd),
            ("GNU ld (sframe-ld) 2.44", Family::SFrameLd),
            ("cc 12", Family::Other),
        ];
        families.into_iter().for_each(|(line, expected)| assert_eq!(family(line), expected, "{line}"));
    }
}
