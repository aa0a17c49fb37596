//! Collects the licences of the crates that the programs contain, from the crates' packages.

use crate::commands;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// How the names of files with the text of a licence start.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "UNLICENSE", "NOTICE"];
/// The members of the workspace that are in the package.
const MEMBERS: [&str; 7] =
    ["sframe-ld", "sframe", "ld-compare", "sframe-unwind", "sframe-stacks", "sframe-run", "sframe-split"];

/// A crate that the programs contain.
pub struct Crate {
    pub name: String,
    pub version: String,
    /// The licence in its manifest.
    pub licence: String,
    repository: String,
    folder: std::path::PathBuf,
}

/// Writes the texts, in a folder for each crate, and a list.
pub fn write(folder: &Path) -> Result<()> {
    let mut list = String::from("Libraries that the programs contain, with their licences.\n\n");
    for item in crates()? {
        writeln!(list, "{} {}: {} {}", item.name, item.version, item.licence, item.repository)?;
        let to = folder.join(format!("{}-{}", item.name, item.version));
        for entry in std::fs::read_dir(&item.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_uppercase();
            if NAMES.iter().any(|start| name.starts_with(start)) && entry.file_type()?.is_file() {
                std::fs::create_dir_all(&to)?;
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
    }
    std::fs::create_dir_all(folder)?;
    Ok(std::fs::write(folder.join("list.txt"), list)?)
}

/// The crates of other projects in the programs: the normal dependencies for this machine, sorted.
pub fn crates() -> Result<Vec<Crate>> {
    let host = commands::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let mut command = Command::new("cargo");
    command.current_dir(crate::folders::workspace());
    let text = commands::output(command.args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        host.trim(),
    ]))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (string(&package["id"]), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (string(&node["id"]), node)).collect();
    let mut open: Vec<String> =
        packages.iter().filter(|(_, it)| is_member(it)).map(|(id, _)| id.clone()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        for dependency in list(&nodes.get(&id).context("no such crate")?["deps"]) {
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                open.push(string(&dependency["pkg"]));
            }
        }
    }
    let of_others =
        seen.iter().filter_map(|id| packages.get(id)).filter(|package| package["source"].is_string());
    let mut crates = Vec::new();
    for package in of_others {
        let manifest = string(&package["manifest_path"]);
        crates.push(Crate {
            name: string(&package["name"]),
            version: string(&package["version"]),
            licence: string(&package["license"]),
            repository: string(&package["repository"]),
            folder: Path::new(&manifest).parent().context("no folder")?.to_owned(),
        });
    }
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(crates)
}

fn is_member(package: &Value) -> bool {
    package["source"].is_null() && MEMBERS.iter().any(|name| package["name"] == *name)
}
