//! The commands that other packages of this workspace build.
//!
//! Cargo builds the commands of a package for the tests of that package, and only these tests learn their
//! paths. After `cargo test --workspace`, which builds everything, `sframe` lies beside the linker. With
//! `cargo test --test integration`, nobody has built it, or it is older than the sources, and a test with an
//! old command would pass or fail for no reason. So this module builds a command that is missing or older
//! than one of its sources. Cargo lists the sources in a file beside the command.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The path of the command `sframe`.
pub fn sframe() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| current("sframe", "sframe"))
}

/// The path of the assembler wrapper `sframe-as`.
pub fn sframe_as() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| current("sframe", "sframe-as"))
}

/// The path of the program `ld-compare`.
pub fn ld_compare() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| current("ld-compare", "ld-compare"))
}

/// A command of a package, which is built if necessary. It lies beside the linker, in the folder of the same
/// profile.
fn current(package: &str, name: &str) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_sframe-ld")).parent().expect("a folder of programs");
    let path = folder.join(name);
    if !is_current(&path) {
        build(package, name, folder);
    }
    path.display().to_string()
}

fn build(package: &str, name: &str, folder: &Path) {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target = folder.parent().expect("a folder above that of the profile");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--package", package, "--bin", name, "--profile", profile, "--target-dir"])
        .arg(target)
        .status();
    assert!(status.expect("cargo starts").success(), "{name} cannot be built");
}

/// Whether a program exists and is as new as each file in its `.d` (`PROGRAM: SOURCE SOURCE ...`). White
/// space in names is escaped there; a source with such a name counts as newer.
fn is_current(program: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let list = std::fs::read_to_string(program.with_extension("d"));
    let (Some(built), Ok(list)) = (modified(program), list) else { return false };
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources).split_whitespace();
    !list.is_empty() && { sources }.all(|source| modified(Path::new(source)).is_some_and(|at| at <= built))
}
