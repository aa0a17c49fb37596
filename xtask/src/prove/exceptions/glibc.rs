//! glibc's tests of cancelled threads, their cleanups and backtraces, by the C library of this machine.
//!
//! The tests need a library of their own (`support/`). It is compiled with the system's headers before
//! glibc's internal ones, and without the few files that need glibc's build.

use super::program::{Program, See, Suite, files, words};
use crate::peers;
use crate::prove::proof::Proof;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of the tests.
const FOLDERS: [&str; 3] = ["nptl", "sysdeps/pthread", "debug"];
const NAMES: [&str; 3] = ["tst-cancel", "tst-cleanup", "tst-backtrace"];
/// The folders of headers, behind those of the system.
const HEADERS: [&str; 6] = ["", "support", "include", "sysdeps/pthread", "sysdeps/x86_64", "sysdeps/generic"];
/// Tests of backtraces look for names of functions.
const FORMS: [(&str, &[&str]); 2] = [("pie", &["-pie", "-rdynamic"]), ("static", &["-static"])];
/// What glibc's build makes, here empty.
const MADE: [&str; 2] = ["abi-versions.h", "config.h"];
/// What glibc's build says on the command line, or in headers that these files do not see.
const DEFINITIONS: [&str; 6] = [
    "-D_GNU_SOURCE",
    "-DTIMEOUTFACTOR=1",
    "-DHARDCODED_PATHS_IN_TEST=0",
    "-Dlibc_hidden_proto(...)=",
    "-Dattribute_hidden=",
    "-D__attribute_optimization_barrier__=__attribute__((noinline,noclone))",
];
/// The paths of the build and of the installed library, which these tests do not use.
const PATHS: [&str; 11] = [
    "SRCDIR",
    "OBJDIR",
    "OBJDIR_ELF_LDSO",
    "INSTDIR",
    "LIBDIR",
    "BINDIR",
    "SBINDIR",
    "ROOTSBINDIR",
    "COMPLOCALEDIR",
    "SYSCONFDIR",
    "SLIBDIR",
];

pub fn suites() -> impl Iterator<Item = Box<dyn Suite>> {
    std::iter::once(Box::new(Tests) as Box<dyn Suite>)
}

struct Tests;

impl Suite for Tests {
    fn name(&self) -> String {
        "glibc: cancellation, cleanups, backtraces".into()
    }

    fn visit(&self, proof: &Proof, see: &mut See<'_>) -> Result<()> {
        let source = peers::folder().join("glibc");
        let made = proof.folder.join("made");
        std::fs::create_dir_all(&made)?;
        MADE.iter().try_for_each(|name| std::fs::write(made.join(name), ""))?;
        let support = support(proof, &source, &made)?;
        for test in tests(&source)? {
            let name = name(&test);
            let object = "test.o";
            if !compile(&source, &made, &test, &proof.folder.join(object))? {
                continue;
            }
            for (form, options) in FORMS {
                let prefix = format!("-B{}", proof.prefix.display());
                let mut link = words(&["g++", &prefix]);
                link.extend(words(options));
                link.extend(words(&[object, &support, "-lpthread"]));
                let name = format!("{name}, {form}");
                see(&Program { name, link, prefix: "-Wl,", ..Program::default() })?;
            }
        }
        Ok(())
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_source(name: &str) -> bool {
    name.ends_with(".c") || name.ends_with(".cc")
}

/// The tests by path, without parts of others.
fn tests(source: &Path) -> Result<Vec<PathBuf>> {
    let is_test = |name: &str| {
        let is_part = ["aux.c", "common.c", "mod.c"].iter().any(|end| name.ends_with(end));
        is_source(name) && !is_part && NAMES.iter().any(|start| name.starts_with(start))
    };
    let mut tests = Vec::new();
    for folder in FOLDERS {
        tests.extend(files(&source.join(folder), is_test)?);
    }
    Ok(tests)
}

/// Compiles a file; says whether that is possible outside glibc's build. Threads of tests with an `x` in
/// their name are ended through frames with cleanups, the others through glibc's own lists.
fn compile(source: &Path, made: &Path, file: &Path, object: &Path) -> Result<bool> {
    let name = name(file);
    let mut command = Command::new(if name.ends_with(".cc") { "g++" } else { "gcc" });
    command.args(["-w", "-O2", "-fPIE", "-include", "limits.h", "-include", "sys/socket.h"]);
    command.args(DEFINITIONS).args(PATHS.map(|path| format!("-D{path}_PATH=\"/none\"")));
    command.arg("-I").arg(made);
    for folder in HEADERS {
        command.arg("-idirafter").arg(source.join(folder));
    }
    if name.starts_with("tst-cancelx") || name.starts_with("tst-cleanupx") {
        command.arg("-fexceptions");
    }
    Ok(command.arg("-c").arg(file).arg("-o").arg(object).output()?.status.success())
}

/// Makes the archive of the tests' own library, and returns its name in the proof's folder.
fn support(proof: &Proof, source: &Path, made: &Path) -> Result<String> {
    let folder = proof.folder.join("support");
    std::fs::create_dir_all(&folder)?;
    let is_part = |name: &str| {
        let is_program = ["tst-", "links-dso-", "test-container"].iter().any(|start| name.starts_with(start));
        is_source(name) && !is_program && !name.ends_with("-container.c")
    };
    let archive = "support.a".to_owned();
    let _ = std::fs::remove_file(proof.folder.join(&archive));
    let mut objects = Vec::new();
    for file in files(&source.join("support"), is_part)? {
        let object = folder.join(name(&file)).with_extension("o");
        if compile(source, made, &file, &object)? {
            objects.push(object);
        }
    }
    ensure!(!objects.is_empty(), "nothing of glibc's support/ compiles");
    let mut command = Command::new("ar");
    command.current_dir(&proof.folder).args(["rcsD", &archive]).args(objects);
    crate::commands::output(&mut command).context("no archive of glibc's support/")?;
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::{is_source, name};
    use std::path::Path;

    #[test]
    fn sources_are_c_and_cpp() {
        assert!(
            is_source("tst-cancel24.cc") && is_source("tst-cancel1.c") && !is_source("tst-cleanup0.expect")
        );
        assert_eq!(name(Path::new("nptl/tst-cancel7.c")), "tst-cancel7.c");
    }
}
