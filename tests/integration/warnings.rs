//! Warnings: those in inputs, those that options ask for, and options without effect.

use crate::need;
use crate::support::{Work, tools};

const START: &str = ".text\n.globl _start\n_start: call f\ncall f\nret\n";

#[test]
fn a_warning_section_speaks_to_those_who_use_its_symbol() {
    let work = Work::new();
    let user = work.s("user", START);
    let f = work.s("f", ".globl f\nf: ret\n.section .gnu.warning.f\n.asciz \"f is dangerous\"\n");
    let outcome = work.ld(&["-o", "program", &user, &f]).ok().says(&["user.o:(.text+0x1)", "f is dangerous"]);
    assert_eq!(outcome.stderr.matches("f is dangerous").count(), 1, "once for each object");
    assert!(work.elf("program").find(".gnu.warning.f").is_none(), "executables do not hold it");
    work.ld(&["-o", "program", &user, &f, "--fatal-warnings"]).fails().says(&["f is dangerous"]);
    work.ld(&["-o", "program", &user, &f, "-w"]).quiet();

    work.ld(&["-r", "-o", "both.o", &user, &f]).ok();
    assert!(work.elf("both.o").find(".gnu.warning.f").is_some());
    let harmless = work.s("harmless", ".globl _start\n_start: ret\n");
    work.ld(&["-o", "program", &harmless, &f]).quiet();
}

#[test]
fn a_warning_section_of_a_library_speaks_too() {
    let work = Work::new();
    let f = work
        .s("f", ".globl f\n.type f,@function\nf: ret\n.section .gnu.warning.f\n.asciz \"f is dangerous\"\n");
    work.ld(&["-shared", "-o", "libf.so", &f]).quiet();
    assert!(work.elf("libf.so").find(".gnu.warning.f").is_some(), "libraries hold it for their users");
    let user = work.s("user", START);
    work.ld(&["-o", "program", &user, "libf.so"]).ok().says(&["user.o:(.text+0x1)", "f is dangerous"]);
    let own = work.s("own", ".globl f\nf: ret\n");
    work.ld(&["-o", "program", &user, &own, "libf.so"]).quiet();
}

#[test]
fn a_warning_section_without_a_symbol_speaks_to_everyone() {
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: ret\n.section .gnu.warning\n.asciz \"this object is old\"\n");
    work.ld(&["-o", "program", &a]).ok().says(&["a.o", "this object is old"]);
    assert!(work.elf("program").find(".gnu.warning").is_none());
}

#[test]
fn references_from_collected_sections_do_not_warn() {
    need!(tools::own_linker());
    let work = Work::new();
    let user =
        work.s("user", ".globl _start\n_start: ret\n.section .text.dead,\"ax\",@progbits\ncall f\nret\n");
    let f = work.s("f", ".globl f\nf: ret\n.section .gnu.warning.f\n.asciz \"f is dangerous\"\n");
    work.ld(&["-o", "program", "--gc-sections", &user, &f]).quiet();
}

#[test]
fn common_blocks_that_meet_others_are_told_on_demand() {
    let work = Work::new();
    let small = work.s("small", ".comm x,4,4\n.globl _start\n_start: ret\n");
    let large = work.s("large", ".comm x,8,8\n");
    let data = work.s("data", ".data\n.globl x\nx: .quad 0\n");
    let again = work.s("again", ".comm x,4,4\n");
    work.ld(&["-o", "p", &small, &large, &data]).quiet();
    let warned = |inputs: &[&str]| {
        let mut args = vec!["--warn-common", "-o", "p"];
        args.extend(inputs);
        work.ld(&args).ok()
    };
    warned(&[&small, &large]).says(&["large.o", "common of `x' overriding smaller common", "small.o"]);
    warned(&[&large, &small]).says(&["common of `x' overridden by larger common"]);
    warned(&[&small, &data]).says(&["data.o", "definition of `x' overriding common"]);
    warned(&[&data, &small]).says(&["small.o", "common of `x' overridden by definition"]);
    warned(&[&small, &again]).says(&["multiple common of `x'"]);
    work.ld(&["--warn-common", "--no-warn-common", "-o", "p", &small, &large]).quiet();
}

#[test]
fn an_executable_stack_is_told() {
    let work = Work::new();
    let source = ".globl _start\n_start: ret\n.section .note.GNU-stack,\"x\",@progbits\n";
    work.write("a.s", source);
    work.command("as", &["-o", "a.o", "a.s"]).ok();
    work.ld(&["-o", "p", "a.o"]).ok().says(&["a.o", "executable stack"]);
    work.ld(&["-o", "p", "a.o", "--no-warn-execstack"]).quiet();
    work.ld(&["-o", "p", "a.o", "-z", "execstack"]).quiet();
    work.ld(&["-o", "p", "a.o", "-z", "noexecstack"]).quiet();
    work.ld(&["-o", "q", "a.o", "--error-execstack"]).fails().says(&["a.o"]);
    assert!(!work.exists("q"));
}

#[test]
fn options_that_are_not_carried_out_fail_the_link() {
    need!(tools::own_linker());
    let work = Work::new();
    let a = work.s("a", ".globl _start\n_start: ret\n");
    work.ld(&["-o", "p", &a, "-zextern-protected-data"]).fails().says(&["extern-protected-data"]);
    assert!(!work.exists("p"));
    for option in [
        "--icf=none",
        "--no-gdb-index",
        "--no-ld-generated-unwind-info",
        "--warn-backrefs",
        "--keep-memory",
        "-znounique-symbol",
        "-zlrodata-after-bss",
    ] {
        work.ld(&["--fatal-warnings", "-o", "p", &a, option]).quiet();
    }
}

/// As CMake's `CheckLinkerFlag` does it: the compiler driver links a small program with the flag. If that
/// succeeds, the flag is supported.
#[test]
fn probes_for_a_flag_see_what_is_supported() {
    need!(tools::own_linker());
    let work = Work::new();
    work.write("probe.c", "int main(void) { return 0; }");
    for (flag, supported) in [
        ("--gc-sections", true),
        ("--icf=none", true),
        ("--icf=all", true),
        ("--gdb-index", true),
        ("--zero-to-bss", true),
        ("--embedded-relocs", false),
        ("-z,keep-text-section-prefix", true),
    ] {
        let outcome = work.gcc(&["-o", "probe", "probe.c", &format!("-Wl,{flag}")]);
        if supported {
            outcome.quiet();
        } else {
            outcome.fails();
        }
    }
}
