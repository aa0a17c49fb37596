//! Rust's tests of panics and backtraces, and others that unwind.
//!
//! Comments at the start of a line say how a test is compiled and run (rustc-dev-guide, "Compiletest
//! directives"). A test with revisions is several programs.

use super::program::{Program, See, Suite, files, text, words};
use crate::peers;
use crate::prove::proof::Proof;
use anyhow::Result;
use std::path::Path;

/// The folders whose tests all count. Of the others, those that say that they need to unwind.
const WHOLE: [&str; 2] = ["/panics/", "/backtrace/"];
/// What a test is for that is not for other machines only.
const HERE: [&str; 4] = ["only-linux", "only-unix", "only-64bit", "only-x86_64"];
/// What a test has that does not run here, or that needs other crates.
const ELSEWHERE: [&str; 7] =
    ["ignore-test", "ignore-linux", "ignore-unix", "ignore-64bit", "ignore-x86_64", "aux-build", "aux-crate"];

/// The standard library inside the program, and in a static program; for tests of the first kind also as a
/// library beside it.
const FORMS: [(&str, &[&str]); 3] = [
    ("-O0, pie", &[]),
    ("-O2, static", &["-Copt-level=2", "-Ctarget-feature=+crt-static"]),
    ("-O0, dynamic", &["-Cprefer-dynamic", "-Crpath"]),
];

pub fn suites() -> impl Iterator<Item = Box<dyn Suite>> {
    std::iter::once(Box::new(Tests) as Box<dyn Suite>)
}

struct Tests;

impl Suite for Tests {
    fn name(&self) -> String {
        "Rust: tests/ui that unwind".into()
    }

    fn visit(&self, proof: &Proof, see: &mut See<'_>) -> Result<()> {
        let source = peers::folder().join("rust-tests/tests/ui");
        for test in files(&source, |name| name.ends_with(".rs"))? {
            let text = text(&test)?;
            let name = test.strip_prefix(&source).unwrap_or(&test).display().to_string();
            let forms = forms(&format!("/{name}"), &text);
            for revision in revisions(&text) {
                for (form, options) in forms {
                    let name = format!("{name} {revision}, {form}");
                    if let Some(program) = program(proof, &test, &text, revision, options) {
                        see(&Program { name, ..program })?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The forms of a test's programs; none if it does not unwind.
fn forms(name: &str, text: &str) -> &'static [(&'static str, &'static [&'static str])] {
    match WHOLE.iter().any(|folder| name.contains(folder)) {
        true => &FORMS,
        false if text.contains("needs-unwind") => &FORMS[..2],
        false => &[],
    }
}

/// The names of a test's revisions; an empty one if there are none.
fn revisions(text: &str) -> Vec<&str> {
    let names = directives(text, "").find_map(|(name, words)| (name == "revisions").then_some(words));
    names.map_or_else(|| vec![""], |names| names.split_whitespace().collect())
}

/// The program of a revision. `None`: it does not run here.
fn program(proof: &Proof, test: &Path, text: &str, revision: &str, form: &[&str]) -> Option<Program> {
    let mut program = Program { prefix: "-Clink-arg=-Wl,", ..Program::default() };
    // Tests within a test print in the order in which they end.
    program.environment.push(("RUST_TEST_THREADS".into(), "1".into()));
    let mut options = words(form);
    let mut runs = false;
    for (name, value) in directives(text, revision) {
        match name {
            "run-pass" | "run-fail" | "run-crash" | "run-fail-or-crash" => runs = true,
            // Optimizing the whole standard library takes longer than all other tests.
            "compile-flags" if value.contains("lto=") => return None,
            "compile-flags" => options.extend(value.split_whitespace().map(str::to_owned)),
            // A range of editions begins with the oldest.
            "edition" => options.push(format!("--edition={}", value.split("..").next().unwrap_or_default())),
            "run-flags" => program.arguments.extend(value.split_whitespace().map(str::to_owned)),
            "exec-env" => program.environment.extend(setting(value)),
            name if ELSEWHERE.contains(&name) => return None,
            name if name.starts_with("only-") && !HERE.contains(&name) => return None,
            _ => {}
        }
    }
    if !revision.is_empty() {
        options.extend(["--cfg".to_owned(), revision.to_owned()]);
    }
    let prefix = format!("-Clink-arg=-B{}", proof.prefix.display());
    program.link = words(&["rustc", "-Awarnings", "-Clink-self-contained=-linker", &prefix]);
    program.link.extend(options);
    program.link.push(test.display().to_string());
    runs.then_some(program)
}

fn setting(words: &str) -> Option<(String, String)> {
    words.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
}

/// The directives of a test that count for a revision: names and what stands behind the colon.
fn directives<'text>(
    text: &'text str,
    revision: &'text str,
) -> impl Iterator<Item = (&'text str, &'text str)> {
    text.lines().filter_map(move |line| {
        let line = line.strip_prefix("//@")?.trim();
        let line = match line.strip_prefix('[') {
            Some(rest) => {
                let (revisions, rest) = rest.split_once(']')?;
                revisions.split(',').any(|one| one.trim() == revision).then_some(rest.trim())?
            }
            None => line,
        };
        let end = line.find([':', ' ']).unwrap_or(line.len());
        Some((&line[..end], line[end..].trim_start_matches(':').trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::{directives, forms, revisions, setting};

    #[test]
    fn directives_are_those_of_the_revision() {
        let text = "//@ revisions: a b\n//@[a] run-fail\n//@ exec-env:RUST_BACKTRACE=1\n//@[b] compile-flags: -O -g\n\
                    //@ ignore-android no such thing\n// run-pass\nfn main() {}\n";
        assert_eq!(revisions(text), ["a", "b"]);
        assert_eq!(revisions("//@ run-pass\n"), [""]);
        let of = |revision| directives(text, revision).collect::<Vec<_>>();
        let common =
            [("revisions", "a b"), ("exec-env", "RUST_BACKTRACE=1"), ("ignore-android", "no such thing")];
        assert_eq!(of("a"), [common[0], ("run-fail", ""), common[1], common[2]]);
        assert_eq!(of("b"), [common[0], common[1], ("compile-flags", "-O -g"), common[2]]);
        assert_eq!(setting("A=b=c"), Some(("A".into(), "b=c".into())));
    }

    #[test]
    fn tests_of_panics_unwind_and_others_that_say_so() {
        assert_eq!(forms("/panics/abort.rs", "").len(), 3);
        assert_eq!(forms("/mir/a.rs", "//@ run-pass").len(), 0);
        assert_eq!(forms("/mir/a.rs", "//@ run-pass\n//@ needs-unwind").len(), 2);
    }
}
