//! The order of functions and data: call graph profiles, symbol and section ordering files.

use crate::need;
use crate::rel::{code, entries};
use crate::support::elf_write::{RawSection, RawSymbol, object};
use crate::support::{Work, tools};

const SHT_REL: u32 = 9;
const SHT_LLVM_CALL_GRAPH_PROFILE: u32 = 0x6fff_4c09;
const SHF_EXCLUDE: u64 = 0x8000_0000;

/// Functions a, b, c, `_start`, in this order. `_start` calls c 100 times, and c calls a 50 times. A call of
/// an undefined function does not count.
fn with_profile() -> Vec<u8> {
    let counts = [100u64, 50, 1000];
    let profile = RawSection {
        name: ".llvm.call-graph-profile",
        kind: SHT_LLVM_CALL_GRAPH_PROFILE,
        flags: SHF_EXCLUDE,
        align: 1,
        entsize: 8,
        data: counts.into_iter().flat_map(u64::to_le_bytes).collect(),
        ..Default::default()
    };
    let relocations = RawSection {
        name: ".rel.llvm.call-graph-profile",
        kind: SHT_REL,
        info: 5,
        align: 8,
        entsize: 16,
        data: entries(&[(0, 2, 0), (0, 4, 0), (8, 4, 0), (8, 3, 0), (16, 1, 0), (16, 5, 0)]),
        ..Default::default()
    };
    let symbols = [
        RawSymbol { name: "b", info: 2, section: 2, value: 0 },
        RawSymbol { name: "_start", info: 0x12, section: 4, value: 0 },
        RawSymbol { name: "a", info: 0x12, section: 1, value: 0 },
        RawSymbol { name: "c", info: 0x12, section: 3, value: 0 },
        RawSymbol { name: "nothing", info: 0x20, section: 0, value: 0 },
    ];
    let text = [".text.a", ".text.b", ".text.c", ".text._start"].map(code);
    let sections = text.into_iter().chain([profile, relocations]);
    object(&sections.collect::<Vec<_>>(), &symbols)
}

/// Those symbols of a program that are named here, in the order of their addresses.
fn order(work: &Work, program: &str, names: &[&str]) -> String {
    let elf = work.elf(program);
    let mut found: Vec<(u64, &str)> = names.iter().map(|name| (elf.symbol(name).value, *name)).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
}

const PROFILED: [&str; 4] = ["_start", "a", "b", "c"];

#[test]
fn a_profile_orders_functions_and_is_not_in_the_output() {
    let work = Work::new();
    work.write("profile.o", with_profile());
    for option in
        ["--call-graph-profile-sort", "--call-graph-profile-sort=cdsort", "--print-symbol-order=order"]
    {
        work.ld(&["-o", "program", "profile.o", option]).quiet();
        assert_eq!(order(&work, "program", &PROFILED), "_start c a b", "{option}");
        assert!(work.elf("program").find(".llvm.call-graph-profile").is_none());
    }
    assert_eq!(work.read("order"), b"_start\nc\na\n");
    for option in ["--no-call-graph-profile-sort", "--call-graph-profile-sort=none"] {
        work.ld(&["-o", "program", "profile.o", option]).quiet();
        assert_eq!(order(&work, "program", &PROFILED), "a b c _start", "{option}");
    }
    work.ld(&["-o", "program", "profile.o", "--emit-relocs", "--threads=1"]).quiet();
    assert_eq!(order(&work, "program", &PROFILED), "_start c a b");
    work.ld(&["-o", "program", "profile.o", "--gc-sections"]).quiet();
    assert!(work.elf("program").find_symbol("c").is_none());
}

/// elflint does not know profiles, so objects with a profile are read without it.
#[test]
fn a_profile_goes_through_relocatable_output_in_pairs() {
    let work = Work::new();
    work.write("profile.o", with_profile());
    let more = work.s("more", ".globl more\nmore: ret\n");
    work.ld(&["-r", "-o", "merged.o", &more, "profile.o"]).quiet();
    let elf = work.elf_unchecked("merged.o");
    let profile = elf.section(".llvm.call-graph-profile");
    assert_eq!((profile.kind, profile.flags, profile.size), (SHT_LLVM_CALL_GRAPH_PROFILE, SHF_EXCLUDE, 24));
    assert_eq!(elf.section(".rel.llvm.call-graph-profile").kind, SHT_REL);
    work.ld(&["-o", "program", "merged.o"]).quiet();
    assert_eq!(order(&work, "program", &PROFILED), "_start c a b");
    // A collected function leaves its half of the pair behind.
    work.ld(&["-r", "-o", "collected.o", "--gc-sections", "-u", "_start", "-u", "c", "profile.o"]).quiet();
    let elf = work.elf_unchecked("collected.o");
    assert!(elf.find(".text.a").is_none() && elf.find(".text.c").is_some());
    assert_eq!(elf.section(".rel.llvm.call-graph-profile").size, 6 * 16);
    work.ld(&["-o", "program", "collected.o"]).quiet();
    assert_eq!(order(&work, "program", &["_start", "c"]), "_start c");
}

