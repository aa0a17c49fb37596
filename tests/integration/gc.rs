//! `--gc-sections`: its roots, its edges, and its report.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work};

fn functions(names: &[&str]) -> String {
    names.iter().map(|n| format!(".section .text.{n},\"ax\",@progbits\n.globl {n}\n{n}: ret\n")).collect()
}

fn has(elf: &Elf, name: &str) -> bool {
    elf.find_symbol(name).is_some()
}

fn unreferenced_sections_go_and_reached_ones_stay(machine: &'static Machine) {
    let work = Work::on(machine);
    let source = "int dead(void) { return 1; } int dead_data = 7; static int reached_data = 3; int reached(void) { return reached_data; } int chain(void) { return reached(); } int main(void) { return chain() - 3; }";
    let object = work.c("main", source, &["-ffunction-sections", "-fdata-sections", "-O0"]);
    work.gcc(&["-o", "program", &object, "-Wl,--gc-sections"]).quiet();
    work.run("program");
    let elf = work.elf("program");
    assert!(has(&elf, "reached") && has(&elf, "chain") && has(&elf, "reached_data"));
    assert!(!has(&elf, "dead") && !has(&elf, "dead_data"));
    work.gcc(&["-o", "program", &object, "-Wl,--gc-sections,--no-gc-sections"]).quiet();
    assert!(has(&work.elf("program"), "dead"));
}

#[test]
fn options_name_roots() {
    let work = Work::new();
    let a = work.s("a", &functions(&["begin", "u", "r", "i", "f", "x", "_start"]));
    let gc = |args: &[&str]| {
        let mut all = vec!["-o", "program", &a, "--gc-sections"];
        all.extend(args);
        work.ld(&all).quiet();
        let elf = work.elf("program");
        ["begin", "u", "r", "i", "f", "x", "_start"].into_iter().filter(|n| has(&elf, n)).collect::<Vec<_>>()
    };
    assert_eq!(gc(&[]), ["_start"]);
    assert_eq!(gc(&["-e", "begin"]), ["begin"]);
    assert_eq!(gc(&["-u", "u", "--require-defined=r"]), ["u", "r", "_start"]);
    assert_eq!(gc(&["-init", "i", "-fini", "f"]), ["i", "f", "_start"]);
    assert_eq!(gc(&["--defsym=alias=x"]), ["x", "_start"]);
}

#[test]
fn exported_symbols_are_roots() {
    let work = Work::new();
    let object = work.c("a", "int exported(void) { return 1; } __attribute__((visibility(\"hidden\"))) int hidden(void) { return 2; }", &["-fPIC", "-ffunction-sections"]);
    work.gcc(&["-shared", "-o", "liba.so", &object, "-Wl,--gc-sections"]).quiet();
    let elf = work.elf("liba.so");
    assert!(has(&elf, "exported") && !has(&elf, "hidden"));
    let main = work.c(
        "main",
        "int plugin(void) { return 1; } int main(void) { return 0; }",
        &["-ffunction-sections"],
    );
    work.gcc(&["-o", "program", &main, "-Wl,--gc-sections"]).quiet();
    assert!(!has(&work.elf("program"), "plugin"));
    work.gcc(&["-o", "program", &main, "-Wl,--gc-sections,--export-dynamic"]).quiet();
    assert!(has(&work.elf("program"), "plugin"));
    work.shared("user", "int plugin(void); int use(void) { return plugin(); }", &[]);
    work.gcc(&["-o", "program", &main, "-Wl,--gc-sections,--no-as-needed", "-L.", "-luser"]).quiet();
    assert!(has(&work.elf("program"), "plugin"), "a shared library refers to it");
}

#[test]
fn retained_sections_arrays_and_notes_are_roots() {
    let work = Work::new();
    let source = "
.section .text.kept,\"axR\",@progbits
.globl kept
kept: ret
.section .init_array,\"aw\",@init_array
.quad from_init
.section .note.mine,\"a\",@note
.long 4,4,1
.asciz \"abc\"
.long 7
.section .data.plain,\"aw\"
.globl plain
plain: .quad 1
";
    let a = work.s("a", &format!("{source}{}", functions(&["from_init", "_start"])));
    work.ld(&["-o", "program", &a, "--gc-sections"]).quiet();
    let elf = work.elf_unchecked("program");
    assert!(has(&elf, "kept") && has(&elf, "from_init") && !has(&elf, "plain"));
    assert!(elf.find(".note.mine").is_some());
}

#[test]
fn sections_in_keep_of_a_script_stay() {
    let work = Work::new();
    let a = work.s("a", &functions(&["kept", "lost", "_start"]));
    work.write(
        "keep.ld",
        "SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { KEEP(*(.text.kept)) *(.text .text.*) } }",
    );
    work.ld(&["-o", "program", &a, "--gc-sections", "-T", "keep.ld"]).ok();
    let elf = work.elf("program");
    assert!(has(&elf, "kept") && !has(&elf, "lost"));
}

