//! The tests of LLVM's C++ library and of its unwinder, as far as they throw or unwind: by g++ with gcc's
//! libraries, and by clang with LLVM's, whose unwinder finds frames by `dl_iterate_phdr`.

use super::program::{Program, See, Suite, files, text, words};
use crate::peers;
use crate::prove::proof::Proof;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDERS: [&str; 2] = ["libcxxabi/test", "libunwind/test"];
const FORMS: [(&str, &[&str]); 2] = [("-O0", &["-pie"]), ("-O2", &["-pie", "-static"])];

/// Compiling this one takes longer than all others together.
const SLOW: &str = "catch_multi_level_pointer.pass.cpp";

/// Tests by one compiler.
struct Folder {
    name: &'static str,
    compiler: Compiler,
}

#[derive(Clone)]
struct Compiler {
    name: &'static str,
    program: String,
    options: Vec<String>,
    /// The libraries, dynamic or static.
    libraries: fn(form: &str) -> Vec<String>,
    /// Whether it has the interface of LLVM's unwinder.
    has_interface: bool,
}

pub fn suites() -> Result<impl Iterator<Item = Box<dyn Suite>>> {
    let compilers = [gcc(), clang()?];
    let folders = FOLDERS.into_iter().flat_map(move |name| {
        compilers.clone().map(|compiler| Box::new(Folder { name, compiler }) as Box<dyn Suite>)
    });
    Ok(folders)
}

fn gcc() -> Compiler {
    Compiler {
        name: "g++",
        program: "g++".into(),
        options: Vec::new(),
        libraries: |_| words(&["-lpthread"]),
        has_interface: false,
    }
}

fn clang() -> Result<Compiler> {
    let home = library()?.parent().context("LLVM's library has a folder")?.to_owned();
    // The unwinder's headers are not beside the others.
    let folders = [home.join("include/c++/v1"), home.join("include"), home.join("../../include/libunwind")];
    let headers = folders.map(|folder| format!("-isystem{}", folder.display()));
    Ok(Compiler {
        name: "clang and its libraries",
        program: peers::program("clang++")?.display().to_string(),
        options: [&words(&["-nostdinc++"])[..], &headers].concat(),
        libraries: clangs_libraries,
        has_interface: true,
    })
}

/// LLVM's libraries. They stand before gcc's unwinder, which clang names at the end.
fn clangs_libraries(form: &str) -> Vec<String> {
    let folder = library().map_or_else(|_| String::new(), |folder| folder.display().to_string());
    let (ending, option) = match form {
        // A part of gcc's static unwinder that the C library needs asks for this function. If it came from
        // there, so would all others.
        "-static" => (".a", "-Wl,-u,_Unwind_GetIPInfo".to_owned()),
        _ => (".so.1", format!("-Wl,-rpath,{folder}")),
    };
    let files = ["libc++", "libc++abi", "libunwind"].map(|name| format!("{folder}/{name}{ending}"));
    let system = words(&["-lpthread", "-ldl", "-lm"]);
    ["-nostdlib++".to_owned(), option].into_iter().chain(files).chain(system).collect()
}

/// The folder of LLVM's libraries.
fn library() -> Result<PathBuf> {
    let folder = peers::folder().join("root-own/usr/lib");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let places = entries.filter_map(|entry| Some(entry.ok()?.path().join("lib")));
    let found = places.filter(|place| place.join("libc++abi.a").is_file()).max();
    found.context("no C++ library of LLVM (cargo xtask peers)")
}

impl Suite for Folder {
    fn name(&self) -> String {
        format!("LLVM 14: {}, {}", self.name, self.compiler.name)
    }

    fn visit(&self, proof: &Proof, see: &mut See<'_>) -> Result<()> {
        let source = peers::folder().join("llvm-tests");
        for test in files(&source.join(self.name), |name| name.ends_with(".pass.cpp") && name != SLOW)? {
            let text = text(&test)?;
            if !self.compiler.takes(&text) {
                continue;
            }
            let name = test.strip_prefix(&source).unwrap_or(&test).display();
            for (level, forms) in FORMS {
                if !self.compiler.compile(proof, &source, &test, &text, level)? {
                    continue;
                }
                for form in forms {
                    let name = format!("{name} by {}, {level}, {form}", self.compiler.name);
                    see(&Program { name, ..self.compiler.program(proof, form) })?;
                }
            }
        }
        Ok(())
    }
}

impl Compiler {
    /// Whether a test is for this system and compiler, and unwinds at all.
    fn takes(&self, text: &str) -> bool {
        let is_here = directives(text, "REQUIRES").all(|words| words.contains("linux"));
        let unwinds = ["throw", "_Unwind_", "unw_"].iter().any(|word| text.contains(word));
        is_here && unwinds && (self.has_interface || !text.contains("unw_"))
    }

    /// Compiles a test to `test.o`. Says whether this compiler takes it.
    fn compile(&self, proof: &Proof, source: &Path, test: &Path, text: &str, level: &str) -> Result<bool> {
        let mut command = Command::new(&self.program);
        command.current_dir(source).args(["-w", "-std=c++17", "-fPIE", level]).args(&self.options);
        command.args(directives(text, "ADDITIONAL_COMPILE_FLAGS").flat_map(str::split_whitespace));
        command.arg("-Ilibcxx/test/support").arg("-c").arg(test).arg("-o").arg(proof.folder.join("test.o"));
        Ok(command.output()?.status.success())
    }

    fn program(&self, proof: &Proof, form: &str) -> Program {
        let prefix = format!("-B{}", proof.prefix.display());
        // Tests of backtraces look for names of functions.
        let mut link = words(&[&self.program, &prefix, form, "-rdynamic", "test.o"]);
        link.extend((self.libraries)(form));
        Program { link, prefix: "-Wl,", ..Program::default() }
    }
}

/// What stands behind a directive's colon, in each of its lines.
fn directives<'text>(text: &'text str, name: &'text str) -> impl Iterator<Item = &'text str> {
    text.lines().filter_map(move |line| {
        Some(line.strip_prefix("//")?.trim_start().strip_prefix(name)?.strip_prefix(':')?.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::gcc;

    #[test]
    fn a_test_for_another_system_or_of_the_other_interface_is_left_out() {
        assert!(gcc().takes("// REQUIRES: linux && x\nint main() { throw 1; }"));
        assert!(!gcc().takes("int main() {}"));
        assert!(!gcc().takes("// REQUIRES: no-exceptions\nthrow 1;"));
        assert!(!gcc().takes("unw_getcontext(&context);"));
    }
}