#[test]
fn a_broken_profile_is_a_warning() {
    let work = Work::new();
    let mut bytes = with_profile();
    // One count fewer.
    let at = bytes.windows(8).position(|window| window == 0x18u64.to_le_bytes()).expect("the section's size");
    bytes[at] = 0x10;
    work.write("profile.o", bytes);
    work.ld(&["-o", "program", "profile.o"]).ok().says(&[
        "profile.o",
        ".llvm.call-graph-profile",
        "profile is not used",
    ]);
    assert_eq!(order(&work, "program", &PROFILED), "a b c _start");
}

#[test]
fn clang_programs_with_a_profile_link_and_run_in_its_order() {
    let clang = need!(tools::clang("clang"));
    let work = Work::new();
    work.write(
        "main.c",
        "#include <stdio.h>\n\
         __attribute__((noinline)) int cold(int x) { return x * 3; }\n\
         __attribute__((noinline)) int leaf(int x) { return x ^ 5; }\n\
         __attribute__((noinline)) int hot(int x) { return leaf(x) + 1; }\n\
         int main(int argc, char **argv) {\n\
         int s = argc;\n\
         for (int i = 0; i < 1000; i++) s = hot(s + i);\n\
         if (argc > 5) s = cold(s);\n\
         printf(\"%d\\n\", s != 0);\n\
         return 0;\n}\n",
    );
    work.write(
        "samples",
        "main:200000:1\n 2: 1000\n 2.1: 1000 hot:1000\n 3: 1\n\
         hot:100000:1000\n 0: 1000 leaf:1000\nleaf:50000:1000\n 0: 1000\n",
    );
    let flags = ["-O2", "-gline-tables-only", "-ffunction-sections", "-fprofile-sample-use=samples"];
    work.command(&clang, &[&["-c", "main.c", "-o", "main.o"][..], &flags].concat()).ok();
    assert!(work.elf_unchecked("main.o").find(".rel.llvm.call-graph-profile").is_some());
    work.gcc(&["-o", "program", "main.o", "-Wl,--print-symbol-order=order"]).ok();
    assert_eq!(work.run("program"), "1\n");
    assert_eq!(order(&work, "program", &["hot", "leaf"]), "hot leaf");
    let listed = String::from_utf8(work.read("order")).expect("names");
    assert!(listed.lines().any(|line| line == "hot"), "{listed}");
    work.gcc(&["-o", "program", "main.o", "-Wl,--no-call-graph-profile-sort"]).ok();
    assert_eq!(order(&work, "program", &["hot", "leaf"]), "leaf hot");
}

/// Functions of every kind that the built-in scripts distinguish, and data.
const PARTS: &str = "
    .globl _start, warm, value
    .section .text._start,\"ax\"\n_start: ret\n
    .section .text.warm,\"ax\"\nwarm: ret\n
    .section .text.unlikely.cold,\"ax\"\ncold: ret\n
    .section .text.startup.once,\"ax\"\nonce: ret\n
    .section .data.first,\"aw\"\n.quad _etext\n.weak _etext\n
    .section .data.value,\"aw\"\nvalue: .quad 2\n
    .section .bss.block,\"aw\",@nobits\nblock: .skip 8\n
    .comm common,8\n
    .set absolute, 5\n
    .globl absolute\n";

#[test]
fn a_symbol_ordering_file_puts_its_symbols_first() {
    let work = Work::new();
    let object = work.s("parts", PARTS);
    let functions = ["_start", "warm", "cold", "once"];
    work.ld(&["-o", "program", &object]).quiet();
    assert_eq!(order(&work, "program", &functions), "cold once _start warm");
    work.write("order", "# functions\nwarm\n  once  \ncommon\n\nvalue\n");
    work.ld(&["-o", "program", &object, "--symbol-ordering-file=order", "--print-symbol-order=printed"])
        .quiet();
    assert_eq!(order(&work, "program", &functions), "warm once cold _start");
    assert_eq!(order(&work, "program", &["common", "block"]), "common block");
    let elf = work.elf("program");
    assert_eq!(elf.symbol("value").value, elf.section(".data").addr);
    assert_eq!(work.read("printed"), b"warm\nonce\nvalue\n");
    // A script's own statements keep their order.
    work.write("script", "SECTIONS { .text : { *(.text._start) *(SORT(.text.*)) } }");
    work.ld(&["-o", "program", &object, "-T", "script", "--symbol-ordering-file=order"]).ok();
    assert_eq!(order(&work, "program", &functions), "_start warm once cold");
}

