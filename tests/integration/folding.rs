//! `--icf`: programs with folded functions run as before.

use crate::support::elf::Elf;
use crate::support::{Machine, Work, eh_frame, tools};
use crate::{need, on_every_machine};

/// Prints results, caught exceptions, and whether the pointers to `taken1` and `taken2` are equal.
const PROGRAM: &str = r#"
#include <cstdio>
#include <stdexcept>
#define ALONE extern "C" __attribute__((noinline, noclone))
ALONE int leaf1(int x) { return x * 3 + 7; }
ALONE int leaf2(int x) { return x * 3 + 7; }
ALONE int leaf3(int x) { return x * 3 + 8; }
ALONE int call1(int x) { return leaf1(x) + 1; }
ALONE int call2(int x) { return leaf2(x) + 1; }
ALONE int call3(int x) { return leaf3(x) + 1; }
ALONE int odd1(int x);
ALONE int odd2(int x);
ALONE int even1(int x) { return x ? odd1(x - 1) + 2 : 1; }
ALONE int even2(int x) { return x ? odd2(x - 1) + 2 : 1; }
ALONE int odd1(int x) { return x ? even1(x - 1) + 3 : 0; }
ALONE int odd2(int x) { return x ? even2(x - 1) + 3 : 0; }
ALONE int raise(int x) { if (x > 3) throw std::runtime_error("raised"); return x; }
ALONE int catch1(int x) { try { return raise(x); } catch (std::runtime_error &) { return -1; } }
ALONE int catch2(int x) { try { return raise(x); } catch (std::runtime_error &) { return -1; } }
ALONE int catch3(int x) { try { return raise(x); } catch (std::logic_error &) { return -1; } }
ALONE const char *text1() { return "same"; }
ALONE const char *text2() { return "same"; }
ALONE const char *text3() { return "other"; }
static thread_local int variable1 = 4, variable2 = 5;
ALONE int *thread1() { return &variable1; }
ALONE int *thread2() { return &variable2; }
ALONE int taken1(int x) { return x ^ 0x55; }
ALONE int taken2(int x) { return x ^ 0x55; }
int (*volatile pointer1)(int) = taken1;
int (*volatile pointer2)(int) = taken2;
struct Base { virtual int value() { return 11; } virtual ~Base() {} };
struct Left : Base { int value() override { return 12; } };
struct Right : Base { int value() override { return 12; } };
ALONE int value(Base &base) { return base.value(); }
int main() {
    std::printf("%d %d %d %d %d\n", call1(1), call2(2), call3(3), even1(5), even2(6));
    std::printf("%d %d ", catch1(5), catch2(6));
    try { catch3(7); } catch (std::runtime_error &error) { std::printf("%s\n", error.what()); }
    std::printf("%s %s %s %d %d\n", text1(), text2(), text3(), *thread1(), *thread2());
    Left left; Right right; Base base;
    std::printf("%d %d %d\n", value(left), value(right), value(base));
    std::printf("%d\n", pointer1 == pointer2);
}
"#;

const RESULTS: &str = "11 14 18 12 16\n-1 -1 raised\nsame same other 4 5\n12 12 11\n";
const COMPILE: [&str; 3] = ["-O1", "-ffunction-sections", "-fdata-sections"];

/// Whether two symbols have the same address.
fn are_one(elf: &Elf, name: &str) -> bool {
    elf.symbol(&format!("{name}1")).value == elf.symbol(&format!("{name}2")).value
}

fn programs_with_folded_functions_run_as_before(machine: &'static Machine) {
    for (compile, link) in [("-fPIE", "-pie"), ("-fno-PIE", "-no-pie")] {
        let work = Work::on(machine);
        let object = work.cc("program", PROGRAM, &[&COMPILE[..], &[compile]].concat());
        for (level, folds, folds_taken) in
            [("none", false, false), ("safe", true, false), ("all", true, true)]
        {
            let option = format!("-Wl,--icf={level},--gc-sections");
            work.gxx(&[link, "-o", "program", &object, &option]).quiet();
            assert_eq!(work.run("program"), format!("{RESULTS}{}\n", u8::from(folds_taken)), "{level}");
            let elf = work.elf("program");
            for name in ["leaf", "call", "even", "odd", "catch", "text"] {
                assert_eq!(are_one(&elf, name), folds, "{level}: {name}");
            }
            assert!(!are_one(&elf, "thread"), "{level}: they find other variables");
            assert_eq!(are_one(&elf, "taken"), folds_taken, "{level}");
            let starts: Vec<u64> = eh_frame::check(&elf).iter().map(|record| record.start).collect();
            for name in ["leaf1", "leaf2", "catch1", "catch2", "catch3"] {
                let address = elf.symbol(name).value;
                assert_eq!(starts.iter().filter(|&&start| start == address).count(), 1, "{level}: {name}");
            }
        }
    }
}

