//! Tests the C interface: the header and the library have the same functions, and the examples, a profiler
//! and an agent in C, print the stacks of a program.

use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that runs for a while in `inner`, and starts a second process that does, too.
const PROGRAM: &str = "
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
__attribute__((noipa)) double inner(int rounds)
{
    volatile double sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += i * 0.5;
    return sum;
}
__attribute__((noipa)) double middle(int rounds) { return inner(rounds) + 1; }
__attribute__((noipa)) double outer(void)
{
    double sum = 0;
    while (clock() < CLOCKS_PER_SEC / 4)
        sum += middle(10000) + 1;
    return sum;
}
int main(void)
{
    int child = fork();
    double sum = outer();
    if (child > 0)
        waitpid(child, 0, 0);
    return sum < 0;
}
";

/// The file that cargo has built beside the test's program.
fn built(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    program.parent().expect("a folder").join(name)
}

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/sframe-stacks.h")
}

/// The functions that the header declares: the names in front of `(` outside of
/// comments, directives and types.
fn declared() -> BTreeSet<String> {
    let text = std::fs::read_to_string(header()).unwrap();
    let mut code = String::new();
    let mut rest = &text[..];
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").expect("comments end").1;
    }
    code.push_str(rest);
    let lines: Vec<&str> = code.lines().filter(|line| !line.starts_with('#')).collect();
    let code = lines.join("\n");
    let statements = code.split(';').filter(|statement| !statement.contains("typedef"));
    let names = statements.filter_map(|statement| statement.split_once('(')).map(|(before, _)| before);
    let names = names.filter_map(|before| before.rsplit([' ', '*', '\n']).next());
    names.filter(|name| name.starts_with("sframe_")).map(str::to_owned).collect()
}

#[test]
fn the_library_has_the_functions_of_the_header_and_no_others() {
    let bytes = std::fs::read(built("libsframe_stacks.so")).expect("the library");
    let file = object::File::parse(&*bytes).unwrap();
    let exported = file.dynamic_symbols().filter(|symbol| !symbol.is_undefined());
    let exported: BTreeSet<String> =
        exported.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
    let declared = declared();
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(exported, declared);
}

/// Compiles a program against the library. `None`: there is no compiler.
fn compile(folder: &Path, source: &Path, program: &str, library: bool) -> Option<PathBuf> {
    let output = folder.join(program);
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer", "-o"]);
    command.arg(&output).arg(source);
    if library {
        command.arg("-I").arg(header().parent().expect("a folder")).arg(built("libsframe_stacks.a"));
        command.args(["-lgcc_s", "-lpthread", "-ldl", "-lm"]);
    }
    let done = command.output().ok()?;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(output)
}

#[test]
fn the_profiler_in_c_prints_the_stacks_of_a_program_and_its_child() {
    const TEST: &str = "the_profiler_in_c_prints_the_stacks_of_a_program_and_its_child";
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/profiler-c/main.c");
    let Some(program) = compile(folder.path(), &source, "program", false) else {
        return peers::tree::skip(scratch, TEST, "no C compiler");
    };
    let profiler = compile(folder.path(), &example, "profiler", true).expect("a compiler");
    let output = Command::new(profiler).arg(program).output().unwrap();
    let (stacks, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(3) {
        return peers::tree::skip(scratch, TEST, said.trim());
    }
    assert!(output.status.success(), "{said}");
    let samples = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
    let count = |wanted: &str| -> u64 {
        stacks.lines().filter(|line| line.contains(wanted)).filter_map(samples).sum()
    };
    let all: u64 = stacks.lines().filter_map(samples).sum();
    // A quarter of a second each, with almost a thousand samples in a second.
    assert!(all > 100, "{said}{stacks}");
    assert!(count("main;outer;middle;inner ") * 10 > all * 9, "{said}{stacks}");
    assert!(said.contains("stacks, "), "{said}");
}

#[test]
fn the_agent_in_c_polls_for_the_samples_of_a_process_until_it_ends() {
    const TEST: &str = "the_agent_in_c_polls_for_the_samples_of_a_process_until_it_ends";
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.c");
    std::fs::write(&source, PROGRAM.replace("CLOCKS_PER_SEC / 4", "2 * CLOCKS_PER_SEC")).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agent-c/main.c");
    let Some(program) = compile(folder.path(), &source, "program", false) else {
        return peers::tree::skip(scratch, TEST, "no C compiler");
    };
    let agent = compile(folder.path(), &example, "agent", true).expect("a compiler");
    let mut sampled = Command::new(program).spawn().unwrap();
    let output = Command::new(&agent).args(["600", &sampled.id().to_string()]).output();
    sampled.wait().unwrap();
    let output = output.unwrap();
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(3) {
        return peers::tree::skip(scratch, TEST, said.trim());
    }
    // It has ended with the process, long before its own time.
    assert!(output.status.success(), "{said}");
    let count = |wanted: &str| -> u64 {
        let lines = shown.lines().filter(|line| line.ends_with(wanted));
        lines.filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok()).sum()
    };
    assert!(count(" inner") > 100, "{shown}{said}");
    let nobody = Command::new(agent).args(["1", "2147483647"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("No such process"));
}
