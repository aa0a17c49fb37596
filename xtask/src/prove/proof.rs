//! A running proof: its folder, the linker under test, and the record.

use crate::commands::{output, version};
use crate::records::{self, Measured};
use crate::{folders, install, peers};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A running proof: its folder, the linker laid out for `gcc -B`, and the record so far.
pub struct Proof {
    pub folder: PathBuf,
    pub prefix: PathBuf,
    /// The record so far, with marks around figures that are [`Measured`].
    pub record: String,
    /// Whether the record is written to `tests/proofs/`.
    pub is_recorded: bool,
}

impl Proof {
    pub fn new(name: &str, linker: &Path, is_recorded: bool) -> Result<Self> {
        let folder = crate::folders::target().join("prove").join(name);
        std::fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        let prefix = install::install(linker, &folder.join("installed"))?;
        let mut proof = Proof { folder, prefix, record: String::new(), is_recorded };
        let tools = Measured(format!("{}, {}", version(linker)?, compiler()?));
        proof.note(format!("# `cargo xtask prove {name}`\n\n{}, {tools}\n", records::today()?))?;
        Ok(proof)
    }

    /// Adds a line to the record and shows it. Paths of this machine are left out.
    pub fn note(&mut self, line: impl AsRef<str>) -> Result<()> {
        let line = plain(line.as_ref()).replace(&self.folder.display().to_string(), ".");
        println!("{}", records::shown(&line));
        Ok(writeln!(self.record, "{line}")?)
    }

    pub fn tool(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Result<String> {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.current_dir(&self.folder).args(arguments);
        output(&mut command).with_context(|| format!("{} {}", program.display(), arguments.join(" ")))
    }

    /// A folder that makes `gcc -B` use an assembler, and the version of the assembler.
    pub fn assembler_folder(&self, name: &str, assembler: &Path) -> Result<(PathBuf, String)> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        folders::link(assembler, &folder.join("as"))?;
        Ok((folder, version(assembler)?))
    }

    /// Checks that this linker made a program, and that neither readelf nor eu-elflint complains about it.
    pub fn check(&mut self, program: &Path) -> Result<()> {
        let bytes = std::fs::read(program)?;
        install::made_here(program)?;
        let dump = Command::new("readelf").arg("-aW").arg(program).output()?;
        let complaints = String::from_utf8_lossy(&dump.stderr).into_owned();
        ensure!(dump.status.success() && complaints.is_empty(), "readelf: {complaints}");
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.note(format!(
            "- {name}: {} bytes, made by sframe-ld, `readelf -aW` has no complaint",
            bytes.len()
        ))?;
        self.lint(program)
    }

    /// Checks that eu-elflint only reports findings that are known to be no fault, and records those by kind.
    pub fn lint(&mut self, program: &Path) -> Result<()> {
        let elflint = peers::program("eu-elflint")?;
        let output = Command::new(elflint).args(["--gnu-ld", "-q"]).arg(program).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        let mut unknown = Vec::new();
        for line in text.lines() {
            match elflint_known().find(|pattern| fits(line, pattern)) {
                Some(pattern) => *counted.entry(pattern).or_default() += 1,
                None => unknown.push(line),
            }
        }
        ensure!(unknown.is_empty(), "eu-elflint on {}:\n{}", program.display(), unknown.join("\n"));
        let known: Vec<String> = counted.iter().map(|(what, n)| format!("{n} of `{what}`")).collect();
        let known = if known.is_empty() { "no complaint".into() } else { known.join(", ") };
        self.note(format!("  - `eu-elflint --gnu-ld`: {known}"))
    }
}

/// A text without the control characters of terminals: escape sequences (ECMA-48) and others.
fn plain(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character == '\x1b' {
            // `ESC [` has parameters up to a letter; any other escape has one character.
            if rest.next() == Some('[') {
                while rest.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
            }
        } else if !character.is_control() || matches!(character, '\n' | '\t') {
            kept.push(character);
        }
    }
    kept
}

/// Findings that eu-elflint also reports for good files; the file says why.
fn elflint_known() -> impl Iterator<Item = &'static str> {
    include_str!("../../../tests/elflint-known.txt").lines().filter(|l| !l.is_empty() && !l.starts_with('#'))
}

/// Whether a line contains the parts between a pattern's asterisks, in this order.
fn fits(line: &str, pattern: &str) -> bool {
    let mut rest = Some(line);
    for part in pattern.split('*') {
        rest = rest.and_then(|r| r.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

fn compiler() -> Result<String> {
    Ok(format!("{}, {}", version("gcc")?, version("rustc")?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn records_hold_no_control_characters() {
        let console = "In \x1bc\x1b[?7l\x1b[2J6.1.0 on\r a\x07 machine:\n\n\tall";
        assert_eq!(super::plain(console), "In 6.1.0 on a machine:\n\n\tall");
        assert_eq!(super::plain("cut \x1b["), "cut ");
    }
}
