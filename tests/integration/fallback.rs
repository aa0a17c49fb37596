//! Links for 32-bit machines go to the system's linker with the requested name.

use crate::support::Work;
use crate::support::work::linker;
use std::os::unix::fs::symlink;

/// Replaces a linker of the system: prints its name and its arguments, and ends with status 7.
const SYSTEM: &str = "#!/bin/sh\necho \"system ${0##*/}: $*\"\nexit 7\n";

/// A folder `own` with this linker under several names, and a folder `system` with other linkers.
fn work() -> Work {
    let mut work = Work::new();
    work.write("own/empty", "");
    for name in ["ld", "ld.lld", "ld.gold", "sframe-ld"] {
        symlink(linker(), work.path("own").join(name)).unwrap();
    }
    work.write_program("system/ld", SYSTEM);
    work.write_program("system/ld.lld", SYSTEM);
    path(&mut work, &["own", "system"]);
    // The header of an i386 object is enough, because nothing else of it is read.
    let mut header = [0; 52];
    header[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    (header[16], header[18], header[20]) = (1, 3, 1);
    work.write("narrow.o", header);
    work
}

/// Sets `PATH` to folders in the scratch directory.
fn path(work: &mut Work, folders: &[&str]) {
    let path = std::env::join_paths(folders.iter().map(|folder| work.path(folder))).unwrap();
    work.env("PATH", path.to_str().unwrap());
}

fn handed_on(work: &Work, program: &str, words: &[&str], to: &str) {
    became(work, program, words, &format!("system {to}: {}\n", words.join(" ")));
}

fn became(work: &Work, program: &str, words: &[&str], said: &str) {
    let outcome = work.command(work.path(program), words);
    assert_eq!(outcome.stdout, said, "{outcome}");
    assert_eq!(outcome.code, Some(7), "{outcome}");
    assert_eq!(outcome.stderr.matches("32 bits").count(), 1, "{outcome}");
}

#[test]
fn emulations_of_32_bits_go_to_the_linker_of_the_asked_name() {
    let work = work();
    let i386 = ["-m", "elf_i386", "--option-of-the-other", "-o", "x", "narrow.o"];
    handed_on(&work, "own/ld", &i386, "ld");
    handed_on(&work, "own/ld.lld", &i386, "ld.lld");
    handed_on(&work, "own/sframe-ld", &i386, "ld");
    // The system has no linker with that name.
    handed_on(&work, "own/ld.gold", &i386, "ld");
    handed_on(&work, "own/ld", &["-melf_x86_64", "-melf32_x86_64", "-r", "a.o"], "ld");
    handed_on(&work, "own/ld", &["--oformat=elf32-i386", "a.o"], "ld");
    // If the link only prints something, or ends with a 64-bit emulation, it stays here.
    let version = work.command(work.path("own/ld"), &["-m", "elf_i386", "-v"]).ok();
    assert!(version.stdout.contains("sframe-ld"), "{version}");
    work.command(work.path("own/ld"), &["-melf_i386", "-melf_x86_64", "no.o"]).fails().says(&["no.o"]);
}

#[test]
fn inputs_and_scripts_of_32_bits_go_there_too() {
    let work = work();
    // If linkers do not look at inputs, they take the machine from options.
    became(&work, "own/ld", &["narrow.o", "-o", "x"], "system ld: -m elf_i386 narrow.o -o x\n");
    let header = format!("!<arch>\n{:<48}{:<10}`\n", "narrow.o/", 52);
    work.write("libn.a", [header.as_bytes(), &work.read("narrow.o")].concat());
    became(&work, "own/ld", &["libn.a"], "system ld: -m elf_i386 libn.a\n");
    work.write("format.ld", "OUTPUT_FORMAT(elf32-i386) SECTIONS { .text : { *(.text) } }");
    work.write("arch.ld", "OUTPUT_ARCH(i386) SECTIONS { .text : { *(.text) } }");
    for script in ["format.ld", "arch.ld"] {
        handed_on(&work, "own/ld", &["-T", script, "a.o"], "ld");
    }
    // An object for another machine among objects for this one is a mistake. A compiler on `PATH` makes it.
    let made = Work::new();
    let a = work.write("a.o", made.read(&made.s("a", ".globl _start\n_start: ret\n")));
    work.command(work.path("own/ld"), &[&a, "narrow.o"]).fails().says(&["32-bit", "narrow.o"]);
    work.command(work.path("own/ld"), &["-melf_x86_64", "narrow.o"]).fails().says(&["32-bit", "narrow.o"]);
}

#[test]
fn no_fallback_refuses_and_keeps_the_old_output() {
    let work = work();
    work.write("x", "old");
    for words in [&["-m", "elf_i386", "-o", "x", "narrow.o"][..], &["-o", "x", "narrow.o"]] {
        let words = [&["--no-fallback"], words].concat();
        let outcome = work.command(work.path("own/ld"), &words).fails();
        assert!(!outcome.stdout.contains("system"), "{outcome}");
    }
    assert_eq!(work.read("x"), b"old");
}

#[test]
fn no_copy_and_no_wrapper_of_this_linker_makes_a_loop() {
    let mut work = work();
    work.write("copy/empty", "");
    std::fs::copy(linker(), work.path("copy/ld")).unwrap();
    let call = format!("#!/bin/sh\n{} \"$@\"\n", linker().display());
    work.write_program("wrapper/ld", call);
    path(&mut work, &["own", "copy", "wrapper", "system"]);
    became(&work, "own/ld", &["narrow.o"], "system ld: -m elf_i386 narrow.o\n");
    handed_on(&work, "copy/ld", &["-m", "elf_i386", "a.o"], "ld");
    // Only this linker exists.
    path(&mut work, &["own", "copy", "wrapper"]);
    for program in ["own/ld", "copy/ld"] {
        work.command(work.path(program), &["narrow.o"]).fails().says(&["no other linker ld"]);
    }
}
