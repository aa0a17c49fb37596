//! Compares `docs/options.md` with the `--help` of the linkers whose options it lists.

use crate::support::machine::{AARCH64, S390X, X86_64};
use crate::support::tools;
use std::collections::BTreeMap;
use std::process::Command;

/// The emulations of this linker. GNU ld's help has a part for each emulation that it knows.
const EMULATIONS: &[&str] =
    &["elf_x86_64", "aarch64linux", "aarch64elf", "elf64_s390", "elf_x86_64_fbsd", "aarch64fbsd"];

/// The rows of the page: names as the page has them, and the peers that have the option.
fn page() -> BTreeMap<String, String> {
    let page = include_str!("../../docs/options.md");
    let cells = page.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), rest.split('|').next()?.trim().to_owned()))
    });
    cells.collect()
}

/// The options in a help text, in the page's form.
fn options_of(help: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut counts = true;
    for line in help.lines() {
        if let Some(emulation) = line.trim_end().strip_suffix(':').filter(|name| !name.contains(' ')) {
            counts = EMULATIONS.contains(&emulation) || emulation == "Options" || emulation == "OPTIONS";
        } else if line.starts_with("ELF emulations") {
            counts = true;
        }
        let usage = line.trim_start();
        // Explanations stand further to the right than options.
        if !counts || !usage.starts_with('-') || line.len() - usage.len() > 6 || line == usage {
            continue;
        }
        let usage = usage.split("  ").next().unwrap_or_default();
        if let Some(word) = usage.strip_prefix("-z ") {
            found.extend(words(word));
            continue;
        }
        let parts = usage.split(", ").filter(|part| part.starts_with('-'));
        found.extend(parts.map(|part| dashed(name_of(part.trim_start_matches('-')))));
    }
    found.retain(|name| !name.trim_start_matches('-').is_empty());
    found
}

/// `NAME` of `NAME=VALUE`, `NAME VALUE` and `NAME[=VALUE]`.
fn name_of(text: &str) -> &str {
    text.split(['=', ' ', '[', '<']).next().unwrap_or_default()
}

fn dashed(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

/// The words in a line about `-z`.
fn words(text: &str) -> Vec<String> {
    if text.starts_with('<') {
        return Vec::new();
    }
    let levels = ["baseline", "v2", "v3", "v4"];
    let word = text.split(' ').next().unwrap_or_default();
    match word.split_once('{') {
        Some((start, _)) => levels.iter().map(|level| format!("-z {start}{level}")).collect(),
        None => vec![format!("-z {}", name_of(word))],
    }
}

/// Checks that the page lists every option in a linker's help, and says that this linker has it.
fn compare(peer: &str, linker: &std::path::Path) {
    let output = Command::new(linker).arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout);
    let options = options_of(&help);
    assert!(options.len() > 100, "{peer}: only {} options in its help", options.len());
    let page = page();
    let listed = |name: &String| {
        let family = || {
            page.iter()
                .find(|(row, _)| row.strip_suffix('*').is_some_and(|it| format!("{name}=").starts_with(it)))
        };
        let peers = page.get(name).or_else(|| family().map(|(_, peers)| peers));
        peers.is_some_and(|peers| peers.split(", ").any(|it| it == peer))
    };
    let missing: Vec<_> = options.iter().filter(|name| !listed(name)).collect();
    assert!(
        missing.is_empty(),
        "docs/options.md does not say that {peer} has {missing:?}: give each a row in crates/linker-options/src/table \
         (refused.rs, if it stays out), write the page again, and name {peer} in its second column"
    );
}

#[test]
fn every_option_of_gnu_ld_is_in_the_page() {
    for machine in [&X86_64, &AARCH64, &S390X] {
        match machine.gnu_lds().pop() {
            Some(newest) => compare("ld", &newest.path),
            None => tools::skip("option_page::gnu_ld", &format!("no GNU ld for {}", machine.name)),
        }
    }
}

#[test]
fn every_option_of_lld_is_in_the_page() {
    match tools::peer_linker("lld") {
        Ok(linker) => compare("lld", &linker),
        Err(reason) => tools::skip("option_page::lld", &reason),
    }
}

#[test]
fn every_option_of_mold_is_in_the_page() {
    match tools::peer_linker("mold") {
        Ok(linker) => compare("mold", &linker),
        Err(reason) => tools::skip("option_page::mold", &reason),
    }
}
