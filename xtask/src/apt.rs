//! Uses the system's package client without installing anything: it downloads packages by name, with a state
//! of its own, and unpacks them into a folder.
//!
//! A named suite is resolved as if nothing were installed, so its packages come with all their libraries. For
//! the machine's own suite, gcc and g++ with their dependencies count as installed, and nothing else does,
//! whatever the machine has. So every machine fetches the same packages.

use crate::commands::output;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that a machine must have for this project. They and their dependencies count as installed.
const GIVEN: [&str; 4] = ["gcc", "g++", "libc6", "libc6-dev"];
/// dpkg's list of installed packages.
const STATUS: &str = "/var/lib/dpkg/status";

/// The mirror of the distribution that apt is configured with.
pub fn mirror() -> Result<String> {
    let words = ["indextargets", "--format", "$(REPO_URI)", "Identifier: Packages"];
    let text = output(Command::new("apt-get").args(words))?;
    let found = text.lines().find(|l| l.trim_end_matches('/').ends_with("/debian"));
    found.map(str::to_owned).context("apt's configuration names no Debian mirror")
}

/// The options that give apt a state of its own. With `sources`, nothing counts as installed. Without
/// `sources`, apt uses the machine's sources, and the packages of [`GIVEN`] count as installed.
pub fn options(view: &Path, sources: Option<&str>) -> Result<Vec<String>> {
    for folder in ["lists/partial", "cache/archives/partial", "state"] {
        std::fs::create_dir_all(view.join(folder))?;
    }
    let at = |name: &str| view.join(name).display().to_string();
    let mut options = vec![
        format!("Dir::State={}", at("state")),
        format!("Dir::State::Lists={}", at("lists")),
        format!("Dir::State::status={}", at("status")),
        format!("Dir::Cache={}", at("cache")),
        "Acquire::Languages=none".into(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".into(),
        "APT::Sandbox::User=root".into(),
        "Debug::NoLocking=1".into(),
    ];
    match sources {
        Some(text) => {
            std::fs::write(view.join("sources.list"), text)?;
            std::fs::write(view.join("status"), "")?;
            options.push(format!("Dir::Etc::sourcelist={}", at("sources.list")));
            options.push("Dir::Etc::sourceparts=-".into());
        }
        None => {
            let installed =
                std::fs::read_to_string(STATUS).with_context(|| format!("cannot read {STATUS}"))?;
            std::fs::write(view.join("status"), given(&installed))?;
        }
    }
    Ok(options)
}

/// dpkg's entries for the packages of [`GIVEN`] and for everything that they depend on.
fn given(status: &str) -> String {
    let field = |paragraph: &str, name: &str| {
        let mut lines = paragraph.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
            .unwrap_or_default()
    };
    // Only the names: dpkg has installed the packages together, so their versions fit.
    let names = |list: String| -> Vec<String> {
        let words =
            list.split([',', '|']).filter_map(|one| one.split([' ', '(', ':']).find(|word| !word.is_empty()));
        words.map(str::to_owned).collect()
    };
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let paragraphs: Vec<&str> = status.split("\n\n").collect();
    for (index, paragraph) in paragraphs.iter().enumerate() {
        if field(paragraph, "Status").ends_with(" installed") {
            let called = [vec![field(paragraph, "Package")], names(field(paragraph, "Provides"))].concat();
            called.into_iter().for_each(|name| by_name.entry(name).or_default().push(index));
        }
    }
    let mut open: Vec<String> = GIVEN.map(str::to_owned).into();
    let mut taken = BTreeSet::new();
    while let Some(name) = open.pop() {
        for index in by_name.get(&name).into_iter().flatten().filter(|index| taken.insert(**index)) {
            open.extend(
                ["Depends", "Pre-Depends"]
                    .into_iter()
                    .flat_map(|kind| names(field(paragraphs[*index], kind))),
            );
        }
    }
    taken.into_iter().map(|index| format!("{}\n\n", paragraphs[index].trim())).collect()
}

/// Downloads packages with their dependencies, and unpacks the new ones into the root.
pub fn fetch_and_unpack(view: &Path, options: &[String], packages: &[&str], root: &Path) -> Result<()> {
    let mut words = vec!["install", "-qq", "-y", "--no-install-recommends", "--download-only"];
    words.extend(packages);
    download(view, options, &words, view)?;
    std::fs::create_dir_all(root)?;
    for entry in std::fs::read_dir(view.join("cache/archives"))? {
        let package = entry?.path();
        let mark = package.with_extension("unpacked");
        if package.extension().is_some_and(|e| e == "deb") && !mark.exists() {
            output(Command::new("dpkg").arg("-x").arg(&package).arg(root))?;
            std::fs::write(mark, "")?;
        }
    }
    Ok(())
}

/// Downloads a package without its dependencies. Returns its file.
pub fn fetch_alone(view: &Path, options: &[String], package: &str) -> Result<PathBuf> {
    let archives = view.join("cache/archives");
    std::fs::create_dir_all(&archives)?;
    download(view, options, &["download", "-qq", package], &archives)?;
    let mut files = std::fs::read_dir(&archives)?.filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|file| file.extension().is_some_and(|e| e == "deb")).context("apt-get has downloaded nothing")
}

