//! `examples/framehop-sframe` replaces framehop: a program that knows nothing about it unwinds with SFrame.

use crate::support::{Work, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the program; with a patch, against the facade. The error says why cargo cannot get the
/// dependencies.
fn build(work: &Work, name: &str, patch: Option<&Path>) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/framehop-sframe/program");
    for file in ["Cargo.toml", "src/main.rs"] {
        let text = std::fs::read(source.join(file)).expect("the program");
        work.write(&format!("{name}/{file}"), text);
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("framehop").join(name);
    let cargo = |words: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(work.path(name)).args(words).env("CARGO_TARGET_DIR", &target);
        if let Some(patch) = patch {
            command.arg("--config").arg(format!("patch.crates-io.framehop.path='{}'", patch.display()));
        }
        command.output().map_err(|error| error.to_string())
    };
    let fetched = cargo(&["fetch", "--quiet"])?;
    if !fetched.status.success() {
        return Err(String::from_utf8_lossy(&fetched.stderr)
            .lines()
            .next()
            .unwrap_or("no crates")
            .to_owned());
    }
    let built = cargo(&["build", "--quiet"])?;
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(target.join("debug/program"))
}

#[test]
fn an_unmodified_program_unwinds_by_sframe_behind_a_patch() {
    let work = Work::new();
    let facade = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/framehop-sframe");
    let programs = [build(&work, "plain", None), build(&work, "patched", Some(&facade))];
    let [Ok(plain), Ok(patched)] = &programs else {
        let reason = programs.into_iter().find_map(Result::err).unwrap_or_default();
        return tools::skip("an_unmodified_program_unwinds_by_sframe_behind_a_patch", &reason);
    };
    let file = work.fixture("linked/prog.x86_64.ld2.47");
    let words = ["-R", ".eh_frame", &file, "sframe-only"];
    work.command(work.tool("objcopy"), &words).ok();
    // The state is in `chain`, after its `push %rbx`. The stack has that register, a return into `_start`,
    // what `_start` pushed, and a return to nowhere.
    let stack = ["401093", "7fff0000", "b", "401053", "0", "1234"];
    let unwind = |program: &Path, file: &str| {
        work.command(program, &[&[file], &stack[..]].concat())
            .ok()
            .stdout
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let whole = ["401093", "401053", "1234"];
    assert_eq!(unwind(plain, &file)[..3], whole);
    assert_eq!(unwind(patched, "sframe-only")[..3], whole);
    assert_ne!(unwind(plain, "sframe-only").get(..3), Some(&whole.map(str::to_owned)[..]));
    assert_eq!(unwind(patched, &file)[..3], whole);
}
