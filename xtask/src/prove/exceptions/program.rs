//! A program of a test: how it is linked in each way, and run.

use super::outcome::Outcome;
use super::ways::Way;
use crate::prove::proof::Proof;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tests of one origin, by one compiler.
pub trait Suite {
    /// How the record calls them.
    fn name(&self) -> String;
    /// Shows each program of the tests. Tests that do not compile have none.
    fn visit(&self, proof: &Proof, see: &mut See<'_>) -> Result<()>;
}

pub type See<'a> = dyn FnMut(&Program) -> Result<()> + 'a;

/// A program that is linked in every way.
#[derive(Default)]
pub struct Program {
    /// The test and the form of the program.
    pub name: String,
    /// The command that links it, in the proof's folder, without the output.
    pub link: Vec<String>,
    /// What stands before an option of a way.
    pub prefix: &'static str,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Program {
    /// Links it; returns the folder where it is. `None`: it cannot be linked.
    pub fn link(&self, proof: &Proof, way: &Way) -> Result<Option<PathBuf>> {
        let folder = proof.folder.join(way.folder);
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new(&self.link[0]);
        command.current_dir(&proof.folder).args(&self.link[1..]);
        command.args(way.options.iter().map(|option| format!("{}{option}", self.prefix)));
        // Some of Rust's tests have features that a released rustc takes only so.
        command.arg("-o").arg(folder.join(PROGRAM)).env("RUSTC_BOOTSTRAP", "1");
        Ok(command.output()?.status.success().then_some(folder))
    }

    pub fn run(&self, folder: &Path) -> Result<Outcome> {
        let mut command = Command::new(Path::new(".").join(PROGRAM));
        command.current_dir(folder).args(&self.arguments).envs(self.environment.iter().cloned());
        Outcome::of(&mut command)
    }
}

/// The file name of a program.
const PROGRAM: &str = "program";

/// The files below a folder whose names a test has, sorted.
pub fn files(folder: &Path, is_test: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let (mut folders, mut tests) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder);
        let entries = entries.with_context(|| format!("no {} (cargo xtask peers)", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| is_test(&name.to_string_lossy())) {
                tests.push(path);
            }
        }
    }
    tests.sort();
    Ok(tests)
}

/// Some tests are not in UTF-8.
pub fn text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
