//! `--dependency-file`: all input files, as a rule for make.

use crate::phase::Directives;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The rule, and an empty rule for each file, so that make does not stop when one is gone.
pub fn rule(directives: &Directives<'_>, inputs: &[PathBuf]) -> String {
    let mut seen = HashSet::new();
    let paths = inputs.iter().chain(&directives.script_paths);
    let files: Vec<String> = paths.filter(|path| seen.insert(*path)).map(|path| quote(path)).collect();
    let mut text = format!("{}:", quote(&directives.config.output));
    for file in &files {
        let _ = write!(text, " \\\n  {file}");
    }
    text.push('\n');
    for file in &files {
        let _ = write!(text, "\n{file}:\n");
    }
    text
}

/// A path as make reads it: blanks and `#` after a backslash, `$` doubled.
fn quote(path: &Path) -> String {
    let mut quoted = String::new();
    for character in path.to_string_lossy().chars() {
        match character {
            ' ' | '\t' | '#' => quoted.push('\\'),
            '$' => quoted.push('$'),
            _ => {}
        }
        quoted.push(character);
    }
    quoted
}

#[cfg(test)]
mod tests {
    #[test]
    fn paths_are_quoted_for_make() {
        assert_eq!(super::quote("a b/$c#.o".as_ref()), "a\\ b/$$c\\#.o");
    }
}