#[test]
fn names_that_order_nothing_are_reported() {
    let work = Work::new();
    let object = work.s("parts", PARTS);
    work.write("order", "warm\nno_such\nabsolute\n_etext\nwarm\n");
    let args = ["-o", "program", &object, "--symbol-ordering-file", "order"];
    work.ld(&args).ok().says(&[
        "order:2:1",
        "no such symbol: no_such",
        "parts.o: unable to order absolute symbol: absolute",
        "unable to order synthetic symbol: _etext",
        "order:5:1",
        "duplicate ordered symbol: warm",
    ]);
    work.ld(&[&args[..], &["--no-warn-symbol-ordering"]].concat()).quiet();
    work.ld(&["-o", "program", &object, "--symbol-ordering-file=missing"])
        .fails()
        .says(&["missing", "No such file"]);
}

#[test]
fn init_and_arrays_keep_their_order() {
    let work = Work::new();
    let source = "#include <stdio.h>\n\
        __attribute__((constructor)) static void first(void) { puts(\"first\"); }\n\
        __attribute__((constructor)) static void second(void) { puts(\"second\"); }\n\
        int main(void) { return 0; }\n";
    let object = work.c("main", source, &["-ffunction-sections"]);
    work.write("order", "second\nfirst\n_fini\n_init\nmain\n");
    let args =
        ["-o", "program", &object, "-Wl,--symbol-ordering-file=order", "-Wl,--no-warn-symbol-ordering"];
    work.gcc(&args).ok();
    assert_eq!(work.run("program"), "first\nsecond\n");
    assert_eq!(order(&work, "program", &["first", "second", "main"]), "second first main");
    work.write("sections", ".init_array\n.init\n.text.main\n");
    work.gcc(&["-o", "program", &object, "-Wl,--section-ordering-file=sections"]).ok();
    assert_eq!(work.run("program"), "first\nsecond\n");
}

#[test]
fn a_section_ordering_file_may_be_golds_or_gnus() {
    let work = Work::new();
    let object = work.s("parts", PARTS);
    let functions = ["_start", "warm", "cold", "once"];
    // In gold's form, the named sections come after the rest, exact names before patterns.
    work.write("patterns", ".text.unl*\n.text._start\n*warm\n");
    work.ld(&["-o", "program", &object, "--section-ordering-file=patterns"]).quiet();
    assert_eq!(order(&work, "program", &functions), "once cold _start warm");
    // In GNU ld's form, these statements come before those of the script.
    work.write("statements", ".text : { *(.text.warm) *(.text._start) }\n.data : { *(.data.value) }\n");
    work.ld(&["-o", "program", &object, "--section-ordering-file", "statements"]).quiet();
    assert_eq!(order(&work, "program", &functions), "warm _start cold once");
    assert_eq!(work.elf("program").symbol("value").value, work.elf("program").section(".data").addr);
    work.write("wrong", ".code : { *(.text.warm) }\n");
    let wrong = ["-o", "program", &object, "--section-ordering-file", "wrong"];
    work.ld(&wrong).fails().says(&["wrong:1:1", "no output section `.code`"]);
    work.write("wrong", ".text 0x1000 : { *(.text.warm) }\n");
    work.ld(&wrong).fails().says(&["wrong:1:1", "can only say"]);
}

#[test]
fn a_call_graph_file_stands_in_for_profiles() {
    let work = Work::new();
    work.write("profile.o", with_profile());
    work.write("calls", "b a 90\n_start b 100\nc no_such 5\n");
    let args = ["-o", "program", "profile.o", "--call-graph-ordering-file=calls"];
    work.ld(&args).ok().says(&["calls:3:3", "no such symbol: no_such"]);
    assert_eq!(order(&work, "program", &PROFILED), "_start b a c");
    work.write("calls", "b a\n");
    work.ld(&args).fails().says(&["calls:1:1"]);
    work.write("order", "a\n");
    work.ld(&[&args[..], &["--symbol-ordering-file=order"]].concat()).fails().says(&["two orders"]);
    // A written order takes precedence over the profile.
    work.ld(&["-o", "program", "profile.o", "--symbol-ordering-file=order"]).quiet();
    assert_eq!(order(&work, "program", &PROFILED), "a b c _start");
}
