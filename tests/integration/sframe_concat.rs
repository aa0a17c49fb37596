//! `--sframe=concat`: which sections are inputs, order and alignment, values that are adjusted for each
//! version, the segment, and collection.

use crate::need;
use crate::support::elf::*;
use crate::support::sframe::{ASSEMBLED, PCREL, SORTED, blobs, output_blobs, per_text_function, v3_source};
use crate::support::{Work, tools};

const EXIT: &str = "mov $60,%eax\nxor %edi,%edi\nsyscall\n";

/// Defines the external function that the sample program calls.
const PUTS: &str = ".globl puts\nputs: ret\n";

fn start(calls: &[&str]) -> String {
    let calls: String = calls.iter().map(|c| format!("call {c}\n")).collect();
    format!(".text\n.globl _start\n_start:\n{calls}{EXIT}")
}

/// The segment covers exactly the section.
fn check_segment(elf: &Elf) {
    let (segment, section) = (elf.segment(PT_GNU_SFRAME), elf.section(".sframe"));
    assert_eq!((segment.addr, segment.size), (section.addr, section.size));
    assert_eq!((segment.offset, segment.file_size), (section.offset, section.size));
    assert_eq!(segment.flags, 4);
    assert!(section.flags & SHF_ALLOC != 0 && section.flags & SHF_WRITE == 0);
    assert_eq!((section.kind, section.align), (SHT_GNU_SFRAME, 8));
    assert!(elf.load_at(section.addr).is_some_and(|s| s.covers(section)));
}

/// Checks that every function with one of these names has a live row, which decodes to its address and size.
fn check_rows(elf: &Elf, functions: &[&str]) {
    let all = output_blobs(elf);
    for name in functions {
        let symbol = elf.symbol(name);
        let row = all.iter().find_map(|b| b.row_at(symbol.value));
        let row = row.unwrap_or_else(|| panic!("no row for {name} at {:#x}: {all:x?}", symbol.value));
        if symbol.size != 0 {
            assert_eq!(u64::from(row.size), symbol.size, "{name}");
        }
    }
}

#[test]
fn per_text_frames_follow_their_text() {
    let work = Work::new();
    let a = work.s(
        "a",
        &format!(
            "{}{}{}",
            start(&["f", "g", "h"]),
            per_text_function("g", "ret", false),
            per_text_function("f", "nop\nret", true)
        ),
    );
    let b = work.s(
        "b",
        &format!(
            "{}{}",
            per_text_function("f", "nop\nret", true),
            per_text_function("h", "nop\nnop\nret", false)
        ),
    );
    work.ld(&["-o", "program", &a, &b]).quiet();
    work.run("program");
    let elf = work.elf("program");
    check_segment(&elf);
    check_rows(&elf, &["f", "g", "h"]);
    let all = output_blobs(&elf);
    assert_eq!(all.len(), 3, "one blob per kept function");
    assert!(all.is_sorted_by_key(|b| b.rows[0].start), "in the order of the text");
    assert!(all.iter().all(|b| b.offset % 8 == 0 && b.flags == PCREL && b.version == 3));
}

#[test]
fn plain_inputs_come_first_in_input_order() {
    let work = Work::new();
    let plain = |name: &str| {
        let directive = ".section .sframe,\"a\",@0x6ffffff4";
        format!(
            ".section .text.{name},\"ax\"\n.globl {name}\n{name}: ret\n{}",
            v3_source(directive, name, "1")
        )
    };
    let a =
        work.s("a", &format!("{}{}{}", start(&["p", "q"]), per_text_function("l", "ret", false), plain("p")));
    let b = work.s("b", &plain("q"));
    work.ld(&["-o", "program", &b, &a]).quiet();
    let elf = work.elf("program");
    let order: Vec<u64> = output_blobs(&elf).iter().map(|b| b.rows[0].start).collect();
    assert_eq!(order, [elf.symbol("q").value, elf.symbol("p").value, elf.symbol("l").value]);
}

