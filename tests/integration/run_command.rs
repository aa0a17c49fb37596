//! `sframe-ld -run COMMAND`: this linker makes every link of a build, whatever name or path is started.

use crate::need;
use crate::support::work::linker;
use crate::support::{Work, tools};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Builds the library that the programs of a build load.
fn library() -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sframe-run");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args(["build", "--quiet", "--locked", "-p", "sframe-run", "--target-dir"]).arg(&target);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug/libsframe_run.so").display().to_string()
}

fn work() -> Work {
    let mut work = Work::new();
    work.env("SFRAME_RUN_LIBRARY", &library());
    work
}

#[test]
fn every_link_of_a_build_is_redirected() {
    let work = work();
    let main = work.cc("main", "int main() { return 0; }", &["-fPIE"]);
    let run = |words: &[&str]| work.command(linker(), &[&["-run"], words].concat());
    // In the compiler's own way, by the names that users give it, through a shell and make.
    run(&["gcc", "-o", "program", &main]).quiet();
    assert!(work.made_here("program"));
    for (number, name) in ["bfd", "gold"].iter().enumerate() {
        let (option, out) = (format!("-fuse-ld={name}"), format!("by-name{number}"));
        if work.command("gcc", &[&option, "-o", "other", &main]).code == Some(0) {
            run(&["gcc", &option, "-o", &out, &main]).quiet();
            assert!(work.made_here(&out), "{name}");
        }
    }
    work.write("Makefile", format!("all:\n\tgcc -o by-make {main} && ld -r -o by-ld.o {main}\n"));
    let make = need!(tools::peer_program("make")).display().to_string();
    run(&[&make, "-s"]).quiet();
    assert!(work.made_here("by-make") && work.exists("by-ld.o"));
    // The command itself, by the path of another linker.
    let other = need!(tools::peer_linker("lld")).display().to_string();
    let said = run(&[&other, "--version"]).quiet().stdout;
    assert!(said.contains("sframe-ld"), "{said}");
    // By the name of rustc's own linker.
    work.write_program("rust-lld", "#!/bin/sh\nexit 9\n");
    let said = run(&["./rust-lld", "-flavor", "gnu", "--version"]).quiet().stdout;
    assert!(said.contains("sframe-ld"), "{said}");
    let options = run(&["env", "SFRAME_LD_OPTIONS=--no-such-option", "gcc", "-o", "program", &main]).fails();
    options.says(&["no-such-option"]);
}

/// Starts a program of the folder `tools` with `--version`, through the function that the first argument
/// names.
const STARTER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    char *arguments[] = {words[2], "--version", 0};
    int folder = open("tools", O_RDONLY), file = openat(folder, words[2], O_RDONLY);
    if (!strcmp(words[1], "fexecve")) fexecve(file, arguments, environ);
    if (!strcmp(words[1], "file")) execveat(file, "", arguments, environ, AT_EMPTY_PATH);
    if (!strcmp(words[1], "folder")) execveat(folder, words[2], arguments, environ, 0);
    return 8;
}"#;

#[test]
fn linkers_that_are_started_as_open_files_are_redirected() {
    let work = work();
    let object = work.c("starter", STARTER, &[]);
    work.command("gcc", &["-o", "starter", &object]).ok();
    work.write_program("tools/ld", "#!/bin/sh\nexit 9\n");
    work.write_program("tools/other", "#!/bin/sh\necho other\n");
    for way in ["fexecve", "file", "folder"] {
        let run = |tool: &str| work.command(linker(), &["-run", "./starter", way, tool]).quiet().stdout;
        let said = run("ld");
        assert!(said.contains("sframe-ld"), "{way}: {said}");
        assert_eq!(run("other"), "other\n", "{way}");
    }
}

