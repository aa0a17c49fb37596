//! Makes Debian packages from a tree of files (Debian policy; `deb-control(5)`).

use super::tools::{architecture, files};
use crate::commands;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAINTAINER: &str = "The authors of sframe-ld <sframe-ld@packages.invalid>";
const DESCRIPTION: &str = "ELF linker that shows how .sframe should be linked
 A linker for x86-64, AArch64 and s390x with all of GNU ld's language of
 scripts. It keeps SFrame stack-trace sections of every version right, makes
 one sorted table of them, and splits those of today's assemblers.
 .
 With it come the command sframe, which dumps, verifies, splits and unwinds by
 SFrame; wrappers around assemblers and other linkers, and a plugin for GNU ld
 and gold; a harness that compares linkers; and a library by which programs walk
 their own stacks.";
const DEBUG: &str = "debug symbols for sframe-ld
 Lines and functions, for debuggers and stacks of the linker itself.";

/// The packages of the libraries that programs load, by the names of the libraries.
const LIBRARIES: [(&str, &str); 4] = [
    ("libc.so.6", "libc6"),
    ("libm.so.6", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libstdc++.so.6", "libstdc++6"),
];

/// Makes the package with the programs.
pub fn package(tree: &Path, output: &Path, time: u64) -> Result<PathBuf> {
    let documents = tree.join("usr/share/doc/sframe-ld");
    let root = crate::folders::workspace();
    let mut copyright = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: sframe-ld\n\n\
         Files: *\nCopyright: the authors of sframe-ld\nLicense: Expat or Apache-2.0\n\
         Comment: Licences of the libraries that the programs contain are in licences/.\n",
    );
    copyright.push_str("\nLicense: Expat\n");
    for line in std::fs::read_to_string(root.join("LICENSE-MIT"))?.lines() {
        let line = if line.trim().is_empty() { "." } else { line };
        writeln!(copyright, " {line}")?;
    }
    // Every Debian system has this text, and no package may contain it.
    copyright.push_str("\nLicense: Apache-2.0\n See /usr/share/common-licenses/Apache-2.0.\n");
    std::fs::write(documents.join("copyright"), copyright)?;
    let date = commands::output(Command::new("date").args(["-u", "-R", &format!("--date=@{time}")]))?;
    let version = version();
    let changes = format!(
        "sframe-ld ({version}) unstable; urgency=medium\n\n  * A build of the project's own tree.\n\n -- {MAINTAINER}  {}\n",
        date.trim()
    );
    compressed(&documents.join("changelog.gz"), &changes)?;
    let pages: Vec<PathBuf> = files(tree)?
        .into_iter()
        .filter(|file| file.starts_with("usr/share/man"))
        .map(|file| tree.join(file))
        .collect();
    commands::output(Command::new("gzip").arg("-9n").args(pages))?;
    let control = format!(
        "Section: devel\nPriority: optional\nDepends: {}\nRecommends: binutils\nSuggests: gcc, man-db, bash-completion",
        dependencies(tree)?
    );
    // The name of the library must go into the cache of the dynamic linker.
    std::fs::create_dir_all(tree.join("DEBIAN"))?;
    std::fs::write(tree.join("DEBIAN/triggers"), "activate-noawait ldconfig\n")?;
    // Packages of programs that are linked to it depend on this one (`deb-shlibs(5)`).
    std::fs::write(
        tree.join("DEBIAN/shlibs"),
        "libsframe_stacks 1 sframe-ld\nlibsframe_unwind 1 sframe-ld\n",
    )?;
    build(tree, output, time, ("sframe-ld", &control, DESCRIPTION))
}