#[test]
fn greater_alignment_is_kept() {
    let work = Work::new();
    let aligned = per_text_function("f", "ret", false).replace(".balign 8", ".balign 64");
    let a = work.s("a", &format!("{}{}", start(&["f", "g"]), per_text_function("g", "ret", false)));
    let b = work.s("b", &aligned);
    work.ld(&["-o", "program", &a, &b]).quiet();
    let elf = work.elf_unchecked("program");
    let section = elf.section(".sframe");
    assert_eq!(section.align, 64);
    assert_eq!(section.addr % 64, 0);
    let at =
        (0..section.data.len()).step_by(64).filter(|&o| section.data[o..].starts_with(&[0xe2, 0xde])).count();
    assert!(at >= 2, "the blob of f starts at a multiple of 64");
}

#[test]
fn blobs_of_all_versions_stand_together_and_are_right() {
    let demo = ["leaf", "chain", "dyn", "bigframe", "priv", "many", "elsewhere"];
    let main = ["_start", "sink", "ext"];
    for (one, two) in [
        ("v1-gas2.40", "v3-gas2.47"),
        ("v3-gas2.47", "v2-gas2.44"),
        ("v2-gas2.44", "v1-gas2.40"),
        ("v2e1-gas2.45", "v1-gas2.40"),
        ("v2e1-llvm22", "v3-gas2.47"),
    ] {
        let work = Work::new();
        let a = work.fixture(&format!("{one}/demo.x86_64.o"));
        let b = work.fixture(&format!("{two}/main.x86_64.o"));
        let puts = work.s("puts", PUTS);
        work.ld(&["-o", "program", &a, &b, &puts]).quiet();
        let elf = work.elf("program");
        check_segment(&elf);
        check_rows(&elf, &demo);
        check_rows(&elf, &main);
        let all = output_blobs(&elf);
        let version = |name: &str| name.as_bytes()[1] - b'0';
        assert_eq!(all.iter().map(|b| b.version).collect::<Vec<_>>(), [version(one), version(two)]);
        for blob in &all {
            assert_eq!(
                blob.flags & PCREL != 0,
                blob.version >= 2,
                "{one} {two}: V2 and V3 are field-relative"
            );
            assert_eq!(blob.flags & SORTED, 0, "several blobs are not one sorted table");
        }
    }
}

#[test]
fn frames_move_no_byte_but_starts_and_flags() {
    for (version, machine) in ASSEMBLED {
        let work = Work::new();
        let a = work.fixture(&format!("{version}/demo.{machine}.o"));
        let b = work.fixture(&format!("{version}/main.{machine}.o"));
        work.ld(&["-o", "program", &b, &a, "--defsym=puts=_start"]).quiet();
        let elf = work.elf("program");
        check_rows(&elf, &["leaf", "chain", "dyn", "bigframe", "many", "elsewhere", "_start", "sink", "ext"]);
        let output = &elf.section(".sframe").data;
        let mut at = 0;
        for name in [&b, &a] {
            let input = work.elf_unchecked(name).section(".sframe").data.to_vec();
            let blob = crate::support::sframe::blob_at(elf.section(".sframe"), at).unwrap();
            let width = if blob.version == 3 { 8 } else { 4 };
            let mut got = output[at..at + input.len()].to_vec();
            let mut expected = input.clone();
            for row in &blob.rows {
                let field = row.field - at;
                got[field..field + width].fill(0);
                expected[field..field + width].fill(0);
            }
            (got[3], expected[3]) = (0, 0);
            assert_eq!(got, expected, "{version} {name}");
            at = (at + input.len()).next_multiple_of(8);
        }
        assert!(output.len() <= at, "nothing after the last blob");
    }
}

#[test]
fn one_sorted_blob_stays_sorted_and_two_do_not() {
    let work = Work::new();
    let sorted = |name: &str| per_text_function(name, "ret", false).replace(".byte 3,4,3", ".byte 3,5,3");
    let a = work.s("a", &format!("{}{}", start(&["f"]), sorted("f")));
    let b = work.s("b", &sorted("g"));
    work.ld(&["-o", "one", &a]).quiet();
    assert_eq!(output_blobs(&work.elf("one"))[0].flags, SORTED | PCREL);
    work.ld(&["-o", "two", &a, &b]).quiet();
    assert!(output_blobs(&work.elf("two")).iter().all(|b| b.flags == PCREL));
}

