//! Writes the result of a reduction for a bug report: objects, assembly, the command, and the linkers that
//! show the goal.

use super::assembly;
use super::state::State;
use super::tester::{Tester, describe};
use crate::cases::{Case, CaseFile, FILE, build};
use crate::model::Object;
use crate::peers::Linker;
use crate::run;
use anyhow::{Context, Result};
use diagnostics::words::count;
use std::fmt::Write;
use std::path::Path;

/// Writes the folder and returns a summary.
///
/// # Errors
/// The folder cannot be written.
pub fn write(
    state: &State,
    tester: &Tester<'_>,
    before: &str,
    seconds: f64,
    folder: &Path,
) -> Result<String> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let case = state.case(folder, true)?;
    let file = CaseFile {
        name: Some(state.name.clone()),
        machine: Some(state.machine),
        build: Vec::new(),
        steps: case.steps.clone(),
    };
    std::fs::write(folder.join(FILE), serde_json::to_string_pretty(&file)? + "\n")?;
    let mut objects: Vec<(String, usize)> = Vec::new();
    let mut sources = Vec::new();
    for input in state.inputs() {
        objects.push((input.name.clone(), input.bytes().len()));
        if let Some(object) = &input.object {
            sources.push(assemble(&input.name, object, state, folder)?);
        }
    }
    let assembled = sources.iter().all(|(_, unnamed)| *unnamed == 0)
        && from_assembly(&case, &sources, state, tester, folder);
    write_script(&case, folder)?;
    let runs = runs(&case, tester)?;
    let words: Vec<&str> = case.arguments().iter().map(String::as_str).collect();
    let mut readme = format!(
        "# {}, reduced\n\nShows {}, with\n\n    {} {} -o {}\n\n{before} were reduced in {seconds:.1} s by {} links to:\n\n| object | bytes |\n|---|---|\n",
        state.name,
        describe(&tester.wish),
        tester.linkers[0].name,
        words.join(" "),
        case.steps.last().map_or("out", |step| &step.output),
        tester.tests
    );
    for (name, size) in &objects {
        let _ = writeln!(readme, "| {name} | {size} |");
    }
    let _ = writeln!(
        readme,
        "\n`./repro.sh LINKER` runs it with any linker. The `.s` files say the same as the objects{}.\n\n## Linkers\n",
        if assembled { "; assembled, they show it too" } else { ", as far as assembly can" }
    );
    for (linker, shown, said) in &runs {
        let _ = writeln!(
            readme,
            "- **{}** ({}): {}\n\n{}",
            linker.name,
            linker.version,
            if *shown { "shows it" } else { "does not show it" },
            indented(said)
        );
    }
    std::fs::write(folder.join("README.md"), &readme)?;
    let who: Vec<&str> =
        runs.iter().filter(|(_, shown, _)| *shown).map(|(linker, ..)| linker.name.as_str()).collect();
    let sizes: Vec<String> =
        objects.iter().map(|(name, size)| format!("{name} ({})", count(*size as u64, "byte"))).collect();
    Ok(format!(
        "{before} reduced in {seconds:.1} s by {} to {}\nshown by: {}\nwritten to {}\n",
        count(tester.tests as u64, "link"),
        if sizes.is_empty() { "options alone".into() } else { sizes.join(", ") },
        who.join(", "),
        folder.display()
    ))
}

fn indented(said: &str) -> String {
    let mut text = String::new();
    for line in said.lines().take(12) {
        let _ = writeln!(text, "      {line}");
    }
    text
}

fn assemble(name: &str, object: &Object, state: &State, folder: &Path) -> Result<(String, usize)> {
    let (text, unnamed) = assembly::write(object, state.machine);
    let source = format!("{}.s", name.trim_end_matches(".o"));
    std::fs::write(folder.join(&source), text)?;
    Ok((source, unnamed))
}

/// Whether the assembly form shows the goal too; this needs an assembler.
fn from_assembly(
    case: &Case,
    sources: &[(String, usize)],
    state: &State,
    tester: &Tester<'_>,
    folder: &Path,
) -> bool {
    let Ok(place) = tempfile::tempdir() else { return false };
    for input in state.inputs() {
        let source =
            sources.iter().find(|(name, _)| name.trim_end_matches(".s") == input.name.trim_end_matches(".o"));
        let Some((source, _)) = source else { return false };
        let from = std::path::absolute(folder.join(source)).unwrap_or_default();
        let command = [state.machine.tool("as"), "-o".into(), input.name.clone(), from.display().to_string()];
        if build(&command, place.path()).is_err() {
            return false;
        }
    }
    // The written folder contains the other files of the case.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let target = place.path().join(entry.file_name());
        if entry.path().is_file() && !target.exists() && std::fs::copy(entry.path(), target).is_err() {
            return false;
        }
    }
    let case = Case { folder: place.path().to_owned(), ..case.clone() };
    tester.shows(&case, &tester.linkers).unwrap_or(false)
}

fn write_script(case: &Case, folder: &Path) -> Result<()> {
    let mut script = String::from(
        "#!/bin/sh\n# Runs the link with the linker that is named, ld if none is.\nset -e\ncd \"$(dirname \"$0\")\"\nout=$(mktemp -d)\ntrap 'rm -rf \"$out\"' EXIT\n",
    );
    for (number, step) in case.steps.iter().enumerate() {
        let words: Vec<String> = step
            .arguments
            .iter()
            .map(|word| {
                if case.steps[..number].iter().any(|earlier| earlier.output == *word) {
                    format!("\"$out/{word}\"")
                } else {
                    shell_word(word)
                }
            })
            .collect();
        let _ = writeln!(script, "\"${{1:-ld}}\" {} -o \"$out/{}\"", words.join(" "), step.output);
    }
    let path = folder.join("repro.sh");
    std::fs::write(&path, script)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode)?;
    Ok(())
}

fn shell_word(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=./,:+@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The result of every linker that exists on this machine.
fn runs(case: &Case, tester: &Tester<'_>) -> Result<Vec<(Linker, bool, String)>> {
    let mut linkers = tester.linkers.clone();
    linkers.extend(
        tester
            .all
            .iter()
            .filter(|linker| !tester.linkers.iter().any(|l| l.version == linker.version))
            .cloned(),
    );
    let mut runs = Vec::new();
    for linker in linkers {
        let run = run::run(&linker, case, tester.limits)?;
        let shown = tester.shows(case, std::slice::from_ref(&linker))?;
        let said = run.messages.replace(&run.folder.path().display().to_string(), "OUT");
        runs.push((linker, shown, format!("{}\n{said}", run.status)));
    }
    Ok(runs)
}