/// The versions of a package's source, as the lists of packages order them.
pub fn source_versions(view: &Path, options: &[String], package: &str) -> Result<Vec<String>> {
    download(view, options, &["source", "-qq", "--print-uris", package], view)?;
    let mut command = Command::new("apt-cache");
    for option in options {
        command.args(["-o", option]);
    }
    let said = output(command.args(["showsrc", package]))?;
    Ok(said.lines().filter_map(|line| line.strip_prefix("Version: ")).map(str::to_owned).collect())
}

/// Downloads the source of a package as its authors released it, and unpacks it into the folder, without the
/// folder that encloses everything in the archive; only files that fit a pattern of `parts`, if there are
/// any. The view's sources are `deb-src` lines.
pub fn fetch_source(
    view: &Path,
    options: &[String],
    package: &str,
    folder: &Path,
    parts: &[&str],
) -> Result<()> {
    let archives = view.join("cache/archives");
    let _ = std::fs::remove_dir_all(&archives);
    std::fs::create_dir_all(&archives)?;
    download(view, options, &["source", "-qq", "--tar-only", "--download-only", package], &archives)?;
    let archive = std::fs::read_dir(&archives)?.next().context("apt-get has downloaded nothing")??.path();
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(folder).args(["--strip-components=1", "--no-same-owner"]);
    output(tar.arg("--wildcards").args(parts)).map(drop)
}

/// Runs apt-get in a folder with these arguments, which download something. It fetches the lists of packages
/// if there are none, and again if the download fails.
fn download(view: &Path, options: &[String], words: &[&str], folder: &Path) -> Result<()> {
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").current_dir(folder);
        for option in options {
            command.args(["-o", option]);
        }
        command.args(words);
        output(&mut command)
    };
    let marker = view.join("updated");
    if !marker.exists() || apt(words).is_err() {
        // Suites move on: some day, a package that an old list names is gone.
        apt(&["update", "-qq"])?;
        std::fs::write(&marker, "")?;
        apt(words)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::given;

    #[test]
    fn only_the_compiler_and_what_it_needs_count_as_installed() {
        let status = "Package: gcc\nStatus: install ok installed\nDepends: cpp (>= 1), libx:any | liby\n\n\
                      Package: cpp\nStatus: install ok installed\nPre-Depends: liby\n\n\
                      Package: real\nStatus: install ok installed\nProvides: libx (= 2)\n\n\
                      Package: liby\nStatus: deinstall ok config-files\n\n\
                      Package: clang\nStatus: install ok installed\nDepends: gcc\n";
        let text = given(status);
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Package: ")).collect();
        assert_eq!(names, ["gcc", "cpp", "real"]);
    }
}
