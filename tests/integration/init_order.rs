//! Constructors and destructors: priorities, `.init_array`, `.ctors`, `DT_INIT`, libraries first.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work};

const PREAMBLE: &str = "#include <stdio.h>\n#define C(n, p) __attribute__((constructor p)) static void c##n(void) { printf(\"%s \", #n); }\n#define D(n, p) __attribute__((destructor p)) static void d##n(void) { printf(\"%s \", #n); }\n";

fn constructors_run_by_priority_then_file_order(machine: &'static Machine) {
    for link in ["-pie", "-no-pie", "-static"] {
        let work = Work::on(machine);
        let a = work.c(
            "a",
            &format!("{PREAMBLE}C(a_plain,) C(a300,(300)) C(a101,(101)) D(A_plain,) D(A200,(200))"),
            &[],
        );
        let b = work.c("b", &format!("{PREAMBLE}C(b_plain,) C(b200,(200)) C(b1000,(1000)) D(B101,(101))\nint main(void) {{ printf(\"main \"); return 0; }}"), &[]);
        work.gcc(&[link, "-o", "program", &a, &b]).quiet();
        assert_eq!(
            work.run("program"),
            "a101 b200 a300 b1000 a_plain b_plain main A_plain A200 B101 ",
            "{link}"
        );
        work.elf("program");
    }
}

fn ctors_sections_join_the_init_array(machine: &'static Machine) {
    let work = Work::on(machine);
    let ctors = "
.section .ctors,\"aw\",@progbits
.quad legacy
.section .ctors.65435,\"aw\",@progbits
.quad early
.section .dtors,\"aw\",@progbits
.quad finish
";
    let table = work.s("table", ctors);
    let code = format!(
        "{PREAMBLE}void legacy(void) {{ printf(\"legacy \"); }} void early(void) {{ printf(\"early \"); }} void finish(void) {{ printf(\"finish \"); }}\nC(plain,) int main(void) {{ return 0; }}"
    );
    let main = work.c("main", &code, &[]);
    work.gcc(&["-o", "program", &main, &table]).quiet();
    let output = work.run("program");
    assert!(
        output.starts_with("early ") && output.contains("legacy ") && output.contains("finish "),
        "{output}"
    );
}

#[test]
fn crt_files_keep_their_ctors_frame() {
    let work = Work::new();
    let table = work.s("crtbegin", ".section .ctors,\"aw\",@progbits\n.globl list\nlist: .quad -1\n");
    let other =
        work.s("other", ".section .ctors,\"aw\",@progbits\n.quad 7\n.globl _start\n.text\n_start: ret\n");
    work.ld(&["-o", "program", &table, &other]).quiet();
    let elf = work.elf("program");
    assert_eq!(elf.section(".ctors").quads(), [u64::MAX], "crtbegin's list head stays in .ctors");
    assert_eq!(elf.section(".init_array").quads(), [7]);
}

fn libraries_are_initialised_before_their_users(machine: &'static Machine) {
    let work = Work::on(machine);
    work.shared("inner", &format!("{PREAMBLE}C(inner,) int inner(void) {{ return 1; }}"), &[]);
    work.shared(
        "outer",
        &format!("{PREAMBLE}C(outer,) int inner(void); int outer(void) {{ return inner(); }}"),
        &["-L.", "-linner"],
    );
    let main = work.c(
        "main",
        &format!("{PREAMBLE}C(main_c,) int outer(void);\nint main(void) {{ return outer() - 1; }}"),
        &[],
    );
    work.gcc(&["-o", "program", &main, "-L.", "-louter", "-Wl,-rpath-link,."]).quiet();
    assert_eq!(work.run("program"), "inner outer main_c ");
}

#[test]
fn init_and_fini_options_name_the_functions() {
    let work = Work::new();
    let source = format!(
        "{PREAMBLE}void begin(void) {{ printf(\"begin \"); }} void end(void) {{ printf(\"end \"); }} int f(void) {{ return 0; }}"
    );
    let object = work.c("library-so", &source, &["-fPIC"]);
    work.gcc(&["-shared", "-nostartfiles", "-o", "libf.so", &object, "-Wl,-init,begin,-fini,end"]).quiet();
    let elf = work.elf("libf.so");
    assert_eq!(elf.tags(DT_INIT), [elf.symbol("begin").value]);
    assert_eq!(elf.tags(DT_FINI), [elf.symbol("end").value]);
    let main = work.c("main", "int f(void); int main(void) { return f(); }", &[]);
    work.gcc(&["-o", "program", &main, "-L.", "-lf"]).quiet();
    assert_eq!(work.run("program"), "begin end ");
}

#[test]
fn preinit_arrays_belong_to_executables_only() {
    let work = Work::new();
    let source = format!(
        "{PREAMBLE}static void first(void) {{ printf(\"first \"); }}\n__attribute__((section(\".preinit_array\"), used)) static void (*entry)(void) = first;\nC(second,) int main(void) {{ return 0; }}"
    );
    let main = work.c("main", &source, &[]);
    work.gcc(&["-o", "program", &main]).quiet();
    assert_eq!(work.run("program"), "first second ");
    let elf = work.elf("program");
    assert_eq!(elf.tags(32), [elf.section(".preinit_array").addr], "DT_PREINIT_ARRAY");
    assert_eq!(elf.tags(33), [8], "DT_PREINIT_ARRAYSZ");
}

on_every_machine!(
    constructors_run_by_priority_then_file_order,
    ctors_sections_join_the_init_array,
    libraries_are_initialised_before_their_users,
);
