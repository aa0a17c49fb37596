//! Links for machines of 32 bits: this process becomes the system's linker of the name that it was called by.
//!
//! Builds for 64 bits make some links for 32 (the boot stages of x86 kernels, `gcc -m32`), so a linker that stands in place
//! of another has to leave them to one that knows these machines. That linker gets the words of the command line as they
//! are, and it judges options.

use super::programs;
use crate::cli::NarrowLink;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The programs that handed this link on, as `PATH` lists folders. A copy of this linker or a wrapper may be the linker that
/// is found first, and looks for the next one.
const PASSED: &str = "SFRAME_LD_PASSED";

/// Becomes the system's linker. Returns only if none can be run.
pub fn run(program: &str, link: &NarrowLink, arguments: &[OsString]) -> ExitCode {
    let what = &link.asked_by;
    let fail = |message: String| {
        eprintln!("{program}: error: {what} asks for a link for a machine of 32 bits, and {message}");
        ExitCode::FAILURE
    };
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut passed: Vec<PathBuf> =
        env::var_os(PASSED).map(|list| env::split_paths(&list).collect()).unwrap_or_default();
    let is_first = passed.is_empty();
    passed.extend(programs::own());
    let names = names(program);
    let Some(linker) = names.iter().find_map(|name| find(name, &folders, &passed)) else {
        return fail(format!("there is no other linker {} on PATH", names.join(" or ")));
    };
    if is_first {
        let linker = linker.display();
        eprintln!("{program}: note: {what} asks for a link for a machine of 32 bits: running {linker}");
    }
    passed.extend(linker.canonicalize());
    let Ok(passed) = env::join_paths(passed) else { return fail("the path of a linker has a colon".into()) };
    // GNU ld takes its emulation from options alone, unlike lld.
    let emulation = link.emulation.map(|name| ["-m", name]).into_iter().flatten();
    let error = Command::new(&linker).args(emulation).args(arguments).env(PASSED, passed).exec();
    fail(format!("{} cannot be run: {error}", linker.display()))
}

/// The names to look for: the one that was asked for, unless it is this linker's own, and those that every system has.
fn names(program: &str) -> Vec<&str> {
    let asked = Some(program).filter(|name| !name.contains("sframe"));
    let usual = ["ld", "ld.bfd"].into_iter().filter(|name| Some(*name) != asked);
    asked.into_iter().chain(usual).collect()
}

/// The first program of a name on `PATH` that did not hand the link on.
fn find(name: &str, folders: &OsStr, passed: &[PathBuf]) -> Option<PathBuf> {
    let own = programs::own();
    let in_folder = |folder: PathBuf| programs::search(name.as_ref(), folder.as_os_str(), own.as_deref());
    let is_other = |path: &PathBuf| path.canonicalize().is_ok_and(|path| !passed.contains(&path));
    env::split_paths(folders).filter(|folder| folder != Path::new("")).filter_map(in_folder).find(is_other)
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn the_asked_name_comes_first_and_this_linker_s_own_is_not_asked_for() {
        assert_eq!(names("ld.lld"), ["ld.lld", "ld", "ld.bfd"]);
        assert_eq!(names("ld"), ["ld", "ld.bfd"]);
        assert_eq!(names("sframe-ld"), ["ld", "ld.bfd"]);
        assert_eq!(names("ld.sframe"), ["ld", "ld.bfd"]);
    }
}
