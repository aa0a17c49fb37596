//! Proves the unwinders of `--unwind-table=replace` by tests that nobody here wrote: gcc's of exceptions and
//! cleanups, and those of the C++ library's exceptions. Each is compiled once, and linked as usual, with the
//! look-ups for libgcc, and with the unwinder in libgcc's place. The usual program says what is right.
//!
//! The tests' first lines say in the words of DejaGnu whether they run and with which options (GCC internals,
//! "Test Directives"). What asks for another machine is left out.

use super::proof::Proof;
use crate::children::output_within;
use crate::records::Measured;
use crate::{exceptions, peers};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A folder of tests.
struct Suite {
    folder: &'static str,
    compiler: &'static str,
    /// How the names of its tests begin and end.
    names: (&'static str, &'static str),
    options: &'static [&'static str],
    /// Whether a test runs that does not say so.
    runs: bool,
}

const SUITES: [Suite; 3] = [
    Suite {
        folder: "gcc/testsuite/g++.dg/eh",
        compiler: "g++",
        names: ("", ".C"),
        options: &["-w"],
        runs: false,
    },
    Suite {
        folder: "gcc/testsuite/gcc.dg",
        compiler: "gcc",
        names: ("cleanup-", ".c"),
        options: &["-w"],
        runs: false,
    },
    Suite {
        folder: "libstdc++-v3/testsuite/18_support",
        compiler: "g++",
        names: ("", ".cc"),
        options: &["-w", "-Ilibstdc++-v3/testsuite/util"],
        runs: true,
    },
];

/// How programs are compiled and linked. Optimised code has other tables. Options of a test stand behind.
const FORMS: [(&str, &str); 3] = [("-O0", "-pie"), ("-O2", "-pie"), ("-O2", "-static")];
/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// How programs find their frames: a name, and the options of the link.
struct Way {
    name: &'static str,
    options: Vec<String>,
}

pub fn exceptions(proof: &mut Proof) -> Result<()> {
    let source = peers::folder().join("gcc-tests");
    ensure!(source.is_dir(), "no tests of gcc (cargo xtask peers)");
    let ways = ways(proof)?;
    let names: Vec<&str> = ways.iter().map(|way| way.name).collect();
    let forms = FORMS.map(|(level, form)| format!("`{level} {form}`")).join(", ");
    proof.note(format!(
        "Tests of gcc 12 and its C++ library that run, compiled and linked with {forms}. A number says how many programs end well; the\n\
         others fail by `.eh_frame`, too. Run times are sums.\n\n| tests | programs | {} | run times |\n|---|---:|{}---|",
        names.join(" | "),
        "---:|".repeat(ways.len())
    ))?;
    let (mut unlike, mut all, mut good) = (Vec::new(), 0, 0);
    for suite in &SUITES {
        let mut sums = vec![Sum::default(); ways.len()];
        let mut programs = 0;
        for test in suite.tests(&source)? {
            for (level, form) in FORMS {
                let Some(object) = suite.compile(proof, &source, &test, level)? else { continue };
                programs += 1;
                let expected = ways[0].run(proof, suite.compiler, &object, form, &mut sums[0])?;
                for (way, sum) in ways.iter().zip(&mut sums).skip(1) {
                    if way.run(proof, suite.compiler, &object, form, sum)? != expected {
                        unlike.push(format!("{}, {level}, {form}, {}", test.display(), way.name));
                    }
                }
            }
        }
        (all, good) = (all + programs, good + sums[0].passed);
        let passed: Vec<String> = sums.iter().map(|sum| sum.passed.to_string()).collect();
        let times: Vec<String> = sums.iter().map(|sum| format!("{:.1} s", sum.time.as_secs_f64())).collect();
        let times = Measured(times.join(", "));
        proof.note(format!("| {} | {programs} | {} | {times} |", suite.folder, passed.join(" | ")))?;
    }
    ensure!(good > all / 2, "of {all} programs, only {good} end well by .eh_frame");
    ensure!(unlike.is_empty(), "not as by .eh_frame:\n{}", unlike.join("\n"));
    proof.note("\nEach program ends and prints by every way as it does by `.eh_frame`.")
}