#[test]
fn type_and_name_decide_on_sframe_inputs() {
    let work = Work::new();
    let named = |section: &str, kind: &str, name: &str| {
        let directive = format!(".section {section},\"ao\",{kind},.text.{name}");
        format!(
            ".section .text.{name},\"ax\"\n.globl {name}\n{name}: ret\n{}",
            v3_source(&directive, name, "1")
        )
    };
    let a = work.s(
        "a",
        &format!(
            "{}{}{}{}",
            start(&["f"]),
            named(".sframe", "@progbits", "f"),
            named(".sframe.g", "@0x6ffffff4", "g"),
            named(".sframe_idx", "@0x6ffffff4", "h")
        ),
    );
    work.ld(&["-o", "program", &a]).quiet();
    let elf = work.elf("program");
    check_segment(&elf);
    check_rows(&elf, &["f", "g", "h"]);
    assert!(elf.section_names().iter().filter(|n| n.contains("sframe")).count() == 1, "all in .sframe");
    let empty = work.s("empty", &format!("{}.section .sframe,\"\",@progbits\n", start(&[])));
    work.ld(&["-o", "program", &empty]).quiet();
    let elf = work.elf("program");
    assert!(
        elf.find(".sframe").is_none() && elf.segments_of(PT_GNU_SFRAME).is_empty(),
        "zero size is ignored"
    );
}

#[test]
fn same_named_sections_with_and_without_types_join() {
    let work = Work::new();
    for mode in ["multi", "multiname", "linkorder", "comdat", "comdatlo"] {
        let object = work.fixture(&format!("crafted-v3/{mode}.x86_64.o"));
        work.ld(&["-o", "program", &object]).quiet();
        let elf = work.elf("program");
        check_segment(&elf);
        check_rows(&elf, &["f1", "f2", "f3"]);
        assert_eq!(output_blobs(&elf).len(), 3, "{mode}");
    }
}

#[test]
fn two_blobs_in_one_input_section_pass() {
    let work = Work::new();
    let object = work.fixture("crafted-v3/twice.x86_64.o");
    work.ld(&["-o", "program", &object]).ok();
    let elf = work.elf("program");
    check_rows(&elf, &["f1", "f2", "f3"]);
    assert_eq!(output_blobs(&elf).len(), 2);
}

#[test]
fn an_unknown_version_passes_whole() {
    let work = Work::new();
    let unknown = per_text_function("f", "ret", false).replace(".byte 3,4,3", ".byte 9,4,3");
    let a = work.s("a", &format!("{}{}{}", start(&["f"]), unknown, per_text_function("g", "ret", false)));
    work.ld(&["-o", "program", &a]).ok().says_not(&["error"]);
    let elf = work.elf_unchecked("program");
    let section = elf.section(".sframe");
    assert_eq!(section.data[2], 9);
    assert_eq!(section.size as usize, 55usize.next_multiple_of(8) + 55);
    check_segment(&elf);
}

#[test]
fn a_corrupt_section_passes_whole_with_a_warning() {
    let work = Work::new();
    let good = per_text_function("f", "ret", false);
    for (name, bad) in [
        ("magic", good.replace("0xdee2", "0x1234")),
        ("count", good.replace(".4byte 1,2,11,0,16", ".4byte 0x7fffffff,2,11,0,16")),
        ("rows outside", good.replace(".4byte 1,2,11,0,16", ".4byte 1,2,0x7fffffff,0,0xfffffff0")),
        ("short", good.split(".8byte").next().unwrap().to_owned()),
    ] {
        let a = work.s("bad", &format!("{}{bad}", start(&["f"])));
        work.ld(&["-o", "program", &a]).ok().says(&["warning", "bad.o", ".sframe"]);
        let elf = work.elf_unchecked("program");
        let input = work.elf_unchecked("bad.o").section(".sframe").size;
        assert_eq!(elf.section(".sframe").size, input, "{name}");
    }
}