#[test]
fn start_and_stop_symbols_keep_their_sections() {
    let work = Work::new();
    let list = ".section mylist,\"a\",@progbits\n.globl entry\nentry: .quad 5\n.section unused_list,\"a\",@progbits\n.globl gone\ngone: .quad 6\n";
    let a = work.s("a", &format!("{list}.section .text._start,\"ax\"\n.globl _start\n_start: lea __start_mylist(%rip),%rax\nlea __stop_mylist(%rip),%rax\nret\n"));
    let b = work.s("b", ".section mylist,\"a\",@progbits\n.quad 9\n");
    work.ld(&["-o", "program", &a, &b, "--gc-sections"]).quiet();
    let elf = work.elf("program");
    let section = elf.section("mylist");
    assert_eq!(section.quads(), [5, 9]);
    assert_eq!(
        (elf.symbol("__start_mylist").value, elf.symbol("__stop_mylist").value),
        (section.addr, section.end())
    );
    assert!(!has(&elf, "gone"));
    work.ld(&["-o", "program", &a, &b, "--gc-sections", "-z", "nostart-stop-gc"]).quiet();
    assert_eq!(work.elf("program").section("mylist").quads(), [5, 9]);
    // Nothing is left for the symbols to enclose.
    let outcome = work.ld(&["-o", "program", &a, &b, "--gc-sections", "-z", "start-stop-gc"]).fails();
    outcome.says(&["__start_mylist"]);
    work.ld(&["-o", "program", &a, &b]).quiet();
    assert_eq!(work.elf("program").section("mylist").size, 16);
}

#[test]
fn start_and_stop_symbols_get_the_visibility_of_the_option() {
    let work = Work::new();
    let a = work.s("a", ".section mylist,\"aw\",@progbits\n.quad 5\n.text\n.globl f\nf: movq __start_mylist@GOTPCREL(%rip),%rax\nret\n");
    work.ld(&["-shared", "-o", "liba.so", &a]).quiet();
    let exported = work.elf("liba.so").find_dynamic("__start_mylist").map(|symbol| symbol.visibility);
    assert_eq!(exported, Some(STV_PROTECTED));
    work.ld(&["-shared", "-o", "liba.so", &a, "-z", "start-stop-visibility=hidden"]).quiet();
    assert!(work.elf("liba.so").find_dynamic("__start_mylist").is_none());
}

fn frames_do_not_keep_functions_but_live_frames_keep_exception_tables(machine: &'static Machine) {
    let work = Work::on(machine);
    let source = "
void may_throw();
void dead_user() { try { may_throw(); } catch (int) { } }
void live() { try { may_throw(); } catch (long) { } }
int main(int argc, char **) { if (argc > 1) live(); return 0; }
void may_throw() { throw 1L; }
";
    let object = work.cc("main", source, &["-ffunction-sections"]);
    work.gxx(&["-o", "program", &object, "-Wl,--gc-sections"]).quiet();
    work.run("program");
    let elf = work.elf("program");
    assert!(!has(&elf, "_Z9dead_userv") && has(&elf, "_Z4livev"));
    crate::support::eh_frame::check(&elf);
    assert!(elf.find(".gcc_except_table").is_some());
}

#[test]
fn debug_sections_stay_without_keeping_code() {
    let work = Work::new();
    let object = work.c(
        "main",
        "int dead(void) { return 1; } int main(void) { return 0; }",
        &["-g", "-ffunction-sections"],
    );
    work.gcc(&["-o", "program", &object, "-Wl,--gc-sections"]).quiet();
    let elf = work.elf("program");
    assert!(elf.find(".debug_info").is_some() && !has(&elf, "dead"));
}

#[test]
fn the_report_names_sections_and_files() {
    let work = Work::new();
    let a = work.s("a", &functions(&["dead", "_start"]));
    let b = work.s("b", &functions(&["dead_too"]));
    let outcome = work.ld(&["-o", "program", &a, &b, "--gc-sections", "--print-gc-sections"]).ok();
    let output = outcome.output();
    for (section, file) in [(".text.dead", "a.o"), (".text.dead_too", "b.o")] {
        let named = output.lines().any(|l| {
            l.contains("removing unused section")
                && l.contains(file)
                && l.split(['(', ')', '\'', ' ']).any(|w| w == section)
        });
        assert!(named, "{section} of {file}: {output}");
    }
    assert!(!output.contains(".text._start"));
    let outcome = work
        .ld(&["-o", "program", &a, &b, "--gc-sections", "--print-gc-sections", "--no-print-gc-sections"])
        .ok();
    assert!(!outcome.output().contains("removing"));
}

on_every_machine!(
    unreferenced_sections_go_and_reached_ones_stay,
    frames_do_not_keep_functions_but_live_frames_keep_exception_tables,
);
