//! Makes the packages that people install: a Debian package, another one with its debug information, and a
//! tarball and a wheel with the same files. [`install::lay_out`] says where each file goes. The programs
//! start on every Linux of the last ten years ([`old_libc`]), and the linker is compiled by a profile of its
//! own links ([`profile`]).
//!
//! The same commit gives the same bytes: all times are those of the commit, names are sorted, and programs
//! name no folder of the machine that built them ([`build`]). `--again` makes everything twice, from the
//! first file on, and compares the results.

mod completions;
mod debian;
mod help;
mod licences;
mod old_libc;
pub mod pages;
mod profile;
mod release;
pub mod stripped;
mod tools;
mod wheel;
mod zip;

use crate::commands;
use crate::folders::{copy_to, target, tracked, workspace};
use crate::install::{self, Parts};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs and libraries of the package.
const BUILT: [&str; 9] = [
    "sframe-ld",
    "sframe",
    "sframe-as",
    "ld-compare",
    "libsframe_unwind.so",
    "libsframe_unwind.a",
    "libsframe_stacks.so",
    "libsframe_run.so",
    "libsframe_split.so",
];

#[derive(clap::Args)]
pub struct Arguments {
    /// Folder for the packages
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Take programs and libraries from this folder instead of building them
    #[arg(long, value_name = "FOLDER")]
    built: Option<PathBuf>,
    /// Make everything a second time, and demand the same bytes
    #[arg(long)]
    again: bool,
    /// Compile the linker without a profile of its own links, in a third of the time
    #[arg(long)]
    no_profile: bool,
}

/// The files of a release.
pub struct Package {
    /// The Debian package.
    pub deb: PathBuf,
    /// The Debian package with its debug information.
    pub debug: PathBuf,
    pub tarball: PathBuf,
    /// The package for Python's package clients.
    pub wheel: PathBuf,
}

impl Package {
    /// All files of the release.
    pub fn files(&self) -> [&Path; 4] {
        [&self.deb, &self.debug, &self.tarball, &self.wheel]
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let output = arguments.output.clone().unwrap_or_else(|| target().join("packages"));
    let build = |folder: &str| build(folder, !arguments.no_profile);
    let built = |folder: &str| arguments.built.clone().map_or_else(|| build(folder), Ok);
    let package = make(&built("package")?, &output)?;
    for file in package.files() {
        println!("{}: {} bytes", file.display(), std::fs::metadata(file)?.len());
    }
    if arguments.again {
        let again = make(&built("package-again")?, &output.join("again"))?;
        for (first, second) in package.files().into_iter().zip(again.files()) {
            ensure!(
                std::fs::read(first)? == std::fs::read(second)?,
                "{} differs the second time",
                first.display()
            );
        }
        println!("the second time has the same bytes");
    }
    Ok(())
}

/// Makes the packages from the programs in a folder, or builds the programs first.
pub fn make_from(built: Option<&Path>, output: &Path) -> Result<Package> {
    let built = built.map_or_else(|| build("package", true), |built| Ok(built.to_owned()))?;
    make(&built, output)
}

/// Makes the packages from programs that are already built.
fn make(built: &Path, output: &Path) -> Result<Package> {
    // An installation from other folders may lack some of them.
    for name in BUILT {
        ensure!(built.join(name).is_file(), "no {name} in {}", built.display());
    }
    let stage = output.join("stage");
    let _ = std::fs::remove_dir_all(&stage);
    let (tree, debug) = (stage.join("tree"), stage.join("debug"));
    let usr = tree.join("usr");
    std::fs::create_dir_all(&usr)?;
    let parts = Parts {
        linker: built.join("sframe-ld"),
        command: built.join("sframe"),
        comparer: built.join("ld-compare"),
        assembler: built.join("sframe-as"),
        libraries: built.to_owned(),
    };
    install::lay_out(&parts, &usr)?;
    let documents = usr.join("share/doc/sframe-ld");
    copy_documents(&documents)?;
    licences::write(&documents.join("licences"))?;
    old_libc::check(&tree)?;
    stripped::separate(&tree, &debug)?;
    let time = release::commit_time()?;
    std::fs::create_dir_all(output)?;
    let tarball = tarball(&usr, output, time)?;
    let wheel = wheel::wheel(&usr, output)?;
    let deb = debian::package(&tree, output, time)?;
    let debug = debian::debug_package(&debug, output, time)?;
    std::fs::remove_dir_all(stage)?;
    Ok(Package { deb, debug, tarball, wheel })
}

/// Builds for a package: for the C library of old systems, and without this machine's paths to the sources.
/// Returns the folder with the programs and libraries.
fn build(folder: &str, is_profiled: bool) -> Result<PathBuf> {
    let folder = target().join(folder);
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut flags = format!("--remap-path-prefix={}=/usr/src/sframe-ld", workspace().display());
    if let Some(cargo) = cargo {
        flags.push_str(&format!(" --remap-path-prefix={}=/usr/src/cargo", cargo.display()));
    }
    let plain_flags = flags.clone();
    flags.push_str(&format!(" {}", old_libc::stand_ins(&folder.join("stand-ins"))?));
    let mut command = release::build(&folder, &flags)?;
    command.args(["--bins", "--lib"]);
    for member in ["sframe", "ld-compare", "sframe-unwind", "sframe-stacks", "sframe-run", "sframe-split"] {
        command.args(["-p", member]);
    }
    ensure!(command.status()?.success(), "the release does not build");
    // What counts runs on this machine, and its library needs more than the C library's stand-in has.
    let profile = is_profiled.then(|| profile::flag(&folder.join("profile"), &plain_flags)).transpose()?;
    let linker_flags = [flags, profile.unwrap_or_default()].join(" ");
    let linker = release::linker(&folder.join("linker"), &linker_flags)?;
    let built = folder.join("release");
    std::fs::copy(linker, built.join("sframe-ld"))?;
    crate::exceptions::build(&built)?;
    Ok(built)
}

/// Copies pages, examples and scripts, in the same folders as here, so that the links between them work.
/// Objects and settings of the repository are not documents.
fn copy_documents(to: &Path) -> Result<()> {
    crate::book::copy_pages(to)?;
    for file in tracked(&["examples", "linker-scripts"])? {
        if !file.ends_with(".gitignore") && file.extension().is_none_or(|extension| extension != "o") {
            copy_to(&file, to)?;
        }
    }
    Ok(())
}

fn tarball(usr: &Path, output: &Path, time: u64) -> Result<PathBuf> {
    let name = format!("sframe-ld-{}-{}-linux", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let path = output.join(format!("{name}.tar.xz"));
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    command.arg(format!("--mtime=@{time}")).arg(format!("--transform=flags=r;s,^\\.,{name},"));
    command.args(["--use-compress-program=xz -T1 -6", "-cf"]).arg(&path).arg("-C").arg(usr).arg(".");
    commands::output(&mut command)?;
    Ok(path)
}
