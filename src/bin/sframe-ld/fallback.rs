//! Links for machines of 32 bits: this process becomes the system's linker of the name that it was called by.
//!
//! Builds for 64 bits make some links for 32 (the boot stages of x86 kernels, `gcc -m32`), so a linker that
//! stands in place of another has to leave them to one that knows these machines. That linker gets the words
//! of the command line as they are, and it judges options.

use commands::programs::Programs;
use commands::tell;
use sframe_ld::cli::Link32Bit;
use sframe_ld::diag::Severity;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Becomes the system's linker. Returns only if none can be run.
pub fn run(program: &str, link: &Link32Bit, arguments: &[OsString]) -> ExitCode {
    let what = &link.asked_by;
    let fail = |message: String| {
        let text = format!("{what} asks for a link for a machine of 32 bits, and {message}");
        tell(program, Severity::Error, &text);
        ExitCode::FAILURE
    };
    let programs = Programs::of_environment();
    let names = names(program);
    let Some(linker) = names.iter().find_map(|name| programs.search(name.as_ref())) else {
        return fail(format!("there is no other linker {} on PATH", names.join(" or ")));
    };
    if !programs.is_led_to() {
        let linker = linker.display();
        let text = format!("note: {what} asks for a link for a machine of 32 bits: running {linker}");
        tell(program, Severity::Note, &text);
    }
    let (variable, passed) = programs.passed_on_to(&linker);
    // GNU ld takes its emulation from options alone, unlike lld.
    let emulation = link.emulation.map(|name| ["-m", name]).into_iter().flatten();
    let error = Command::new(&linker).args(emulation).args(arguments).env(variable, passed).exec();
    fail(format!("{} cannot be run: {error}", linker.display()))
}

/// The names to look for: the one that was asked for, unless it is this linker's own, and those that every
/// system has.
fn names(program: &str) -> Vec<&str> {
    let asked = Path::new(program).file_name().and_then(|name| name.to_str());
    let asked = asked.filter(|name| !name.contains("sframe"));
    let usual = ["ld", "ld.bfd"].into_iter().filter(|name| Some(*name) != asked);
    asked.into_iter().chain(usual).collect()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn the_asked_name_comes_first_and_this_linker_s_own_is_not_asked_for() {
        assert_eq!(names("ld.lld"), ["ld.lld", "ld", "ld.bfd"]);
        assert_eq!(names("ld"), ["ld", "ld.bfd"]);
        assert_eq!(names("bin/ld.gold"), ["ld.gold", "ld", "ld.bfd"]);
        assert_eq!(names("sframe-ld"), ["ld", "ld.bfd"]);
        assert_eq!(names("ld.sframe"), ["ld", "ld.bfd"]);
    }
}