/// Makes the package with their debug information.
pub fn debug_package(tree: &Path, output: &Path, time: u64) -> Result<PathBuf> {
    let documents = tree.join("usr/share/doc");
    std::fs::create_dir_all(&documents)?;
    std::os::unix::fs::symlink("sframe-ld", documents.join("sframe-ld-dbgsym"))?;
    let control = format!(
        "Section: debug\nPriority: optional\nAuto-Built-Package: debug-symbols\nDepends: sframe-ld (= {})",
        version()
    );
    build(tree, output, time, ("sframe-ld-dbgsym", &control, DEBUG))
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Compresses a text; the result contains neither a time nor a name.
fn compressed(path: &Path, text: &str) -> Result<()> {
    let plain = path.with_extension("");
    std::fs::write(&plain, text)?;
    commands::output(Command::new("gzip").args(["-9n"]).arg(&plain))?;
    Ok(())
}

fn build(
    tree: &Path,
    output: &Path,
    time: u64,
    (name, control, description): (&str, &str, &str),
) -> Result<PathBuf> {
    let meta = tree.join("DEBIAN");
    let mut all = files(tree)?;
    all.retain(|file| !file.starts_with("DEBIAN"));
    let mut size = 0;
    let mut sums = String::new();
    for file in &all {
        let path = tree.join(file);
        let data = std::fs::symlink_metadata(&path)?;
        size += data.len().div_ceil(1024).max(1);
        if data.is_file() {
            let sum = commands::output(Command::new("md5sum").arg(&path))?;
            writeln!(sums, "{}  {}", sum.split(' ').next().unwrap_or_default(), file.display())?;
            let mode = if data.permissions().mode() & 0o100 != 0 && is_program(file) { 0o755 } else { 0o644 };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        }
    }
    std::fs::create_dir_all(&meta)?;
    let architecture = architecture()?;
    let text = format!(
        "Package: {name}\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\n{control}\n\
         Description: {description}\n",
        version()
    );
    std::fs::write(meta.join("control"), text)?;
    std::fs::write(meta.join("md5sums"), sums)?;
    // Folders get the usual permissions, whatever the umask of the user who builds.
    commands::output(
        Command::new("find").arg(tree).args(["-type", "d", "-exec", "chmod", "755", "{}", "+"]),
    )?;
    commands::output(Command::new("find").arg(tree).args([
        "-exec",
        "touch",
        "-h",
        "-d",
        &format!("@{time}"),
        "{}",
        "+",
    ]))?;
    let path = output.join(format!("{name}_{}_{architecture}.deb", version()));
    let mut command = Command::new("dpkg-deb");
    command.env("SOURCE_DATE_EPOCH", time.to_string()).env("DPKG_DEB_THREADS_MAX", "1");
    command.args(["--root-owner-group", "-Zxz", "-z6", "--build"]).arg(tree).arg(&path);
    commands::output(&mut command).with_context(|| format!("the package {name}"))?;
    Ok(path)
}

/// Whether a file can be run: it is in a folder of programs.
fn is_program(file: &Path) -> bool {
    file.starts_with("usr/bin") || file.starts_with("usr/libexec")
}

/// The packages that contain the libraries which programs load. For the C library, with the newest version
/// that a program asks for.
fn dependencies(tree: &Path) -> Result<String> {
    let mut needed: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for file in super::stripped::elf_files(tree)? {
        let text = commands::output(Command::new("readelf").args(["-dVW"]).arg(tree.join(&file)))?;
        for (library, package) in LIBRARIES {
            if text.contains(&format!("Shared library: [{library}]")) {
                needed.entry(package).or_default();
            }
        }
        let versions = text.split("Name: GLIBC_").skip(1).filter_map(|rest| rest.split_whitespace().next());
        for version in versions {
            let numbers: Vec<u32> = version.split('.').filter_map(|number| number.parse().ok()).collect();
            let known = needed.entry("libc6").or_default();
            if *known < numbers {
                *known = numbers;
            }
        }
    }
    let shown = needed.into_iter().map(|(package, version)| {
        let version: Vec<String> = version.iter().map(u32::to_string).collect();
        if version.is_empty() { package.to_owned() } else { format!("{package} (>= {})", version.join(".")) }
    });
    Ok(shown.collect::<Vec<_>>().join(", "))
}
