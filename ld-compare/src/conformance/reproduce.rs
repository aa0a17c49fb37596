//! Writes a case into a folder: its inputs, its commands as a script, and what must hold.

use super::case::{Case, Kind};
use super::tools::words;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes inputs, `repro.sh` and `README.md`.
///
/// # Errors
/// A file cannot be written.
pub fn write(case: &Case, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, bytes) in &case.files {
        std::fs::write(folder.join(name), bytes)?;
    }
    let script = folder.join("repro.sh");
    std::fs::write(&script, commands(case))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    std::fs::write(folder.join("README.md"), facts(case))
        .with_context(|| format!("cannot write into {}", folder.display()))
}

/// The variable that names the tool, and what it is without one.
fn variable(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Assembler => ("AS", "as"),
        Kind::Linker => ("LD", "ld"),
        Kind::Reader => ("READER", "readelf --sframe"),
    }
}

fn commands(case: &Case) -> String {
    let (name, usual) = variable(case.kind);
    let mut text = format!("#!/bin/sh -e\n# {}\n# {}\n", case.name(), case.about);
    let _ = writeln!(text, "cd \"$(dirname \"$0\")\"\n: \"${{{name}:={usual}}}\"");
    for step in &case.steps {
        let words = words(&[], case, step);
        let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
        let _ = writeln!(text, "${name} {}", quoted.join(" "));
    }
    text
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+,:".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn facts(case: &Case) -> String {
    let (name, _) = variable(case.kind);
    let mut text = format!("# {}\n\n{}.\n\n", case.name(), case.about);
    let _ = writeln!(text, "`repro.sh` runs it; `{name}=COMMAND` chooses the tool. Then this must hold:\n");
    for fact in &case.facts {
        let _ = writeln!(text, "- **{}**: {} ({}).", fact.id, fact.says, fact.source);
    }
    let option = case.kind.name();
    let _ = writeln!(
        text,
        "\n`ld-compare conformance --{option} COMMAND --case {}` runs it and looks.",
        quote(&case.name())
    );
    text
}
