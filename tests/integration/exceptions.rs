//! C++ exceptions: throw and catch are on two sides of a shared library's boundary.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work, eh_frame, sframe};

const HEADER: &str = "
struct Problem { virtual ~Problem(); int code; explicit Problem(int c) : code(c) {} };
void raise(int code);
int guarded(void (*f)(int), int code);
";

const LIBRARY: &str = r#"
#include "problem.h"
Problem::~Problem() {}
void raise(int code) { throw Problem(code); }
int guarded(void (*f)(int), int code) {
    try { f(code); } catch (const Problem &p) { return p.code + 100; }
    return 0;
}
"#;

const PROGRAM: &str = r#"
#include <cstdio>
#include "problem.h"
static int destroyed;
struct Guard { ~Guard() { destroyed++; } };
static void thrower(int code) { Guard g; throw Problem(code); }
int main() {
    int caught = 0;
    try { Guard g; raise(7); } catch (const Problem &p) { caught = p.code; }
    int guarded_result = guarded(thrower, 5);
    std::printf("%d %d %d\n", caught, guarded_result, destroyed);
}
"#;

fn exceptions_cross_a_shared_library_in_both_directions(machine: &'static Machine) {
    for (compile, link) in [("-fPIE", "-pie"), ("-fno-PIE", "-no-pie")] {
        let work = Work::on(machine);
        work.write("problem.h", HEADER);
        let library = work.cc("library", LIBRARY, &["-fPIC"]);
        work.gxx(&["-shared", "-o", "libproblem.so", &library]).quiet();
        let program = work.cc("program", PROGRAM, &[compile]);
        work.gxx(&[link, "-o", "program", &program, "-L.", "-lproblem"]).quiet();
        assert_eq!(work.run("program"), "7 105 2\n");
        for file in ["program", "libproblem.so"] {
            let elf = work.elf(file);
            eh_frame::check(&elf);
            let header = elf.segment(PT_GNU_EH_FRAME);
            let section = elf.section(".eh_frame_hdr");
            assert_eq!((header.addr, header.size), (section.addr, section.size));
        }
    }
}

fn exceptions_work_in_static_programs(machine: &'static Machine) {
    for link in ["-static", "-static-pie"].into_iter().filter(|link| machine.links(link)) {
        let work = Work::on(machine);
        work.write("problem.h", HEADER);
        let library = work.cc("library", LIBRARY, &["-fPIE"]);
        let program = work.cc("program", PROGRAM, &["-fPIE"]);
        work.gxx(&[link, "-o", "program", &program, &library]).quiet();
        assert_eq!(work.run("program"), "7 105 2\n");
        let elf = work.elf("program");
        if elf.find(".eh_frame_hdr").is_some() {
            eh_frame::check(&elf);
        }
        work.gxx(&[link, "-o", "program", &program, &library, "-Wl,--eh-frame-hdr"]).quiet();
        assert_eq!(work.run("program"), "7 105 2\n");
        eh_frame::check(&work.elf("program"));
    }
}

fn exceptions_leave_functions_that_gc_and_comdat_touch(machine: &'static Machine) {
    let inline = "
#include \"problem.h\"
template <int N> __attribute__((noinline)) int attempt(int x) {
    try { if (x == N) raise(x); return 0; } catch (const Problem &p) { return p.code; }
}
";
    let work = Work::on(machine);
    work.write("problem.h", HEADER);
    let library = work.cc("library", LIBRARY, &["-ffunction-sections"]);
    let other = format!(
        "{inline}int other(int x) {{ return attempt<3>(x) + attempt<4>(x); }}\nint dead(int x) {{ return attempt<9>(x); }}"
    );
    let other = work.cc("other", &other, &["-ffunction-sections"]);
    let main = format!(
        "{inline}#include <cstdio>\nint other(int);\nint main() {{ std::printf(\"%d %d\\n\", attempt<3>(3), other(4)); }}"
    );
    let main = work.cc("main", &main, &["-ffunction-sections"]);
    work.gxx(&["-o", "program", &main, &other, &library, "-Wl,--gc-sections"]).quiet();
    assert_eq!(work.run("program"), "3 4\n");
    let elf = work.elf("program");
    let fdes = eh_frame::check(&elf);
    assert!(elf.find_symbol("_Z7attemptILi9EEii").is_none(), "dead code is gone");
    let attempt = elf.symbol("_Z7attemptILi3EEii");
    let of_attempt = fdes.iter().filter(|f| f.start == attempt.value).count();
    assert_eq!(of_attempt, 1, "one FDE for the one kept copy");
}

