//! `cargo xtask exceptions`: builds the archives that programs with an unwind table are linked with, for
//! every machine whose core library rustc has: one with look-ups for libgcc, and one with an unwinder
//! besides. The look-ups are a shared library, too, for programs that another linker made.
//!
//! rustc packs its own libraries into such an archive, of which nothing is needed: memory is copied by the C
//! library. So the archive is packed again, with the one object that is the look-ups.

use crate::folders::{target, workspace};
use anyhow::{Context, Result, ensure};
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::Command;

const MACHINES: [&str; 3] = ["x86_64", "aarch64", "s390x"];
/// The archives of a machine, and the features of the package that make them.
const LIBRARIES: [(&str, &str); 2] = [("sframe_exceptions", "archive"), ("sframe_unwinder", "full")];

/// The feature of the package that makes the shared library.
const SHARED: &str = "shared";
/// What the shared library defines for others.
const EXPORTS: &str = "{ global: _Unwind_Find_FDE; _dl_find_object; dl_iterate_phdr; __register_frame*; __deregister_frame*; local: *; };\n";

fn shared_name(machine: &str) -> String {
    format!("libsframe_exceptions-{machine}.so")
}

/// The names of all archives, and of the shared library.
pub fn names() -> Vec<String> {
    let of = |(library, _): (&str, &str)| MACHINES.map(|machine| format!("lib{library}-{machine}.a"));
    LIBRARIES.into_iter().flat_map(of).chain([shared_name(ARCH)]).collect()
}

#[derive(clap::Args)]
pub struct Arguments {
    /// Folder for what is built; without it that lies beside the linker of the tests, which finds it there
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let output = arguments.output.clone().unwrap_or_else(|| target().join("debug"));
    for archive in build(&output)? {
        println!("{}", archive.display());
    }
    Ok(())
}

/// Builds the archives and the shared library into a folder. Machines whose core library is missing have
/// none.
pub fn build(output: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(output)?;
    let mut made = Vec::new();
    for machine in MACHINES {
        let triple = format!("{machine}-unknown-linux-gnu");
        let folder =
            Command::new("rustc").args(["--print", "target-libdir", "--target", &triple]).output()?;
        if Path::new(String::from_utf8_lossy(&folder.stdout).trim()).is_dir() {
            for (library, feature) in LIBRARIES {
                let archive = output.join(format!("lib{library}-{machine}.a"));
                build_for(&triple, feature, &archive)?;
                made.push(archive);
            }
            // Programs of other machines do not run here, so the shared library would be of no use.
            if machine == ARCH {
                made.extend(build_shared(&triple, machine, output)?);
            }
        }
    }
    Ok(made)
}

fn build_for(triple: &str, feature: &str, archive: &Path) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(workspace()).args(["rustc", "-p", "sframe-exceptions", "--features", feature]);
    cargo.args(["--profile", "archive", "--crate-type", "staticlib", "--target", triple]);
    ensure!(cargo.status()?.success(), "the look-ups do not build for {triple}");
    let whole = target().join(triple).join("archive/libsframe_exceptions.a");
    let folder = tempfile::tempdir()?;
    let ar = |arguments: &[&str]| -> Result<String> {
        let output =
            Command::new("ar").current_dir(folder.path()).args(arguments).output().context("no ar")?;
        ensure!(output.status.success(), "ar: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let whole = whole.display().to_string();
    let members = ar(&["t", &whole])?;
    let own = members.lines().find(|member| member.starts_with("sframe_exceptions"));
    let own = own.with_context(|| format!("{whole} has no object of the look-ups"))?;
    ar(&["x", &whole, own])?;
    // The name says which build it was; messages show it.
    std::fs::rename(folder.path().join(own), folder.path().join("sframe_exceptions.o"))?;
    let _ = std::fs::remove_file(archive);
    ar(&["rcsD", &archive.display().to_string(), "sframe_exceptions.o"])?;
    Ok(())
}

/// Links the shared library with the linker that lies in its folder, or was built last. Without one there is
/// no shared library.
fn build_shared(triple: &str, machine: &str, output: &Path) -> Result<Option<PathBuf>> {
    let places = [output.to_owned(), target().join("release"), target().join("debug")];
    let Some(linker) = places.map(|place| place.join("sframe-ld")).into_iter().find(|place| place.is_file())
    else {
        return Ok(None);
    };
    let folder = tempfile::tempdir()?;
    let [archive, exports] = ["look-ups.a", "exports.map"].map(|name| folder.path().join(name));
    build_for(triple, SHARED, &archive)?;
    std::fs::write(&exports, EXPORTS)?;
    let library = output.join(shared_name(machine));
    let mut link = Command::new(&linker);
    link.args(["-shared", "-z", "now", "--hash-style=gnu", "--eh-frame-hdr", "--gc-sections", "--build-id"]);
    link.args(["-soname", &shared_name(machine), "-o"]).arg(&library);
    link.arg("--version-script").arg(&exports).arg("--whole-archive").arg(&archive);
    ensure!(link.status()?.success(), "the shared library of the look-ups does not link for {machine}");
    Ok(Some(library))
}
