//! LLVM's commands that tests use. They are other names of the program that runs the tests.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A command. It takes its arguments and returns its exit status.
pub type Tool = fn(Vec<OsString>) -> ExitCode;

const TOOLS: [(&str, Tool); 3] =
    [("FileCheck", crate::file_check::main), ("not", not), ("split-file", split_file)];

/// The tool with the name under which the program was called.
pub fn by_name(called: &Path) -> Option<Tool> {
    let name = called.file_name()?;
    TOOLS.iter().find(|(own, _)| name == *own).map(|(_, tool)| *tool)
}

/// Makes a folder with the tools, for `PATH`. Dropping the result removes the folder.
pub fn install(scratch: &Path) -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("lit-tools-").tempdir_in(scratch)?;
    let own = std::env::current_exe()?;
    for (name, _) in TOOLS {
        std::os::unix::fs::symlink(&own, folder.path().join(name)).context("cannot link to this program")?;
    }
    Ok(folder)
}

/// `not`: succeeds if the command fails. A crash is not an expected failure; exit status 101 means a panic.
fn not(arguments: Vec<OsString>) -> ExitCode {
    let Some((program, words)) = arguments.split_first() else {
        eprintln!("not: no command");
        return ExitCode::FAILURE;
    };
    match Command::new(program).args(words).status() {
        Err(error) => {
            eprintln!("not: {}: {error}", program.display());
            ExitCode::FAILURE
        }
        Ok(status) if matches!(status.code(), Some(code) if code != 0 && code != 101) => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("not: {}: {status}", program.display());
            ExitCode::FAILURE
        }
    }
}

/// `split-file FILE FOLDER`: writes the parts that lines such as `#--- NAME` begin into files. As in LLVM's
/// program, only `--leading-lines` puts an empty line in front of a part's text for each line of earlier
/// parts.
fn split_file(arguments: Vec<OsString>) -> ExitCode {
    let words: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
    let result = match &words[..] {
        [file, folder] => split(file, folder, false),
        [flag, file, folder] if flag.as_os_str() == "--leading-lines" => split(file, folder, true),
        _ => Err(anyhow::anyhow!("expected FILE FOLDER")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("split-file: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Start of a line that begins a part, and the part's name: a comment sign of at most three characters, then
/// `--- `.
fn part_name(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?;
    let at = line.find("--- ").filter(|at| *at <= 3)?;
    let sign = line[..at].chars().all(|c| !c.is_alphanumeric() && !c.is_whitespace() && c != '-');
    let name = line[at + 4..].trim();
    (sign && !name.is_empty()).then_some(name)
}

fn split(file: &Path, folder: &Path, leading_lines: bool) -> Result<()> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut parts: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if let Some(name) = part_name(line) {
            let path = folder.join(name);
            if parts.iter().any(|(other, _)| *other == path) {
                bail!("{}:{}: a second part {name}", file.display(), number + 1);
            }
            parts.push((path, if leading_lines { vec![b'\n'; number + 1] } else { Vec::new() }));
        } else if let Some((_, text)) = parts.last_mut() {
            text.extend_from_slice(line);
        }
    }
    if parts.is_empty() {
        bail!("{}: no line such as `#--- NAME`", file.display());
    }
    for (path, text) in parts {
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_split_at_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test");
        std::fs::write(&file, "# RUN\n#--- a/b.s\none\ntwo\n//--- c\nthree\n").unwrap();
        split(&file, &folder.path().join("out"), false).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
        assert_eq!((read("a/b.s").as_str(), read("c").as_str()), ("one\ntwo\n", "three\n"));
    }

    #[test]
    fn only_a_sign_may_stand_before_the_dashes() {
        assert_eq!(part_name(b"--- a\n"), Some("a"));
        assert_eq!(part_name(b"#--- a.ld\n"), Some("a.ld"));
        assert_eq!(part_name(b"# text --- a\n"), None);
        assert_eq!(part_name(b"#----- a\n"), None);
    }
}
