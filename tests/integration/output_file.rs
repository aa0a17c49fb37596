//! The output file of a link that does not reach its end (no room, a limit, a signal), and inputs that the
//! output would overwrite.

use crate::on_every_machine;
use crate::support::machine::Machine;
use crate::support::work::linker;
use crate::support::{Work, tools};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An object whose output takes more than a million bytes.
fn large(work: &Work) -> String {
    work.s("large", ".globl _start\n_start: ret\n.data\n.rept 140000\n.quad 0x0123456789abcdef\n.endr\n")
}

/// The names in a folder, including hidden ones.
fn names(work: &Work, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(work.path(folder)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A thread makes the contents of one section where it made those of another before.
fn bytes_that_no_input_has_are_zeros_whatever_was_written_before(machine: &'static Machine) {
    let work = Work::on(machine);
    let full = work.s("full", ".section .rodata,\"a\"\n.fill 9000, 1, 0xee\n");
    let first = work.s("first", ".data\n.byte 1\n.bss\n.skip 40\n");
    let second = work.s("second", ".data\n.balign 64\n.byte 2\n");
    let third = work.s("third", ".data\n.balign 32\n.byte 3\n");
    let script =
        work.write("script", "SECTIONS { .rodata : { *(.rodata) } .data : { *(.data .bss) . += 20; } }\n");
    for mode in [&["-e", "0"][..], &["-r"]] {
        let words = ["--threads=1", "-o", "out", "-T", &script, &full, &first, &second, &third];
        work.ld(&[mode, &words].concat()).quiet();
        let elf = work.elf_unchecked("out");
        let data = &elf.section(".data").data;
        let bytes: Vec<u8> = data.iter().copied().filter(|&byte| byte != 0).collect();
        assert_eq!((bytes, data.len() > 96 + 20), (vec![1, 2, 3], true), "{mode:?}: {data:?}");
    }
}

on_every_machine!(bytes_that_no_input_has_are_zeros_whatever_was_written_before,);

#[test]
fn a_full_disk_is_an_error_and_the_old_output_stays() {
    let work = Work::new();
    let object = large(&work);
    std::fs::create_dir(work.path("disk")).unwrap();
    let mount = "mount -t tmpfs -o size=512k none disk";
    if work.command("unshare", &["-m", "sh", "-c", mount]).code != Some(0) {
        let reason = "no file system can be mounted here";
        tools::skip("output_file::a_full_disk_is_an_error_and_the_old_output_stays", reason);
        return;
    }
    let linker = linker();
    let script = format!(
        "{mount} && echo old > disk/out && {} -o disk/out {object}; echo status $?; cat disk/out; ls -A disk",
        linker.display()
    );
    let outcome = work.command("unshare", &["-m", "sh", "-c", &script]).ok();
    assert_eq!(outcome.stdout, "status 1\nold\nout\n", "{outcome}");
    outcome.says(&["cannot write disk/out: No space left on device", "the output takes 11"]);
}

/// A full disk only has room for reserved blocks; not even a hole in the output may be read.
#[test]
fn holes_of_the_output_take_no_room_on_a_full_disk() {
    let work = Work::new();
    let object = work.s("hole", ".globl _start\n_start: ret\n.data\n.balign 0x800000\n.quad 1\n");
    std::fs::create_dir(work.path("disk")).unwrap();
    let mount = "mount -t tmpfs -o size=2m none disk";
    if work.command("unshare", &["-m", "sh", "-c", mount]).code != Some(0) {
        tools::skip(
            "output_file::holes_of_the_output_take_no_room_on_a_full_disk",
            "no file system can be mounted here",
        );
        return;
    }
    for kind in ["fast", "md5", "sha1", "uuid"] {
        let script = format!(
            "{mount} && {} -z max-page-size=0x800000 --build-id={kind} -o disk/out {object} && cp disk/out out-{kind}",
            linker().display()
        );
        work.command("unshare", &["-m", "sh", "-c", &script]).ok();
        assert!(work.read(&format!("out-{kind}")).len() > 8 << 20, "no hole");
        if kind != "uuid" {
            let build_id = format!("--build-id={kind}");
            work.ld(&["-z", "max-page-size=0x800000", &build_id, "-o", "roomy", &object]).quiet();
            assert!(work.read("roomy") == work.read(&format!("out-{kind}")), "{kind} depends on the disk");
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_the_old_output_stays() {
    let work = Work::new();
    let object = large(&work);
    work.write("folder/out", "old");
    let script = format!("ulimit -f 100; exec {} -o folder/out {object}", linker().display());
    work.command("sh", &["-c", &script]).fails().says(&[
        "cannot write folder/out: File too large",
        "the output takes 11",
        "ulimit -f",
    ]);
    assert_eq!(work.read("folder/out"), b"old");
    assert_eq!(names(&work, "folder"), ["out"]);
}

/// Links with several threads and sends a signal after the delay, more than once: a terminal and make both
/// tell a link to end, and each thread may abort. Returns the signal that ended the link, if one did.
fn interrupted(work: &Work, object: &str, signal: i32, delay: Duration) -> Option<i32> {
    let mut child = Command::new(linker())
        .args(["--threads=4", "-o", "folder/out", object])
        .current_dir(work.path("."))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(delay);
    for _ in 0..4 {
        // SAFETY: this is a system call. Nobody has waited for the child yet, so the number is still its own.
        unsafe { libc::kill(child.id() as i32, signal) };
    }
    child.wait().unwrap().signal()
}

#[test]
fn signals_at_any_moment_leave_nothing_behind() {
    let work = Work::new();
    let object = large(&work);
    work.write("folder/out", "old");
    let started = Instant::now();
    work.ld(&["-o", "new", &object]).ok();
    let whole = started.elapsed();
    let new = work.read("new");
    let mut ended = 0;
    for round in 0..200u32 {
        let signal = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGABRT][round as usize % 4];
        // The moments spread over the whole link, in the order of a golden section.
        let moment = f64::from(round) * 0.618_033_988_75 % 1.0;
        let by = interrupted(&work, &object, signal, whole.mul_f64(moment));
        assert!(by.is_none_or(|by| by == signal), "signal {signal}, ended by {by:?}");
        ended += u32::from(by.is_some());
        assert_eq!(names(&work, "folder"), ["out"], "round {round}, after {moment} of the link");
        let content = work.read("folder/out");
        assert!(content == new || by.is_some() && content == b"old", "round {round}: neither old nor new");
        work.write("folder/out", "old");
    }
    assert!(ended > 20, "{ended} of 200 links were interrupted");
}

#[test]
fn temporary_files_of_a_killed_link_go_with_the_next_link() {
    let work = Work::new();
    let object = large(&work);
    work.write("folder/out", "old");
    let mut left = false;
    for step in 1..400 {
        interrupted(&work, &object, libc::SIGKILL, Duration::from_micros(step * 500));
        left = names(&work, "folder").len() > 1;
        if left {
            break;
        }
    }
    assert!(left, "no link was killed while it wrote");
    work.write("folder/.out.sframe-ld-3", "left by a link beside others");
    work.ld(&["-o", "folder/out", &object]).quiet();
    assert_eq!(names(&work, "folder"), ["out"]);
}

#[test]
fn the_temporary_file_of_another_link_stays() {
    let work = Work::new();
    let object = large(&work);
    work.write("folder/.out.sframe-ld-0", "at work");
    let other = std::fs::File::open(work.path("folder/.out.sframe-ld-0")).unwrap();
    other.lock().unwrap();
    work.ld(&["-o", "folder/out", &object]).quiet();
    assert_eq!(names(&work, "folder"), [".out.sframe-ld-0", "out"]);
    assert_eq!(work.read("folder/.out.sframe-ld-0"), b"at work");
}

#[test]
fn an_output_that_is_an_input_is_refused_whatever_path_leads_to_it() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: call f\n");
    let f = work.s("f", ".globl f\nf: ret\n");
    let archive = work.ar("libf.a", "", &[&f]);
    let thin = work.ar("libthin.a", "T", &[&f]);
    std::os::unix::fs::symlink(&f, work.path("symbolic")).unwrap();
    std::fs::hard_link(work.path(&f), work.path("hard")).unwrap();
    work.write("script.ld", "SECTIONS { .text : { *(.text) } INCLUDE included.ld }");
    work.write("included.ld", ".data : { *(.data) }");
    work.write("map", "{ global: *; };");
    work.write("list", "{ f; };");
    work.write("names", "f");
    work.write("calls", "_start f 1");
    work.write("remap", "other.o f.o");
    work.write("response", format!("@inner {f}"));
    work.write("inner", a.as_str());
    let kept = |name: &str| (name.to_owned(), work.read(name));
    let texts = ["script.ld", "included.ld", "map", "list", "names", "calls", "remap", "response", "inner"];
    let before: Vec<_> = [&*a, &f, &archive].iter().chain(&texts).map(|name| kept(name)).collect();
    let refused: &[(&[&str], &str)] = &[
        (&["-r", "-o", &f, &f], "the output f.o is also an input"),
        (&["-r", "-o", "./f.o", &f], "the output ./f.o is the same file as the input f.o"),
        (&["-r", "-o", "symbolic", &f], "the output symbolic is the same file as the input f.o"),
        (&["-r", "-o", "hard", &a, &f], "the output hard is the same file as the input f.o"),
        (&["-o", &archive, &a, "-L.", "-lf"], "the output libf.a is the same file as the input ./libf.a"),
        (&["-o", &f, &a, &thin], "the output f.o is also an input"),
        (&["-o", "out", &a, &f, "-Map", &f], "the map f.o is also an input"),
        (&["-o", "out", &a, &f, "--dependency-file=f.o"], "the dependency file f.o is also an input"),
        (&["-o", "out", &a, &f, "--reproduce=hard"], "the archive of --reproduce hard is the same file as"),
        (&["-o", "out", "missing.o", &f, "--reproduce=f.o"], "cannot find missing.o"),
        (&["-o", "out", &a, &f, "--time-trace=f.o"], "the time trace f.o is also an input"),
        (&["-o", "out", "missing.o", &f, "--time-trace=f.o"], "cannot find missing.o"),
        (&["-o", "out", &a, &f, "--print-symbol-order=f.o"], "the order of symbols f.o is also an input"),
        (
            &["-o", "out", &a, &archive, "--why-extract=a.o"],
            "the reasons for extraction a.o is also an input",
        ),
        (&["-o", "included.ld", &a, &f, "-T", "script.ld"], "the output included.ld is also an input"),
        (&["-o", "script.ld", &a, &f, "-T", "script.ld"], "the output script.ld is also an input"),
        (&["-shared", "-o", "map", &f, "--version-script=map"], "the output map is also an input"),
        (&["-shared", "-o", "list", &f, "--dynamic-list=list"], "the output list is also an input"),
        (&["-shared", "-o", "list", &f, "--export-dynamic-symbol-list=list"], "the output list is"),
        (&["-o", "names", &a, &f, "--retain-symbols-file=names"], "the output names is also an input"),
        (&["-o", "names", &a, &f, "--symbol-ordering-file=names"], "the output names is also an input"),
        (&["-o", "names", &a, &f, "--section-ordering-file=names"], "the output names is also an input"),
        (&["-o", "calls", &a, &f, "--call-graph-ordering-file=calls"], "the output calls is also an input"),
        (&["-o", "remap", &a, &f, "--remap-inputs-file=remap"], "the output remap is also an input"),
        (&["-o", "response", "@response"], "the output response is also an input"),
        (&["-o", "./inner", "@response"], "the output ./inner is the same file as the input inner"),
        (&["-o", "out", "@response", "-Map=response"], "the map response is also an input"),
    ];
    for (arguments, message) in refused {
        work.ld(arguments).fails().says(&[message]);
        assert!(!work.exists("out"), "{arguments:?}");
        for (name, bytes) in &before {
            assert!(work.read(name) == *bytes, "{arguments:?} wrote to {name}");
        }
    }
}

#[test]
fn a_library_that_another_one_needs_may_be_the_output() {
    let work = Work::new();
    let f = work.s("f", ".globl f\nf: ret\n");
    let g = work.s("g", ".globl g\ng: call f@PLT\n");
    work.ld(&["-shared", "-o", "libf.so", "-soname", "libf.so", &f]).quiet();
    work.ld(&["-shared", "-o", "libg.so", "-soname", "libg.so", &g, "libf.so"]).quiet();
    work.ld(&["-shared", "-o", "libf.so", "-soname", "libf.so", &f, "libg.so", "-rpath-link=."]).quiet();
}

/// Runs a command and adopts the orphans among its descendants. Prints which processes end, in order.
const REAPER: &str = r#"
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_t linker = fork();
  if (linker == 0) { execv(argv[1], argv + 1); _exit(127); }
  int status;
  for (pid_t ended; (ended = wait(&status)) > 0;)
    printf("%s %d\n", ended == linker ? "linker" : "helper", status);
  return 0;
}
"#;

/// A single process frees the memory of a large link after its end, and ends well. A small link and
/// `--no-detach` leave no such process.
#[test]
fn a_large_link_leaves_its_memory_to_a_process_that_ends() {
    let work = Work::new();
    work.write("reaper.c", REAPER);
    work.command("gcc", &["-o", "reaper", "reaper.c"]).ok();
    let object = work.s("one", ".globl _start\n_start: ret\n.data\n.byte 1\n");
    let sized = |size: &str| {
        format!("SECTIONS {{ .text : {{ *(.text) }} .data : {{ *(.data) FILL(0x90) . += {size}; }} }}")
    };
    work.write("large.ld", sized("0x4800000"));
    work.write("small.ld", sized("0x60"));
    let linker = linker().display().to_string();
    for (script, option, processes) in [
        ("large.ld", "--detach", "linker 0\nhelper 0\n"),
        ("large.ld", "--no-detach", "linker 0\n"),
        ("small.ld", "--detach", "linker 0\n"),
    ] {
        // The first link makes an output, the second one replaces it.
        for _ in 0..2 {
            let arguments = [&linker, option, "-T", script, "-o", "out", &object];
            let outcome = work.command("./reaper", &arguments).ok();
            assert_eq!(outcome.stdout, processes, "{script} {option}: {outcome}");
        }
        assert_eq!(names(&work, ".").iter().filter(|name| name.contains("sframe-ld")).count(), 0);
    }
}
