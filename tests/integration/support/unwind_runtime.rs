//! The archives that programs with `--unwind-table=replace` are linked with, built for the tests.

use super::Machine;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The options that name the archive with the look-ups for libgcc; if Rust has no library for the machine,
/// the reason.
pub fn hooks(machine: &'static Machine) -> Result<String, String> {
    let archive = archive(machine, "archive")?;
    Ok(format!("-Wl,--unwind-runtime-archive={}", archive.display()))
}

/// The options that name the archive with the unwinder.
pub fn full(machine: &'static Machine) -> Result<String, String> {
    let archive = archive(machine, "full")?;
    Ok(format!("-Wl,--unwind-runtime=full,--unwind-runtime-archive={}", archive.display()))
}

/// The options of both, one after the other.
pub fn both(machine: &'static Machine) -> Result<[String; 2], String> {
    Ok([hooks(machine)?, full(machine)?])
}

/// The look-ups as a shared library.
pub fn shared(machine: &'static Machine) -> Result<PathBuf, String> {
    let archive = archive(machine, "shared")?;
    let library = archive.with_extension("so");
    let exports = archive.with_extension("map");
    let names = "_Unwind_Find_FDE; _dl_find_object; dl_iterate_phdr; __register_frame*; __deregister_frame*";
    std::fs::write(&exports, format!("{{ global: {names}; local: *; }};\n"))
        .map_err(|error| error.to_string())?;
    let mut link = Command::new(super::work::linker());
    link.args(["-shared", "--eh-frame-hdr", "--gc-sections", "-soname", "liblookups.so", "-o"]).arg(&library);
    link.arg("--version-script").arg(exports).arg("--whole-archive").arg(archive);
    let output = link.output().map_err(|error| error.to_string())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(library)
}

fn archive(machine: &'static Machine, feature: &'static str) -> Result<PathBuf, String> {
    static BUILT: Mutex<Vec<(&str, &str, PathBuf)>> = Mutex::new(Vec::new());
    let mut all = BUILT.lock().expect("no test fails here");
    if let Some((.., path)) = all.iter().find(|(name, of, _)| (*name, *of) == (machine.name, feature)) {
        return Ok(path.clone());
    }
    let triple = format!("{}-unknown-linux-gnu", machine.name);
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", &triple]).output();
    let libraries = libraries.map_err(|error| error.to_string())?;
    if !Path::new(String::from_utf8_lossy(&libraries.stdout).trim()).is_dir() {
        return Err(format!("no standard library of Rust for {triple}"));
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sframe-exceptions");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args(["rustc", "--quiet", "--locked", "-p", "sframe-exceptions", "--features", feature]);
    command.args(["--profile", "archive", "--crate-type", "staticlib", "--target", &triple, "--target-dir"]);
    let output = command.arg(&target).output().map_err(|error| error.to_string())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The next feature's archive has the same name.
    let made = target.join(&triple).join("archive/libsframe_exceptions.a");
    let path = target.join(format!("{feature}-{}.a", machine.name));
    std::fs::copy(made, &path).map_err(|error| error.to_string())?;
    all.push((machine.name, feature, path.clone()));
    Ok(path)
}
