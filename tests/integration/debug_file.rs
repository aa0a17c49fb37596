//! Tests `--separate-debug-file`: the output has no debug sections and names the file that has them,
//! debuggers take the two for one program, and the command does not wait for the file.

use crate::need;
use crate::support::elf::{Elf, word};
use crate::support::{Work, tools};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SOURCE: &str =
    "static int twice(int n) {\n  return 2 * n;\n}\nint main(void) {\n  return twice(21) != 42;\n}\n";

/// Links a program with debug information by gcc, with these options of the linker.
fn linked(work: &Work, output: &str, options: &[&str]) {
    let object = work.c("main", SOURCE, &["-g", "-O0"]);
    let options: Vec<String> = options.iter().map(|option| format!("-Wl,{option}")).collect();
    let mut arguments = vec!["-o", output, &object];
    arguments.extend(options.iter().map(String::as_str));
    work.gcc(&arguments).ok();
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |state: u32, bit: u32| (state >> 1) ^ if (state ^ bit) & 1 == 1 { 0xedb8_8320 } else { 0 };
    let byte = |state, byte: &u8| (0..8).fold(state, |state, bit| step(state, u32::from(byte >> bit)));
    !bytes.iter().fold(!0, byte)
}

/// Waits for a file that a background process makes.
fn arrived(path: &Path) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < end, "no {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::read(path).unwrap()
}

#[test]
fn an_output_and_its_debug_file_are_one_program() {
    need!(tools::own_linker());
    let work = Work::new();
    linked(&work, "whole", &["--build-id"]);
    linked(&work, "program", &["--build-id", "--no-detach", "--separate-debug-file"]);
    let (whole, own) = (work.elf("whole"), work.elf("program"));
    let debug = Elf::parse(work.read("program.dbg")).unwrap();
    assert!(Command::new(work.path("program")).status().unwrap().success());

    let is_debug = |name: &&str| name.starts_with(".debug_");
    assert_eq!(own.section_names().into_iter().filter(|name| is_debug(name)).count(), 0);
    for section in whole.sections.iter().filter(|section| is_debug(&section.name.as_str())) {
        assert!(section.data[..] == debug.section(&section.name).data[..], "{}", section.name);
    }
    // All sections of the output have the same numbers in both files.
    for (section, twin) in own.sections.iter().zip(&debug.sections) {
        assert_eq!((&section.name, section.addr), (&twin.name, twin.addr));
    }
    assert_eq!(own.symbols(), debug.symbols());
    assert_eq!(own.notes(".note.gnu.build-id"), debug.notes(".note.gnu.build-id"));
    let link = &own.section(".gnu_debuglink").data;
    assert_eq!(&link[..link.len() - 4], b"program.dbg\0");
    assert_eq!(word(&link[..], link.len() - 4), crc(&work.read("program.dbg")));
    assert!(work.read("program").len() < work.read("whole").len());
    let elflint = need!(tools::elflint());
    let said = work.command(elflint, &["--gnu-ld", "--debug", "program.dbg"]).output();
    assert!(said.contains("No errors"), "{said}");
}

#[test]
fn a_debugger_finds_lines_by_the_link() {
    need!(tools::own_linker());
    let gdb = need!(tools::gdb());
    let work = Work::new();
    for options in [&[][..], &["--gdb-index"], &["--compress-debug-sections=zlib"]] {
        linked(&work, "program", &[&["--no-detach", "--separate-debug-file=frames.debug"], options].concat());
        let program = work.path("program").display().to_string();
        let arguments =
            ["-nx", "-batch", "-ex", "info line twice", "-ex", "list main,main", program.as_str()];
        let said = work.command(gdb.to_str().unwrap(), &arguments).output();
        assert!(said.contains("Line 1 of") && said.contains("int main(void)"), "{options:?}: {said}");
    }
}

#[test]
fn the_debug_file_depends_on_the_link_alone() {
    need!(tools::own_linker());
    let work = Work::new();
    let mut first: Option<[Vec<u8>; 2]> = None;
    for threads in ["--threads=1", "--threads=4", "--detach"] {
        linked(&work, "program", &["--separate-debug-file=p.dbg", threads]);
        let made = [work.read("program"), arrived(&work.path("p.dbg"))];
        assert!(first.get_or_insert_with(|| made.clone()) == &made, "{threads}");
    }
}

/// Somebody who reads the pipe takes the debug file's place: as long as nobody does, the file is being
/// written.
#[test]
fn the_program_runs_while_its_debug_file_is_written() {
    need!(tools::own_linker());
    let work = Work::new();
    work.command("mkfifo", &["pipe"]).quiet();
    // gcc's messages come through pipes here, which the background process has to let go of.
    linked(&work, "program", &["--separate-debug-file=pipe"]);
    assert!(Command::new(work.path("program")).status().unwrap().success());
    let debug = std::fs::read(work.path("pipe")).unwrap();
    let own = work.elf("program");
    let link = &own.section(".gnu_debuglink").data[..];
    assert_eq!(word(link, link.len() - 4), crc(&debug));
    assert!(!Elf::parse(debug).unwrap().section(".debug_info").data.is_empty());
}

