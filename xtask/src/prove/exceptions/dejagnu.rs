//! gcc's tests of exceptions and cleanups, and those of its C++ library.
//!
//! The tests' first lines say in the words of DejaGnu whether they run and with which options (GCC internals,
//! "Test Directives"). What asks for another machine is left out.

use super::program::{Program, See, Suite, files, text, words};
use crate::peers;
use crate::prove::proof::Proof;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of tests.
struct Folder {
    name: &'static str,
    compiler: &'static str,
    /// How the names of its tests begin and end.
    names: (&'static str, &'static str),
    options: &'static [&'static str],
    /// Whether a test runs that does not say so.
    runs: bool,
}

const FOLDERS: [Folder; 3] = [
    Folder {
        name: "gcc/testsuite/g++.dg/eh",
        compiler: "g++",
        names: ("", ".C"),
        options: &["-w"],
        runs: false,
    },
    Folder {
        name: "gcc/testsuite/gcc.dg",
        compiler: "gcc",
        names: ("cleanup-", ".c"),
        options: &["-w"],
        runs: false,
    },
    Folder {
        name: "libstdc++-v3/testsuite/18_support",
        compiler: "g++",
        names: ("", ".cc"),
        options: &["-w", "-Ilibstdc++-v3/testsuite/util"],
        runs: true,
    },
];

/// How programs are compiled and linked. Optimised code has other tables. Options of a test stand behind.
const FORMS: [(&str, &[&str]); 2] = [("-O0", &["-pie"]), ("-O2", &["-pie", "-static"])];

pub fn suites() -> impl Iterator<Item = Box<dyn Suite>> {
    FOLDERS.into_iter().map(|folder| Box::new(folder) as Box<dyn Suite>)
}

impl Suite for Folder {
    fn name(&self) -> String {
        format!("gcc 12: {}", self.name)
    }

    fn visit(&self, proof: &Proof, see: &mut See<'_>) -> Result<()> {
        let source = peers::folder().join("gcc-tests");
        for test in self.tests(&source)? {
            for (level, forms) in FORMS {
                if !self.compile(proof, &source, &test, level)? {
                    continue;
                }
                for form in forms {
                    let prefix = proof.prefix.display().to_string();
                    see(&Program {
                        name: format!("{}, {level}, {form}", test.display()),
                        link: words(&[self.compiler, "-B", &prefix, form, "test.o", "-lpthread"]),
                        prefix: "-Wl,",
                        ..Program::default()
                    })?;
                }
            }
        }
        Ok(())
    }
}

impl Folder {
    /// Its tests that run, by name.
    fn tests(&self, source: &Path) -> Result<Vec<PathBuf>> {
        let named = |name: &str| name.starts_with(self.names.0) && name.ends_with(self.names.1);
        let mut tests = files(&source.join(self.name), named)?;
        tests.retain(|test| text(test).is_ok_and(|text| self.runs_here(&text)));
        Ok(tests.into_iter().map(|test| test.strip_prefix(source).unwrap_or(&test).to_owned()).collect())
    }

    fn runs_here(&self, text: &str) -> bool {
        match directives(text, "dg-do").next() {
            None => self.runs,
            // A machine's name, or a property, stands behind `target`.
            Some(words) => words.starts_with("run") && (!words.contains("target") || words.contains("c++")),
        }
    }

    /// Compiles a test to `test.o`. Says whether this compiler takes it.
    fn compile(&self, proof: &Proof, source: &Path, test: &Path, level: &str) -> Result<bool> {
        let text = text(&source.join(test))?;
        let mut command = Command::new(self.compiler);
        command.current_dir(source).args(self.options).args([level, "-fPIE"]);
        for words in directives(&text, "dg-options").chain(directives(&text, "dg-additional-options")) {
            if !words.contains("target") {
                let options = words.split(['"', '{', '}']).nth(1).unwrap_or_default();
                command.args(options.split_whitespace());
            }
        }
        command.arg("-c").arg(test).arg("-o").arg(proof.folder.join("test.o"));
        Ok(command.output()?.status.success())
    }
}

/// What stands behind a directive, in each of its comments.
fn directives<'text>(text: &'text str, name: &'text str) -> impl Iterator<Item = &'text str> {
    text.lines().filter_map(move |line| {
        let (_, directive) = line.split_once("{ dg-")?;
        let (word, rest) = directive.split_once(' ')?;
        (word == &name[3..]).then(|| rest.rsplit_once('}').map_or(rest, |(words, _)| words).trim())
    })
}

#[cfg(test)]
mod tests {
    use super::{FOLDERS, directives};

    #[test]
    fn directives_say_what_runs_with_which_options() {
        let text = "// { dg-do run }\n// { dg-options \"-O2 -fexceptions\" }\n/* { dg-options \"-x\" { target ia32 } } */\n";
        assert_eq!(directives(text, "dg-do").collect::<Vec<_>>(), ["run"]);
        let options: Vec<_> = directives(text, "dg-options").collect();
        assert_eq!(options, ["\"-O2 -fexceptions\"", "\"-x\" { target ia32 }"]);
        assert!(FOLDERS[0].runs_here(text));
        assert!(!FOLDERS[0].runs_here("int main() {}"));
        assert!(FOLDERS[2].runs_here("int main() {}"));
        assert!(!FOLDERS[2].runs_here("// { dg-do compile }\n"));
        assert!(!FOLDERS[2].runs_here("// { dg-do run { target *-*-mingw* } }\n"));
        assert!(FOLDERS[2].runs_here("// { dg-do run { target c++11 } }\n"));
    }
}