#[test]
fn frames_can_be_dropped() {
    let work = Work::new();
    let a = work.s("a", &format!("{}{}", start(&["f"]), per_text_function("f", "ret", false)));
    for option in ["--sframe=discard", "--discard-sframe"] {
        work.ld(&["-o", "program", &a, option]).quiet();
        let elf = work.elf("program");
        assert!(elf.find(".sframe").is_none() && elf.segments_of(PT_GNU_SFRAME).is_empty());
        work.run("program");
    }
    work.ld(&["-o", "program", &a, "--sframe=nonsense"]).fails().says(&["nonsense", "concat", "discard"]);
}

#[test]
fn a_script_discards_frames_in_silence() {
    let work = Work::new();
    let inl = work.fixture("v3-gas2.47/inl.x86_64.o");
    let inl2 = work.fixture("v3-gas2.47/inl2.x86_64.o");
    work.write("drop.ld", "SECTIONS { /DISCARD/ : { *(.sframe) } } INSERT AFTER .text;\n");
    let main = work.cc("main", "int ext(int x) { return x + 1; } int use_a(int); int use_b(int); int main() { return use_a(1) - use_b(1); }", &[]);
    work.gxx(&["-o", "program", &main, &inl, &inl2, "-Wl,-T,drop.ld"]).ok().says_not(&["discarded section"]);
    assert!(work.elf("program").find(".sframe").is_none());
    work.run("program");
}

#[test]
fn frames_outside_memory_have_no_address_and_no_segment() {
    let work = Work::new();
    let a = work.s(
        "a",
        &format!(
            "{}{}{}",
            start(&["f", "g"]),
            per_text_function("f", "ret", false),
            per_text_function("g", "nop\nret", true)
        ),
    );
    work.ld(&["-o", "program", &a, "-z", "nosframe-alloc"]).quiet();
    let elf = work.elf("program");
    let section = elf.section(".sframe");
    assert_eq!((section.flags & SHF_ALLOC, section.addr, section.kind), (0, 0, SHT_GNU_SFRAME));
    assert!(elf.segments_of(PT_GNU_SFRAME).is_empty());
    check_rows(&elf, &["f", "g"]);
    work.ld(&["-o", "program", &a, "-z", "nosframe-alloc", "-z", "sframe-alloc"]).quiet();
    check_segment(&work.elf("program"));
    // The section's flags are settled before a script sees it.
    let script = work.write(
        "flags.ld",
        "SECTIONS { . = 0x10000; .text : { *(.text .text.*) }
           .sframe : { INPUT_SECTION_FLAGS(SHF_ALLOC) *(.sframe .sframe_idx) }
           .aside 0 : { INPUT_SECTION_FLAGS(!SHF_ALLOC) *(.sframe .sframe_idx) } }",
    );
    for options in [&[][..], &["--sframe-index"]] {
        for (alloc, name) in [("sframe-alloc", ".sframe"), ("nosframe-alloc", ".aside")] {
            let args = ["-o", "program", &a, "-T", &script, "-z", alloc];
            work.ld(&[&args, options].concat()).quiet();
            let elf = work.elf_unchecked("program");
            let found: Vec<&str> =
                elf.sections.iter().filter(|s| s.kind == SHT_GNU_SFRAME).map(|s| s.name.as_str()).collect();
            assert_eq!(found, [name], "{alloc} {options:?}");
        }
    }
}

#[test]
fn position_independent_outputs_need_no_relocation() {
    let work = Work::new();
    let a = work
        .s("a", &format!("{}{}", per_text_function("f", "ret", false), per_text_function("g", "ret", true)));
    for mode in [&["-shared"][..], &["-pie", "--no-dynamic-linker", "-e", "f"]] {
        let mut args = vec!["-o", "out", &a];
        args.extend(mode);
        work.ld(&args).quiet();
        let elf = work.elf("out");
        check_segment(&elf);
        check_rows(&elf, &["f", "g"]);
        let section = elf.section(".sframe");
        assert!(elf.dynamic_relocations().iter().all(|r| !(section.addr..section.end()).contains(&r.offset)));
    }
}