fn ways(proof: &Proof) -> Result<Vec<Way>> {
    let archives = exceptions::build(&proof.folder.join("runtime"))?;
    let archive = |name: &str| {
        let file = format!("lib{name}-{}.a", std::env::consts::ARCH);
        let found = archives.iter().find(|path| path.ends_with(&file));
        let path = found.with_context(|| format!("no {file} was built"))?;
        Ok::<_, anyhow::Error>(format!("-Wl,--unwind-runtime-archive={}", path.display()))
    };
    let replace = || "-Wl,--unwind-table=replace".to_owned();
    let full = "-Wl,--unwind-runtime=full".to_owned();
    Ok(vec![
        Way { name: "`.eh_frame`", options: Vec::new() },
        Way { name: "look-ups", options: vec![replace(), archive("sframe_exceptions")?] },
        Way { name: "unwinder", options: vec![replace(), full, archive("sframe_unwinder")?] },
    ])
}

#[derive(Clone, Default)]
struct Sum {
    passed: u32,
    time: Duration,
}

/// How a program ended, and what it printed.
type Outcome = (Option<i32>, Vec<u8>, Vec<u8>);

impl Way {
    /// Links and runs a program. `None`: it cannot be linked.
    fn run(
        &self,
        proof: &Proof,
        compiler: &str,
        object: &str,
        form: &str,
        sum: &mut Sum,
    ) -> Result<Option<Outcome>> {
        let mut link = Command::new(compiler);
        link.current_dir(&proof.folder).arg("-B").arg(&proof.prefix);
        link.args([form, "-o", "program", object, "-lpthread"]).args(&self.options);
        if !link.output()?.status.success() {
            return Ok(None);
        }
        let start = Instant::now();
        let mut program = Command::new("./program");
        let output = output_within(program.current_dir(&proof.folder), LIMIT)?;
        sum.time += start.elapsed();
        sum.passed += u32::from(output.status.success());
        Ok(Some((output.status.code(), output.stdout, output.stderr)))
    }
}

impl Suite {
    /// Its tests that run, by name.
    fn tests(&self, source: &Path) -> Result<Vec<PathBuf>> {
        let (mut folders, mut tests) = (vec![source.join(self.folder)], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let is_test = name.starts_with(self.names.0) && name.ends_with(self.names.1);
                if path.is_dir() {
                    folders.push(path);
                } else if is_test && self.runs_here(&text(&path)?) {
                    tests.push(path.strip_prefix(source).unwrap_or(&path).to_owned());
                }
            }
        }
        tests.sort();
        Ok(tests)
    }

    fn runs_here(&self, text: &str) -> bool {
        match directives(text, "dg-do").next() {
            None => self.runs,
            // A machine's name, or a property, stands behind `target`.
            Some(words) => words.starts_with("run") && (!words.contains("target") || words.contains("c++")),
        }
    }

    /// Compiles a test. `None`: this compiler does not take it.
    fn compile(&self, proof: &Proof, source: &Path, test: &Path, level: &str) -> Result<Option<String>> {
        let text = text(&source.join(test))?;
        let mut command = Command::new(self.compiler);
        command.current_dir(source).args(self.options).args([level, "-fPIE"]);
        for words in directives(&text, "dg-options").chain(directives(&text, "dg-additional-options")) {
            if !words.contains("target") {
                let options = words.split(['"', '{', '}']).nth(1).unwrap_or_default();
                command.args(options.split_whitespace());
            }
        }
        let object = proof.folder.join("test.o");
        command.arg("-c").arg(test).arg("-o").arg(&object);
        Ok(command.output()?.status.success().then(|| "test.o".into()))
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

/// Some tests are not in UTF-8.
fn text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{SUITES, directives};

    #[test]
    fn directives_say_what_runs_with_which_options() {
        let text = "// { dg-do run }\n// { dg-options \"-O2 -fexceptions\" }\n/* { dg-options \"-x\" { target ia32 } } */\n";
        assert_eq!(directives(text, "dg-do").collect::<Vec<_>>(), ["run"]);
        let options: Vec<_> = directives(text, "dg-options").collect();
        assert_eq!(options, ["\"-O2 -fexceptions\"", "\"-x\" { target ia32 }"]);
        assert!(SUITES[0].runs_here(text));
        assert!(!SUITES[0].runs_here("int main() {}"));
        assert!(SUITES[2].runs_here("int main() {}"));
        assert!(!SUITES[2].runs_here("// { dg-do compile }\n"));
        assert!(!SUITES[2].runs_here("// { dg-do run { target *-*-mingw* } }\n"));
        assert!(SUITES[2].runs_here("// { dg-do run { target c++11 } }\n"));
    }
}