#[test]
fn the_exit_status_is_the_command_s_and_what_escapes_is_said_once() {
    let work = work();
    let run = |words: &[&str]| work.command(linker(), &[&["-run"], words].concat());
    assert_eq!(run(&["sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(run(&["no-such-command"]).code, Some(127));
    run(&[]).fails().says(&["no command behind it"]);
    let program = work.c("static", "int main(void) { return 0; }", &[]);
    work.command("gcc", &["-static", "-o", "static", &program]).ok();
    let outcome = run(&["sh", "-c", "./static; ./static; ./static"]).ok();
    assert_eq!(outcome.stderr.matches("links that it starts are not redirected").count(), 1, "{outcome}");
    let outcome = run(&["ld", "-m", "elf_i386", "--version"]).ok();
    assert!(
        outcome.stderr.contains("that link is left to it") && !outcome.stdout.contains("sframe-ld"),
        "{outcome}"
    );
    work.ld(&["x.o", "-run", "true"]).fails().says(&["must be the first option"]);
}

#[test]
fn a_link_that_only_another_linker_can_make_is_not_redirected_again() {
    let mut work = work();
    work.write_program("system/ld", "#!/bin/sh\necho \"system: $*\"\n");
    // The header of an object for a 32-bit machine.
    work.write("narrow.o", [b"\x7fELF\x01\x01\x01".as_slice(), &[0; 45]].concat());
    let path = format!("{}:{}", work.path("system").display(), std::env::var("PATH").unwrap());
    work.env("PATH", &path);
    let outcome = work.command(linker(), &["-run", "ld", "narrow.o"]).ok();
    assert_eq!(outcome.stdout, "system: narrow.o\n", "{outcome}");
    assert!(outcome.stderr.contains("32 bits"), "{outcome}");
}

/// Starts a shell script in its own process group, and waits until the script has made the file `ready`.
fn start(work: &Work, script: &str) -> Child {
    std::fs::create_dir(work.path("temporary")).unwrap();
    let mut command = Command::new(linker());
    command.args(["-run", "sh", "-c", script]).current_dir(work.path(".")).process_group(0);
    command.env("TMPDIR", work.path("temporary")).env("SFRAME_RUN_LIBRARY", library());
    // The tests may run with these signals ignored (`nohup`), and processes inherit that.
    let taken = || {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: this is a system call without a handler.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the new process only makes system calls.
    unsafe { command.pre_exec(taken) };
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !work.exists("ready") {
        assert!(child.try_wait().unwrap().is_none(), "the script ended early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child
}

/// Whether a process took the signal; a negative number is a process group.
fn kill(process: i32, signal: i32) -> bool {
    // SAFETY: this is a system call.
    unsafe { libc::kill(process, signal) == 0 }
}

#[track_caller]
fn leaves_nothing(work: &Work) {
    let left: Vec<_> = std::fs::read_dir(work.path("temporary")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_command_that_cleans_up_after_ctrl_c_is_waited_for() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        let work = work();
        let script = format!("trap ': > cleaned; exit 3' {signal}; : > ready; while :; do sleep 0.01; done");
        let mut child = start(&work, &script);
        assert!(kill(-child.id().cast_signed(), signal));
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert!(work.exists("cleaned"));
        leaves_nothing(&work);
    }
}

#[test]
fn a_signal_to_end_reaches_the_command() {
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let work = work();
        let mut child = start(&work, "echo $$ > made; mv made ready; exec sleep 100");
        let command: i32 = String::from_utf8(work.read("ready")).unwrap().trim().parse().unwrap();
        assert!(kill(child.id().cast_signed(), signal));
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert!(!kill(command, 0), "the command goes on");
        leaves_nothing(&work);
    }
}

#[test]
fn without_its_library_the_command_does_not_run() {
    let mut work = Work::new();
    work.env("SFRAME_RUN_LIBRARY", "");
    work.write_program("mark", "#!/bin/sh\n: > ran\n");
    let copy = work.path("alone");
    std::fs::copy(linker(), &copy).unwrap();
    work.command(&copy, &["-run", "./mark"]).fails().says(&["libsframe_run.so", "SFRAME_RUN_LIBRARY"]);
    assert!(!work.exists("ran"));
}
