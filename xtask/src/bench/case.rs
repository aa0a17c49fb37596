//! A benchmark case: a folder with every input, the exact arguments of the link, and how to check its output.
//!
//! A case is prepared once. Its folder contains `case.json` (this module's [`Case`]), `link.args` (the same
//! link arguments as a response file, for use by hand) and every input that the link names. The preparation
//! asks the compiler driver for its link line (`-###`); the driver takes no part later.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// This number goes up when a recipe changes, so that folders from an older recipe are made again.
const RECIPE: u32 = 2;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    recipe: u32,
    /// Arguments of the link, without the output; relative paths start at the case's folder.
    pub link: Vec<String>,
    /// Arguments for running the output, in the case's folder.
    pub run: Vec<String>,
    /// Texts that the run's standard output must contain.
    pub expected: Vec<String>,
    /// The number of object files in the link, if the case is about that number.
    pub objects: Option<usize>,
}

impl Case {
    pub fn new(link: Vec<String>, run: &[&str], expected: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|&word| word.into()).collect();
        Case { recipe: RECIPE, link, run: owned(run), expected: owned(expected), objects: None }
    }

    /// The case in `folder`, if it has been prepared by this recipe.
    pub fn load(folder: &Path) -> Option<Self> {
        let text = std::fs::read(folder.join("case.json")).ok()?;
        serde_json::from_slice(&text).ok().filter(|case: &Case| case.recipe == RECIPE)
    }

    /// Written last: a folder without `case.json` is not ready.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let mut response = String::new();
        for argument in &self.link {
            for character in argument.chars() {
                if character.is_whitespace() || "\\\"'".contains(character) {
                    response.push('\\');
                }
                response.push(character);
            }
            response.push('\n');
        }
        std::fs::write(folder.join("link.args"), response)?;
        std::fs::write(folder.join("case.json"), serde_json::to_vec_pretty(self)?)?;
        Ok(())
    }

    /// Runs a linked `output`. An error says how its status or its output differs.
    pub fn check(&self, folder: &Path, output: &Path) -> Result<(), String> {
        let run = Command::new(output).args(&self.run).current_dir(folder).output();
        let run = run.map_err(|error| format!("output does not run: {error}"))?;
        let text = String::from_utf8_lossy(&run.stdout);
        if !run.status.success() {
            return Err(format!(
                "output ended with {}: {}",
                run.status,
                String::from_utf8_lossy(&run.stderr)
            ));
        }
        match self.expected.iter().find(|words| !text.contains(words.as_str())) {
            Some(words) => Err(format!("output did not print {words:?}")),
            None => Ok(()),
        }
    }
}

/// Runs a command in `folder` and returns its standard output. If the command fails, the error has its
/// messages.
pub fn must_run(folder: &Path, program: impl AsRef<OsStr>, arguments: &[String]) -> Result<String> {
    let program = program.as_ref();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        bail!("{} {} failed: {messages}", program.display(), arguments.join(" "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The linker arguments that a compiler driver would use for `arguments`, without its plugin and output.
pub fn link_line(folder: &Path, driver: &str, arguments: &[String]) -> Result<Vec<String>> {
    let output = Command::new(driver)
        .arg("-###")
        .args(arguments)
        .args(["-o", "output"])
        .env("LC_ALL", "C")
        .current_dir(folder)
        .output()
        .with_context(|| format!("cannot start {driver}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rev().map(words).find(|words| {
        let program = words.first().map(PathBuf::from).unwrap_or_default();
        program.file_name().is_some_and(|name| name == "collect2" || name == "ld")
    });
    let Some(line) = line else { bail!("{driver} -### shows no link: {text}") };
    let mut result = vec![];
    let mut words = line.into_iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-plugin" | "-o" => drop(words.next()),
            word if word.starts_with("-plugin-opt=") || word.starts_with("-fuse-ld=") => {}
            _ => result.push(word),
        }
    }
    Ok(result)
}

/// Splits a line that gcc printed: spaces separate words, double quotes enclose them, backslashes escape.
fn words(line: &str) -> Vec<String> {
    let mut result = vec![];
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            ' ' if !quoted => result.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    result.extend(word);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_quotes_and_escapes_together() {
        let line = r#" /usr/collect2 "-z" "a b" -dynamic\ linker "" x"#;
        assert_eq!(words(line), ["/usr/collect2", "-z", "a b", "-dynamic linker", "", "x"]);
    }

    #[test]
    fn check_names_what_is_missing() {
        let case = Case::new(vec![], &["one"], &["two"]);
        let problem = case.check(Path::new("/"), Path::new("/bin/echo")).unwrap_err();
        assert_eq!(problem, "output did not print \"two\"");
    }
}
