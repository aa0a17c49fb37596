//! `--dependency-file`: a rule for make with all input files.

use crate::phase::Directives;
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The rule, and an empty rule for each file. Without the empty rules, make would stop when a file is gone.
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

/// Quotes a path for make, byte by byte, because a name need not be UTF-8. Blanks and `#` get a backslash,
/// backslashes before these are doubled, and `$` is doubled. Make cannot express a newline, so the path shows
/// it as `\n`. No such file exists, so make remakes the target each time, but it still reads the lines that
/// follow.
fn quote(path: &Path) -> Vec<u8> {
    let mut quoted = Vec::new();
    let mut backslashes = 0;
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'#' => quoted.extend(std::iter::repeat_n(b'\\', backslashes + 1)),
            b'$' => quoted.push(b'$'),
            b'\n' => {
                quoted.extend(b"\\n");
                continue;
            }
            _ => {}
        }
        backslashes = if byte == b'\\' { backslashes + 1 } else { 0 };
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
        let path = std::ffi::OsStr::from_bytes(b"a\nb\\c\\ d\x1b.o");
        assert_eq!(super::quote(path.as_ref()), b"a\\nb\\c\\\\\\ d\x1b.o");
    }
}