/// The processes with a path among their arguments.
fn processes_with(path: &Path) -> Vec<i32> {
    let has = |process: &PathBuf| {
        let arguments = std::fs::read(process.join("cmdline")).unwrap_or_default();
        arguments.split(|&byte| byte == 0).any(|word| word.ends_with(path.as_os_str().as_encoded_bytes()))
    };
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let found = processes.filter(has);
    found.map(|process| process.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_writer_that_is_killed_leaves_the_program() {
    need!(tools::own_linker());
    let work = Work::new();
    work.command("mkfifo", &["pipe"]).quiet();
    let pipe = work.path("pipe");
    linked(&work, "program", &[&format!("--separate-debug-file={}", pipe.display())]);
    let writers = processes_with(&pipe);
    assert_eq!(writers.len(), 1, "one process writes the debug file");
    // SAFETY: the call takes numbers, and the process is the one of this test.
    assert_eq!(unsafe { libc::kill(writers[0], libc::SIGKILL) }, 0);
    assert!(Command::new(work.path("program")).status().unwrap().success());
    assert!(pipe.metadata().unwrap().file_type().is_fifo());
    let left: Vec<_> =
        std::fs::read_dir(work.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".sframe-ld-")), "{left:?}");
}

#[test]
fn an_old_debug_file_does_not_outlive_its_program() {
    need!(tools::own_linker());
    let work = Work::new();
    work.write("program", "old");
    let object = work.c("main", SOURCE, &["-g"]);
    let link = ["-o", "program", "-e", "main", &object];
    // Nothing is lost where the debug file cannot be made.
    let outcome = work.ld(&[&link[..], &["--separate-debug-file=nowhere/p.dbg"]].concat()).fails();
    outcome.says(&["cannot write nowhere/p.dbg"]);
    assert_eq!(work.read("program"), b"old");
    // A link that fails leaves both.
    work.write("program.dbg", "of the old program");
    work.ld(&[&link[..], &["--separate-debug-file", "--defsym=main2=missing"]].concat()).fails();
    assert_eq!(
        (work.read("program"), work.read("program.dbg")),
        (b"old".into(), b"of the old program".into())
    );
    work.ld(&[&link[..], &["--separate-debug-file", "--no-detach"]].concat()).ok();
    assert!(Elf::parse(work.read("program.dbg")).unwrap().find(".debug_info").is_some());
}

#[test]
fn a_link_that_fails_says_so_and_ends_so() {
    need!(tools::own_linker());
    let work = Work::new();
    let object = work.s("calls", ".globl _start\n_start: call missing\n");
    work.ld(&["--separate-debug-file", "-o", "out", &object]).fails().says(&["undefined symbol: missing"]);
    assert!(!work.exists("out") && !work.exists("out.dbg"));
}

#[test]
fn what_cannot_go_together_is_refused() {
    need!(tools::own_linker());
    let work = Work::new();
    let object = work.c("main", SOURCE, &["-g"]);
    for other in ["-r", "--emit-relocs", "-znosectionheader", "--oformat=binary"] {
        let link = ["-e", "main", "-o", "out", "--separate-debug-file", other, &object];
        work.ld(&link).fails().says(&["--separate-debug-file may not be used together"]);
    }
    work.ld(&["-e", "main", "-o", "out", "--separate-debug-file=out", &object])
        .fails()
        .says(&["out is the output, too"]);
    let link = format!("--separate-debug-file={object}");
    work.ld(&["-e", "main", "-o", "out", &link, &object]).fails().says(&["is also an input"]);
    assert!(!work.exists("out"));
}

/// Debug sections that a script puts anywhere, and symbols in them.
#[test]
fn scripts_may_name_debug_sections() {
    need!(tools::own_linker());
    let work = Work::new();
    let object = work.c("main", SOURCE, &["-g"]);
    work.write("a.ld", "SECTIONS {\n.debug_info 0 : { information = .; *(.debug_info) }\n.text 0x10000 : { *(.text*) }\n.eh_frame : { *(.eh_frame) }\n.last 0 : { BYTE(1) }\n}\n");
    let link = [
        "-T",
        "a.ld",
        "-e",
        "main",
        "-o",
        "out",
        "--no-detach",
        "--separate-debug-file",
        "-Map=map",
        &object,
    ];
    work.ld(&link).ok();
    let (own, debug) = (work.elf_unchecked("out"), Elf::parse(work.read("out.dbg")).unwrap());
    assert!(own.find(".debug_info").is_none() && debug.find(".debug_info").is_some());
    assert_eq!(own.symbol("information"), debug.symbol("information"));
    assert!(String::from_utf8(work.read("map")).unwrap().contains(".debug_info"));
}