fn folded_libraries_work_and_keep_what_others_may_preempt(machine: &'static Machine) {
    let work = Work::on(machine);
    let source = "
__attribute__((noinline)) int f1(int x) { return x * 5 + 1; }
__attribute__((noinline)) int f2(int x) { return x * 5 + 1; }
__attribute__((noinline, visibility(\"hidden\"))) int h1(int x) { return x * 7 + 2; }
__attribute__((noinline, visibility(\"hidden\"))) int h2(int x) { return x * 7 + 2; }
__attribute__((noinline, visibility(\"hidden\"))) int through1(int x) { return f1(x) * 2; }
__attribute__((noinline, visibility(\"hidden\"))) int through2(int x) { return f2(x) * 2; }
int both(int x) { return h1(x) * 100000 + h2(x) * 1000 + through1(x) * 10 + through2(x); }
";
    let object = work.c("library", source, &["-O1", "-fPIC", "-ffunction-sections"]);
    let main = "#include <stdio.h>\nint both(int);\nint f1(int x) { return x + 1; }\n\
                int main(void) { printf(\"%d\\n\", both(2)); return 0; }";
    let main = work.c("main", main, &[]);
    for (level, folds_exported) in [("safe", false), ("all", true)] {
        work.gcc(&["-shared", "-o", "libboth.so", &object, &format!("-Wl,--icf={level}")]).quiet();
        let elf = work.elf("libboth.so");
        assert!(are_one(&elf, "h"), "{level}");
        assert!(!are_one(&elf, "through"), "{level}: a program may replace one of f1 and f2");
        assert_eq!(are_one(&elf, "f"), folds_exported, "{level}");
        work.gcc(&["-o", "program", &main, "-L.", "-lboth", "-Wl,-rpath,."]).quiet();
        // f1(2) belongs to the program and is 3; f2(2) is 11.
        assert_eq!(work.run("program"), format!("{}\n", 16 * 100_000 + 16 * 1000 + 6 * 10 + 22), "{level}");
    }
}

fn folding_is_the_same_for_any_number_of_threads(machine: &'static Machine) {
    let work = Work::on(machine);
    let more: String = (0..600)
        .map(|number| {
            let callee = if number < 2 { "leaf1".to_owned() } else { format!("chain{}", number - 2) };
            let declared = if number < 2 { "extern \"C\" int leaf1(int);" } else { "" };
            format!("{declared}extern \"C\" __attribute__((noinline)) int chain{number}(int x) {{ return {callee}(x) + {}; }}\n", number / 2)
        })
        .collect();
    let more = work.cc("more", &more, &COMPILE);
    let object = work.cc("program", PROGRAM, &COMPILE);
    let mut first = None;
    for threads in ["1", "2", "3", "8", "8"] {
        let option = format!("-Wl,--icf=all,--print-icf-sections,-Map=map,--threads={threads}");
        let listed = work.gxx(&["-o", "program", &object, &more, &option]).ok().output();
        let got = (listed, work.read("program"), work.read("map"));
        let first = first.get_or_insert_with(|| got.clone());
        assert!(*first == got, "{threads} threads");
    }
    let elf = work.elf("program");
    assert_eq!(elf.symbol("chain598").value, elf.symbol("chain599").value);
    assert_ne!(elf.symbol("chain597").value, elf.symbol("chain598").value);
}

on_every_machine!(
    programs_with_folded_functions_run_as_before,
    folded_libraries_work_and_keep_what_others_may_preempt,
    folding_is_the_same_for_any_number_of_threads,
);

#[test]
fn tables_of_clang_say_what_safe_folding_keeps() {
    let clang = need!(tools::clang("clang"));
    let work = Work::new();
    let source = "#include <stdio.h>
__attribute__((noinline)) int called1(int x) { return x * 3 + 7; }
__attribute__((noinline)) int called2(int x) { return x * 3 + 7; }
__attribute__((noinline)) int taken1(int x) { return x ^ 5; }
__attribute__((noinline)) int taken2(int x) { return x ^ 5; }
int (*volatile pointer1)(int) = taken1;
int (*volatile pointer2)(int) = taken2;
int main(void) { printf(\"%d %d %d\\n\", called1(1), called2(2), pointer1 == pointer2); return 0; }
";
    work.write("main.c", source);
    let flags = ["-O1", "-fPIE", "-ffunction-sections", "-faddrsig", "-c", "main.c", "-o", "main.o"];
    work.command(&clang, &flags).ok();
    assert!(work.elf_unchecked("main.o").find(".llvm_addrsig").is_some());
    for (level, same) in [("safe", 0), ("all", 1)] {
        work.gcc(&["-o", "program", "main.o", &format!("-Wl,--icf={level}")]).quiet();
        assert_eq!(work.run("program"), format!("10 13 {same}\n"), "{level}");
        assert!(are_one(&work.elf("program"), "called"), "{level}");
    }
    // Numbers of symbols that do not exist, or that never end, are reported, and break nothing.
    let elf = work.elf_unchecked("main.o");
    let table = elf.find(".llvm_addrsig").expect("the table");
    let bytes = work.read("main.o");
    let at =
        bytes.windows(table.data.len()).rposition(|window| window == &table.data[..]).expect("its bytes");
    for broken in [0x7f, 0xff] {
        let mut bytes = bytes.clone();
        bytes[at..at + table.data.len()].fill(broken);
        work.write("broken.o", bytes);
        work.ld(&["-o", "broken", "broken.o", "-e", "main", "--icf=safe", "--unresolved-symbols=ignore-all"])
            .fails()
            .says(&["broken.o:(.llvm_addrsig+0x0)", "broken address-significance table"]);
    }
}

/// If a table does not name a function, it is folded even if relocations take its address; lld decides in the
/// same way.
#[test]
fn tables_of_clang_count_more_than_relocations() {
    let clang = need!(tools::clang("clang"));
    let work = Work::new();
    let mut source =
        ".addrsig\n.addrsig_sym taken1\n.addrsig_sym taken2\n.addrsig_sym named1\n.addrsig_sym named2\n"
            .to_owned();
    let mut uses = ".text\n.globl _start\n_start:\n".to_owned();
    for (value, name) in ["plain", "taken"].iter().enumerate() {
        for number in [1, 2] {
            source += &format!(
                ".section .text.{name}{number},\"ax\",@progbits\n.globl {name}{number}\n{name}{number}: movl ${value},%eax\nret\n"
            );
            uses += &format!("leaq {name}{number}(%rip),%rax\n");
        }
    }
    for (value, name) in ["unnamed", "named"].iter().enumerate() {
        for number in [1, 2] {
            source += &format!(
                ".section .rodata.{name}{number},\"a\",@progbits\n.globl {name}{number}\n{name}{number}: .quad {value}\n"
            );
            uses += &format!("leaq {name}{number}(%rip),%rax\n");
        }
    }
    work.write("a.s", source + &uses);
    work.command(&clang, &["-c", "a.s", "-o", "a.o"]).ok();
    let lld = tools::peer_linker("lld").ok();
    for (options, folds) in [
        (&["--icf=safe"][..], ["plain", "unnamed"].as_slice()),
        (&["--icf=all"], &["plain", "taken", "unnamed"]),
        (&["--icf=all", "--ignore-data-address-equality"], &["plain", "taken", "unnamed", "named"]),
    ] {
        let arguments = [&["-o", "program", "a.o"][..], options].concat();
        let check = |linker: &str| {
            let elf = work.elf_unchecked("program");
            for name in ["plain", "taken", "unnamed", "named"] {
                assert_eq!(are_one(&elf, name), folds.contains(&name), "{linker} {options:?}: {name}");
            }
        };
        work.ld(&arguments).quiet();
        check("own");
        if let Some(lld) = &lld {
            work.command(lld, &arguments).ok();
            check("lld");
        }
    }
}
