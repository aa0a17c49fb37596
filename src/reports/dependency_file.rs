//! `--dependency-file`: all input files, as a rule for make.

use crate::phase::Directives;
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The rule, and an empty rule for each file, so that make does not stop when one is gone.
pub fn rule(directives: &Directives<'_>, inputs: &[PathBuf]) -> Vec<u8> {
    let mut seen = HashSet::new();
    let paths = inputs.iter().chain(&directives.script_paths);
    let files: Vec<Vec<u8>> = paths.filter(|path| seen.insert(*path)).map(|path| quote(path)).collect();
    let mut text = [&quote(&directives.config.output)[..], b":"].concat();
    for file in &files {
        text.extend([b" \\\n  ", &file[..]].concat());
    }
    text.push(b'\n');
    for file in &files {
        text.extend([b"\n", &file[..], b":\n"].concat());
    }
    text
}

/// A path as make reads it, byte for byte, because a name need not be UTF-8: blanks and `#` after a backslash, `$` doubled.
fn quote(path: &Path) -> Vec<u8> {
    let mut quoted = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'#' => quoted.push(b'\\'),
            b'$' => quoted.push(b'$'),
            _ => {}
        }
        quoted.push(byte);
    }
    quoted
}

#[cfg(test)]
mod tests {
    #[test]
    fn paths_are_quoted_for_make() {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::OsStr::from_bytes(b"a b/$c#\xe9.o");
        assert_eq!(super::quote(path.as_ref()), b"a\\ b/$$c\\#\xe9.o");
    }
}