#[test]
fn per_text_frames_die_with_their_text_and_keep_nothing() {
    let work = Work::new();
    let a = work.s(
        "a",
        &format!(
            "{}{}{}{}",
            start(&["live", "inlined"]),
            per_text_function("dead", "ret", false),
            per_text_function("live", "ret", false),
            per_text_function("inlined", "ret", true)
        ),
    );
    work.ld(&["-o", "program", &a, "--gc-sections"]).quiet();
    let elf = work.elf("program");
    assert!(elf.find_symbol("dead").is_none());
    assert_eq!(output_blobs(&elf).len(), 2);
    check_rows(&elf, &["live", "inlined"]);
    let only = work.s("only", &format!("{}{}", start(&[]), per_text_function("dead", "ret", false)));
    work.ld(&["-o", "program", &only, "--gc-sections"]).quiet();
    assert!(work.elf("program").find(".sframe").is_none(), "nothing left, no section");
}

#[test]
fn a_monolithic_section_lives_if_something_it_describes_lives() {
    for version in ["v1-gas2.40", "v2-gas2.44", "v2e1-gas2.45", "v3-gas2.47"] {
        let work = Work::new();
        let folder = if version == "v3-gas2.47" {
            "v3-gas2.47/demo_function_sections"
        } else {
            &format!("{version}/demo")
        };
        let object = work.fixture(&format!("{folder}.x86_64.o"));
        let user =
            work.s("user", &format!("{}.globl ext, sink\next: ret\nsink: ret\n", start(&["elsewhere"])));
        work.ld(&["-o", "program", &user, &object, "--gc-sections"]).quiet();
        let elf = work.elf("program");
        check_rows(&elf, &["elsewhere"]);
        assert!(elf.find_symbol("many").is_none(), "{version}: frames keep no text");
        let blob = &output_blobs(&elf)[0];
        let section = elf.section(".sframe");
        let dead: Vec<_> = blob.rows.iter().filter(|r| r.size == 0).collect();
        assert_eq!(dead.len(), blob.rows.len() - 1, "{version}: all other rows are dead: {blob:x?}");
        for row in dead {
            assert!(
                (section.addr..section.end()).contains(&row.start),
                "{version}: {row:x?} matches no code"
            );
        }
        let nobody = work.s("nobody", &start(&[]));
        work.ld(&["-o", "program", &nobody, &object, "--gc-sections", "--unresolved-symbols=ignore-all"])
            .quiet();
        assert!(work.elf("program").find(".sframe").is_none(), "{version}: nothing that it describes lives");
    }
}

#[test]
fn frames_without_relocations_stay_unless_collected() {
    let work = Work::new();
    let bare = v3_source(".section .sframe,\"a\",@0x6ffffff4", "0+.", "1");
    let a = work.s("a", &format!("{}{bare}", start(&[])));
    work.ld(&["-o", "program", &a]).ok();
    assert!(work.elf_unchecked("program").find(".sframe").is_some());
    work.ld(&["-o", "program", &a, "--gc-sections"]).ok();
    assert!(work.elf_unchecked("program").find(".sframe").is_none());
}

#[test]
fn keep_in_a_script_does_not_keep_dead_text() {
    let work = Work::new();
    let a = work.s(
        "a",
        &format!(
            "{}{}{}",
            start(&["live"]),
            per_text_function("dead", "ret", false),
            per_text_function("live", "ret", false)
        ),
    );
    work.write("keep.ld", "SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text .text.*) } .sframe : { KEEP(*(.sframe)) } }");
    work.ld(&["-o", "program", &a, "--gc-sections", "-T", "keep.ld"]).ok();
    assert!(work.elf_unchecked("program").find_symbol("dead").is_none());
}

