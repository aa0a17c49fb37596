//! Proves that newcomers can follow CONTRIBUTING.md: each of its first changes is applied to a copy of the
//! sources as the page has it, and the commands below it succeed. Only the page says what to do.

use super::proof::Proof;
use crate::commands::output;
use crate::folders::{copy_to, tracked, workspace};
use crate::peers;
use crate::records::Measured;
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A change on the page: its heading, the diff, and the commands that test it.
struct Change<'a> {
    title: &'a str,
    diff: &'a str,
    commands: &'a str,
}

/// The changes on a page: the sections of the third level that have a diff.
fn changes(page: &str) -> Vec<Change<'_>> {
    page.split("\n### ").skip(1).filter_map(change).collect()
}

fn change(section: &str) -> Option<Change<'_>> {
    let block = |kind: &str| {
        let (_, rest) = section.split_once(&format!("\n```{kind}\n"))?;
        Some(&rest[..=rest.find("\n```")?])
    };
    Some(Change { title: section.lines().next()?, diff: block("diff")?, commands: block("sh")? })
}

pub fn newcomers(proof: &mut Proof) -> Result<()> {
    let copy = proof.folder.join("src");
    copy_sources(&copy)?;
    let page = std::fs::read_to_string(copy.join("CONTRIBUTING.md"))?;
    proof.note(
        "| change | lines | seconds | commands, each with what it says at last |\n|---|---:|---:|---|",
    )?;
    for change in changes(&page) {
        apply(&copy, change.diff, &[])?;
        let begin = Instant::now();
        let commands =
            change.commands.lines().map(|line| Ok(format!("`{line}`: {}", test(proof, &copy, line)?)));
        let commands = commands.collect::<Result<Vec<_>>>().with_context(|| change.title.to_owned())?;
        let seconds = Measured(begin.elapsed().as_secs_f64());
        proof.note(format!(
            "| {} | {} | {seconds:.0} | {} |",
            change.title,
            lines(change.diff),
            commands.join("; ")
        ))?;
        apply(&copy, change.diff, &["--reverse"])?;
    }
    Ok(())
}

/// Copies the project's files as they are now, with their times, so that the build of an earlier copy is not
/// repeated.
fn copy_sources(to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    for name in tracked(&["."])? {
        let from = workspace().join(&name);
        if from.is_file() {
            copy_to(&name, to)?;
            let time = std::fs::metadata(&from)?.modified()?;
            std::fs::File::options().write(true).open(to.join(&name))?.set_modified(time)?;
        }
    }
    Ok(())
}

/// Applies a diff as the page says.
fn apply(folder: &Path, diff: &str, options: &[&str]) -> Result<()> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["apply", "--recount", "--unidiff-zero"]).args(options);
    // The folder may lie inside a work tree; git would then apply the diff to that tree.
    command.env("GIT_CEILING_DIRECTORIES", folder.parent().context("a folder of its own")?);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start git")?;
    child.stdin.take().context("a pipe")?.write_all(diff.as_bytes())?;
    let ended = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "CONTRIBUTING.md, a diff does not apply:\n{said}\n{diff}");
    Ok(())
}

/// Runs a command of the page. Returns the counts at the end of the tests; some tests must have run.
fn test(proof: &Proof, copy: &Path, line: &str) -> Result<String> {
    let mut command = Command::new("sh");
    command.current_dir(copy).args(["-ec", line]).env("CARGO_TARGET_DIR", proof.folder.join("target"));
    command.env("SFRAME_PEERS", peers::folder().canonicalize()?).env("SFRAME_TESTS_REQUIRE_ALL", "1");
    let text = output(&mut command).with_context(|| line.to_owned())?;
    let counts = text.lines().rev().find(|line| line.contains(" passed; ") || line.contains(" PASS"));
    let counts = counts.with_context(|| format!("{line} ran no test:\n{text}"))?;
    // The time comes after the counts.
    let counts = counts.split("; 0 ignored").next().unwrap_or(counts);
    ensure!(!counts.contains(" 0 passed"), "{line} ran no test:\n{text}");
    Ok(counts.to_owned())
}

/// The number of lines that a diff adds or removes.
fn lines(diff: &str) -> usize {
    let is_changed =
        |line: &&str| line.starts_with(['+', '-']) && !line.starts_with("+++ ") && !line.starts_with("--- ");
    diff.lines().filter(is_changed).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only checks that the diffs apply. The proof also compiles and tests the changes.
    #[test]
    fn the_diffs_of_contributing_apply() {
        let page = std::fs::read_to_string(workspace().join("CONTRIBUTING.md")).unwrap();
        let changes = changes(&page);
        let titles: Vec<&str> = changes.iter().map(|change| change.title).collect();
        assert!(titles.len() >= 3, "{titles:?}");
        for change in changes {
            assert!(change.commands.contains("cargo test"), "{}", change.title);
            let copy = tempfile::tempdir().unwrap();
            let folder = copy.path().join("src");
            for line in change.diff.lines() {
                let name = line.strip_prefix("--- a/");
                name.into_iter().for_each(|name| copy_to(Path::new(name), &folder).unwrap());
            }
            std::fs::create_dir_all(&folder).unwrap();
            apply(&folder, change.diff, &[]).unwrap();
        }
    }
}