/// `-r --split-by-file` makes `.eh_frame.0` and further sections. The usual scripts put them into
/// `.eh_frame`.
fn exceptions_cross_functions_whose_frames_have_a_section_of_their_own(machine: &'static Machine) {
    let work = Work::on(machine);
    work.write("problem.h", HEADER);
    let library = work.cc("library", LIBRARY, &["-fPIE", "-ffunction-sections"]);
    let program = work.cc("program", PROGRAM, &["-fPIE", "-ffunction-sections"]);
    work.ld(&["-r", "--split-by-file", "-o", "parts.o", &program, &library]).quiet();
    assert!(work.elf_unchecked("parts.o").sections.iter().any(|section| section.name == ".eh_frame.0"));
    for options in [&[][..], &["-Wl,--gc-sections"], &["-Wl,--icf=all"], &["-static"]] {
        if options == ["-static"] && !machine.links("-static") {
            continue;
        }
        let mut arguments = vec!["-o", "program", "parts.o", "-Wl,--eh-frame-hdr"];
        arguments.extend_from_slice(options);
        work.gxx(&arguments).quiet();
        assert_eq!(work.run("program"), "7 105 2\n", "{options:?}");
        eh_frame::check(&work.elf("program"));
    }
}

/// The output section counts, not the name of the input section.
#[test]
fn frames_that_a_script_puts_into_eh_frame_are_in_the_table() {
    let work = Work::new();
    let start = work.c("start", "void _start(void) { for (;;) ; }", &[]);
    let other = work.c("other", "int other(void) { return 1; }", &[]);
    let mut bytes = work.elf_unchecked(&other).bytes;
    let name = bytes.windows(15).position(|window| window == b".rela.eh_frame\0").expect("a table of names");
    bytes[name..name + 14].copy_from_slice(b".rela.my_frame");
    work.write("other.o", bytes);
    for (own, described) in [("", true), (".own : { *(.my_frame) }", false)] {
        let script = format!(
            "SECTIONS {{ . = 0x400000 + SIZEOF_HEADERS; .text : {{ *(.text) }} {own}
             .eh_frame_hdr : {{ *(.eh_frame_hdr) }} .eh_frame : {{ *(.eh_frame .my_frame) }} }}"
        );
        work.write("place.ld", script);
        let derive = ["--sframe-index", "--sframe-from-eh-frame=all"];
        work.ld(&[
            "-o",
            "program",
            "--eh-frame-hdr",
            "-T",
            "place.ld",
            derive[0],
            derive[1],
            &start,
            "other.o",
        ])
        .quiet();
        let elf = work.elf("program");
        let address = elf.symbol("other").value;
        assert_eq!(eh_frame::check(&elf).iter().any(|fde| fde.start == address), described, "{own}");
        let rows = sframe::blobs(elf.section(".sframe_idx"));
        assert_eq!(rows.iter().any(|blob| blob.row_at(address).is_some()), described, "{own}");
    }
}

on_every_machine!(
    exceptions_cross_functions_whose_frames_have_a_section_of_their_own,
    exceptions_cross_a_shared_library_in_both_directions,
    exceptions_work_in_static_programs,
    exceptions_leave_functions_that_gc_and_comdat_touch,
);