#[test]
fn a_real_program_with_frames_of_a_real_assembler_runs() {
    let assembler = need!(tools::assembler(3));
    let readelf = need!(tools::sframe_readelf());
    let work = Work::new();
    work.write("main.c", "#include <stdio.h>\n__attribute__((noinline)) static int f(int x) { printf(\"%d\\n\", x); return x - 3; }\nint main(void) { return f(3); }");
    work.command("gcc", &["-O1", "-S", "main.c"]).ok();
    work.command(assembler, &["--gsframe", "-o", "main.o", "main.s"]).ok();
    work.gcc(&["-o", "program", "main.o"]).quiet();
    assert_eq!(work.run("program"), "3\n");
    let elf = work.elf("program");
    check_segment(&elf);
    check_rows(&elf, &["main", "f"]);
    let dump = work.command(readelf, &["--sframe", "program"]).ok();
    assert!(!dump.output().contains("Error"), "{dump}");
    assert_eq!(blobs(elf.section(".sframe")).len(), 1);
}

/// A V3 blob that describes `f` through its global symbol, in a section with these flags.
fn describes_f(flags: &str) -> String {
    format!(
        ".section .sframe,\"{flags}\",@0x6ffffff4\n.balign 8\n.short 0xdee2\n.byte 3,4,3,0,-8,0\n.long 1,1,8,0,16\n.quad f-.\n.long 1,0\n.short 1\n.byte 0,0,0,0,3,8\n"
    )
}

const F: &str = ".section .text.f,\"ax\",@progbits\n.globl f\n.type f,@function\nf: ret\n.size f,.-f\n";

#[test]
fn a_row_describes_the_function_of_this_output() {
    let work = Work::new();
    let a = work.s("a", &format!("{F}{}", describes_f("a")));
    work.ld(&["-shared", "-o", "liba.so", &a]).quiet();
    let elf = work.elf("liba.so");
    assert!(elf.dynamic_relocations().is_empty());
    let all = output_blobs(&elf);
    assert!(all[0].row_at(elf.symbol("f").value).is_some(), "{all:?}");
}

#[test]
fn retained_and_referenced_frames_keep_no_text() {
    let work = Work::new();
    let start = ".globl _start\n_start: mov frames(%rip),%eax\n";
    let a = work.s("a", &format!("{start}{F}{}frames:\n", describes_f("aR")));
    let outcome = work.ld(&["-o", "program", &a, "--gc-sections"]).no_crash();
    // The frames went with f, so the reference to them is an error.
    assert_eq!(outcome.code, Some(1), "{outcome}");
    let b = work.s("b", &format!(".globl _start\n_start: ret\n{F}{}", describes_f("aR")));
    work.ld(&["-o", "program", &b, "--gc-sections"]).quiet();
    let elf = work.elf("program");
    assert!(elf.find_symbol("f").is_none() && elf.find(".sframe").is_none());
}

#[test]
fn emitted_relocations_recompute_what_was_written() {
    for (version, machine) in ASSEMBLED {
        let work = Work::new();
        let a = work.fixture(&format!("{version}/demo.{machine}.o"));
        let b = work.fixture(&format!("{version}/main.{machine}.o"));
        work.ld(&["--emit-relocs", "-o", "program", &a, &b, "--defsym=puts=_start"]).quiet();
        let elf = work.elf("program");
        let frames = elf.section(".sframe");
        let symbols = elf.symbols();
        let relocations = elf.relocations_for(frames.index);
        assert_eq!(relocations.len(), 10, "{version} {machine}");
        for relocation in relocations {
            let symbol = symbols.iter().find(|s| s.index == relocation.symbol).unwrap();
            let value = symbol.value.wrapping_add_signed(relocation.addend).wrapping_sub(relocation.offset);
            let at = (relocation.offset - frames.addr) as usize;
            let stored = match version {
                "v3-gas2.47" => quad(&frames.data, at),
                _ => word(&frames.data, at) as i32 as u64,
            };
            assert_eq!(value, stored, "{version} {machine} at {at:#x}");
        }
    }
}
