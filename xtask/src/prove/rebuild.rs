//! Debian's source packages in a minimal root of the distribution, each built by its own `debian/rules` with its own tests,
//! first by GNU ld, then by this linker in the place of GNU ld, and held against each other.
//!
//! The distribution's linker is diverted; a script stands in its place, which both builds call, so that nothing but the
//! linker differs. A compiler cache makes the second build cheap: only links are made again. Every link of ours is made a
//! second time with derived frames and an index, and verified.
//!
//! A package that is done has a file, and is not built again; so the proof goes on where it was interrupted.

mod list;
mod row;

use super::bare;
use super::proof::{Proof, output};
use crate::install;
use crate::package::stripped;
use anyhow::{Context, Result, ensure};
use list::{SOURCES, Source};
use row::{File, Row, Side, Tests};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Packages of the root beside those of every bare root.
const PACKAGES: [&str; 5] = ["build-essential", "debhelper", "ccache", "fakeroot", "passwd"];
/// Longest time for a build, in seconds.
const LIMIT: u32 = 3 * 3600;

/// Builds a package by `debian/rules` as a user without rights. `build-arch` runs the tests and makes no documents.
const BUILD: &str = r#"
set -e
name=$1
rm -rf /build/tree
mkdir -p /build/tree
cd /build/source/"$name"
dpkg-source --no-check -x ./*.dsc /build/tree/"$name" >/dev/null
chown -R builder /build/tree
cd /build/tree/"$name"
status=0
timeout --kill-after=60 LIMIT setpriv --reuid builder --regid builder --clear-groups env \
    PATH=/usr/lib/ccache:/usr/bin:/bin CCACHE_DIR=/build/ccache CCACHE_NOHASHDIR=1 HOME=/nonexistent \
    DEB_BUILD_OPTIONS='parallel=1 nostrip' DEB_BUILD_PROFILES=nodoc \
    dpkg-buildpackage -us -uc -d -rfakeroot --target=build-arch >/build/log 2>&1 </dev/null || status=$?
echo $status
"#;

/// Builds the packages of these names, all if there is none, and records all that were ever built here.
pub fn rebuild(proof: &mut Proof, sframe: &Path, names: &[String]) -> Result<()> {
    for name in names {
        ensure!(SOURCES.iter().any(|source| source.name == *name), "{name} is not in the list");
    }
    let root = prepare(proof, sframe)?;
    for source in &SOURCES {
        let wanted = names.is_empty() || names.iter().any(|name| name == source.name);
        if wanted && !row_file(proof, source).exists() {
            let row = package(proof, &root, source).with_context(|| source.name)?;
            println!("{}", row.show(source));
            std::fs::write(row_file(proof, source), serde_json::to_string(&row)?)?;
        }
    }
    record(proof)
}

fn row_file(proof: &Proof, source: &Source) -> PathBuf {
    proof.folder.join("rows").join(format!("{}.json", source.name))
}

/// Makes the root, or takes the one that is there, with today's programs.
fn prepare(proof: &Proof, sframe: &Path) -> Result<PathBuf> {
    let root = proof.folder.join("root");
    let place = root.join("opt/linker");
    for name in ["rows", "logs"] {
        std::fs::create_dir_all(proof.folder.join(name))?;
    }
    if !place.join("ready").exists() {
        bare::make_root(proof, &root)?;
        bare::sources(&root)?;
        bare::add(&root, &PACKAGES)?;
        std::fs::create_dir_all(place.join("second"))?;
        std::fs::write(place.join("ld"), include_str!("rebuild/ld.sh"))?;
        bare::enter(
            &root,
            &[
                "sh",
                "-ec",
                "useradd --no-create-home builder; mkdir -p /build/source /build/ccache; chown builder /build/ccache\n\
                 linker=$(readlink -f /usr/bin/ld)\n\
                 dpkg-divert --local --rename --divert $linker.distrib --add $linker\n\
                 ln -sfn $linker.distrib /opt/linker/gnu; ln -sfn /opt/linker/ld $linker\n\
                 chmod 755 /opt/linker/ld; chmod 1777 /opt/linker/second; touch /opt/linker/ready",
            ],
        )?;
    }
    for (from, name) in [(proof.prefix.join("ld"), "sframe-ld"), (sframe.to_owned(), "sframe")] {
        let _ = std::fs::remove_file(place.join(name));
        std::fs::copy(&from, place.join(name)).with_context(|| from.display().to_string())?;
    }
    Ok(root)
}

/// Builds a package twice. Its files are removed, its logs kept.
fn package(proof: &Proof, root: &Path, source: &Source) -> Result<Row> {
    let name = source.name;
    let folder = format!("/build/source/{name}");
    let fetch = format!(
        "set -e; export DEBIAN_FRONTEND=noninteractive DEB_BUILD_PROFILES=nodoc; rm -rf {folder}; mkdir -p {folder}; cd {folder}\n\
         apt-get source -qq --download-only {name}\n\
         apt-get build-dep -qq -y --no-install-recommends --arch-only {name} >/build/log 2>&1\n\
         apt-get clean; chown -R builder {folder}"
    );
    bare::enter(root, &["sh", "-c", &fetch]).context("its source or what its build depends on")?;
    let version = bare::enter(root, &["sh", "-c", &format!("sed -n 's/^Version: //p' {folder}/*.dsc")])?;
    let gnu = build(proof, root, name, "gnu")?;
    let ours = build(proof, root, name, "ours")?;
    for folder in ["build/source", "build/tree"] {
        let _ = std::fs::remove_dir_all(root.join(folder).join(name));
    }
    Ok(Row { version: version.trim().to_owned(), gnu, ours })
}

fn build(proof: &Proof, root: &Path, name: &str, mode: &str) -> Result<Side> {
    let place = root.join("opt/linker");
    std::fs::write(place.join("mode"), format!("{mode}\n"))?;
    let log = place.join("log");
    std::fs::write(&log, "")?;
    bare::enter(root, &["sh", "-c", "chmod 666 /opt/linker/log; rm -f /opt/linker/second/*"])?;
    let script = BUILD.replace("LIMIT", &LIMIT.to_string());
    let begin = SystemTime::now();
    let said = bare::enter(root, &["sh", "-c", &script, "sh", name])?;
    let built = std::fs::read(root.join("build/log"))?;
    std::fs::write(proof.folder.join("logs").join(format!("{name}-{mode}.log")), &built)?;
    std::fs::copy(&log, proof.folder.join("logs").join(format!("{name}-{mode}.links")))?;
    let text = String::from_utf8_lossy(&built);
    let status = said.trim().parse().with_context(|| format!("status {said:?}"))?;
    let mut side = Side { status, tests: Tests::count(&text), ..Side::default() };
    side.read_links(&String::from_utf8_lossy(&std::fs::read(&log)?), root);
    side.files = linked(root, name, begin)?;
    Ok(side)
}

/// The ELF files of 64 bits in a package's folder that its build made; those of its source are older.
fn linked(root: &Path, name: &str, begin: SystemTime) -> Result<BTreeMap<String, File>> {
    let tree = root.join("build/tree").join(name);
    let mut files = BTreeMap::new();
    for file in stripped::elf_files(&tree)? {
        let path = tree.join(&file);
        let data = std::fs::metadata(&path)?;
        if data.modified()? < begin || !is_64_bit(&path)? {
            continue;
        }
        let interface = interface(&path).with_context(|| file.display().to_string())?;
        let ours = install::made_here(&path).is_ok();
        files.insert(file.display().to_string(), File { bytes: data.len(), ours, interface });
    }
    Ok(files)
}

/// Whether an ELF file is of class `ELFCLASS64`. Some packages have libraries for 32 bits, too, which GNU ld links.
fn is_64_bit(path: &Path) -> Result<bool> {
    let mut start = [0; 5];
    std::fs::File::open(path)?.read_exact(&mut start)?;
    Ok(start[4] == 2)
}

/// What others see of a file: libraries, names, and exported symbols with their versions.
fn interface(path: &Path) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    let text = output(Command::new("readelf").arg("-dW").arg(path))?;
    for tag in ["NEEDED", "SONAME", "RPATH", "RUNPATH", "SYMBOLIC", "TEXTREL"] {
        let marked = format!("({tag})");
        let found = text.lines().filter_map(|line| line.split_once(&marked));
        lines.extend(
            found.map(|(_, value)| format!("{tag} {}", value.split_whitespace().last().unwrap_or_default())),
        );
    }
    let words = ["--dynamic", "--defined-only", "--with-symbol-versions", "--format=posix"];
    let symbols = Command::new("nm").args(words).arg(path).output()?;
    for line in String::from_utf8_lossy(&symbols.stdout).lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(kind)) = (words.next(), words.next()) {
            lines.insert(format!("{name} {kind}"));
        }
    }
    Ok(lines)
}

/// Writes what is known of every package that was ever built in this folder.
fn record(proof: &mut Proof) -> Result<()> {
    let mut rows = Vec::new();
    for source in &SOURCES {
        if let Ok(text) = std::fs::read_to_string(row_file(proof, source)) {
            rows.push((source, serde_json::from_str::<Row>(&text)?));
        }
    }
    proof.note(format!(
        "{} of {} packages were built, each by `dpkg-buildpackage --target=build-arch` with its own tests, first by GNU ld, then by sframe-ld \
         in its place. Links are those of the package, without what its configure tries; each of ours was made a second time with \
         `--sframe-from-eh-frame=all --sframe-index` and verified. The interface of a file is what it needs, its name and \
         run path, and every dynamic symbol that it defines, with kind and version. Seconds are of all processors together.\n",
        rows.len(),
        SOURCES.len()
    ))?;
    proof.note(
        "| package | built by | links | by ours | tests, GNU ld | tests, ours | interfaces | with frames | KiB, GNU ld | KiB, ours | s, GNU ld | s, ours | differences |\n\
         |---|---|---:|---|---|---|---|---|---:|---:|---:|---:|---|",
    )?;
    let mut options = BTreeSet::new();
    for (source, row) in &rows {
        proof.note(row.show(source))?;
        options.extend(row.ours.options.iter().map(String::as_str));
    }
    let options: Vec<String> = options.into_iter().map(|option| format!("`{option}`")).collect();
    proof.note(format!("\nOptions of these links: {}", options.join(", ")))?;
    let missing: Vec<&str> =
        SOURCES.iter().filter(|source| !row_file(proof, source).exists()).map(|source| source.name).collect();
    if !missing.is_empty() {
        proof.note(format!("\nNot built yet: {}", missing.join(", ")))?;
    }
    Ok(())
}
