//! Deduplication of `.eh_frame` with its sorted table, and of `SHF_MERGE` strings and constants.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work, eh_frame};

fn equal_cies_are_merged_across_files_and_every_fde_is_in_the_table(machine: &'static Machine) {
    let work = Work::on(machine);
    let mut objects = Vec::new();
    for i in 0..8 {
        let source = format!(
            "int g{i}(int); int f{i}(int x) {{ return g{i}(x) + 1; }} int g{i}(int x) {{ return x + {i}; }}"
        );
        objects.push(work.c(&format!("f{i}"), &source, &["-O0"]));
    }
    let calls: Vec<String> = (0..8).map(|i| format!("f{i}(1)")).collect();
    let declarations: String = (0..8).map(|i| format!("int f{i}(int);")).collect();
    objects.push(work.c(
        "main",
        &format!("{declarations} int main(void) {{ return {} - 44; }}", calls.join("+")),
        &[],
    ));
    let mut args = vec!["-o", "program"];
    args.extend(objects.iter().map(String::as_str));
    work.gcc(&args).quiet();
    work.run("program");
    let elf = work.elf("program");
    let fdes = eh_frame::check(&elf);
    for i in 0..8 {
        let f = elf.symbol(&format!("f{i}"));
        let fde = fdes.iter().find(|d| d.start == f.value).unwrap_or_else(|| panic!("no FDE for f{i}"));
        assert_eq!(fde.size, f.size);
    }
    let (cies, _) = eh_frame::read(elf.section(".eh_frame"));
    let mine: std::collections::BTreeSet<usize> = (0..8)
        .map(|i| elf.symbol(&format!("f{i}")).value)
        .map(|start| fdes.iter().find(|d| d.start == start).unwrap().cie)
        .collect();
    assert_eq!(mine.len(), 1, "eight equal CIEs become one: {cies:?}");
}

#[test]
fn the_header_can_be_left_out() {
    let work = Work::new();
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    work.gcc(&["-o", "program", &main, "-Wl,--no-eh-frame-hdr"]).quiet();
    let elf = work.elf("program");
    assert!(elf.find(".eh_frame_hdr").is_none() && elf.segments_of(PT_GNU_EH_FRAME).is_empty());
    assert!(elf.find(".eh_frame").is_some());
}

#[test]
fn frames_of_discarded_copies_go() {
    let work = Work::new();
    let shared = "__attribute__((noinline)) inline int shared(int x) { volatile int a = x; return a + 1; }\n";
    let a = work.cc("a", &format!("{shared}int b(int); int main() {{ return shared(1) + b(1) - 4; }}"), &[]);
    let b = work.cc("b", &format!("{shared}int b(int x) {{ return shared(x); }}"), &[]);
    work.gxx(&["-o", "program", &a, &b]).quiet();
    work.run("program");
    let elf = work.elf("program");
    let fdes = eh_frame::check(&elf);
    let copies = fdes.iter().filter(|f| f.start == elf.symbol("_Z6sharedi").value).count();
    assert_eq!(copies, 1);
    assert!(fdes.iter().all(|f| f.start != 0 && f.size != 0));
}

#[test]
fn damaged_frames_are_reported_not_followed() {
    let work = Work::new();
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    let elf = work.elf_unchecked(&main);
    let section = elf.section(".eh_frame");
    for (name, at, value) in
        [("length", 0, 0x7fff_fff0u32), ("cie", 28, 0xffff), ("sixty-four", 0, 0xffff_ffff)]
    {
        let mut bytes = elf.bytes.clone();
        let start = section.offset as usize + at;
        bytes[start..start + 4].copy_from_slice(&value.to_le_bytes());
        work.write("bad.o", bytes);
        let outcome = work.gcc(&["-o", "program", "bad.o"]).no_crash();
        assert!(
            outcome.stderr.contains("bad.o") && outcome.stderr.contains(".eh_frame"),
            "{name}: {outcome}"
        );
    }
}

#[test]
fn equal_strings_are_merged_and_suffixes_share_at_o2() {
    let work = Work::new();
    let text = |strings: &[&str]| {
        let lines: String = strings.iter().enumerate().map(|(i, s)| format!("1: .asciz \"{s}\"\n.section .ptr,\"a\"\n.quad 1b\n.section .str,\"aMS\",@progbits,1\n# {i}\n")).collect();
        format!(".section .str,\"aMS\",@progbits,1\n{lines}")
    };
    let a = work.s(
        "a",
        &format!("{}.text\n.globl _start\n_start: ret\n", text(&["common", "only a", "long suffix"])),
    );
    let b = work.s("b", &text(&["only b", "common", "suffix"]));
    let resolved = |elf: &Elf| {
        let strings = elf.section(".str");
        let of = |&p: &u64| crate::support::elf::text(&strings.data, (p - strings.addr) as u32);
        elf.section(".ptr").quads().iter().map(of).collect::<Vec<_>>()
    };
    for level in ["-O0", "-O1", "-O2"] {
        work.ld(&["-no-pie", "-o", "program", level, &a, &b]).quiet();
        let elf = work.elf("program");
        assert_eq!(resolved(&elf), ["common", "only a", "long suffix", "only b", "common", "suffix"]);
        let pointers = elf.section(".ptr").quads();
        if level != "-O0" {
            assert_eq!(pointers[0], pointers[4], "merged");
        }
        if level == "-O2" {
            assert_eq!(pointers[5], pointers[2] + 5, "a suffix shares the tail");
            assert_eq!(elf.section(".str").size, "common\0only a\0long suffix\0only b\0".len() as u64);
        }
    }
}

#[test]
fn constants_merge_by_size_and_references_inside_keep_their_place() {
    let work = Work::new();
    let source = |tag: &str, values: &str| {
        format!(
            ".section .rodata.cst16,\"aM\",@progbits,16\n.balign 16\n.Lc{tag}: .quad {values}\n.section .data.{tag},\"aw\"\n.globl p{tag}\np{tag}: .quad .Lc{tag}, .Lc{tag}+8\n"
        )
    };
    let a = work.s("a", &format!("{}.text\n.globl _start\n_start: ret\n", source("a", "1,2")));
    let b = work.s("b", &source("b", "1,2"));
    let c = work.s("c", &source("c", "1,3"));
    work.ld(&["-no-pie", "-o", "program", &a, &b, &c]).quiet();
    let elf = work.elf("program");
    let pointer = |name: &str, at: u64| elf.quad_at(elf.symbol(name).value + at);
    assert_eq!(pointer("pa", 0), pointer("pb", 0));
    assert_eq!(pointer("pa", 8), pointer("pa", 0) + 8);
    assert_ne!(pointer("pa", 0), pointer("pc", 0));
    assert_eq!(elf.quad_at(pointer("pc", 8)), 3);
    assert_eq!(pointer("pa", 0) % 16, 0);
}

#[test]
fn wide_strings_merge_by_their_character() {
    let work = Work::new();
    let wide = |name: &str, s: &str| {
        let characters: Vec<String> = s.chars().map(|c| (c as u32).to_string()).collect();
        format!(
            ".section .rodata.str4.4,\"aMS\",@progbits,4\n.balign 4\n1: .long {},0\n.section .ptr,\"a\"\n.globl {name}\n{name}: .quad 1b\n",
            characters.join(",")
        )
    };
    let a = work.s(
        "a",
        &format!("{}{}.text\n.globl _start\n_start: ret\n", wide("x", "wide"), wide("y", "w\u{100}ide")),
    );
    let b = work.s("b", &wide("z", "wide"));
    work.ld(&["-no-pie", "-o", "program", &a, &b]).quiet();
    let elf = work.elf("program");
    let pointers = elf.section(".ptr").quads();
    assert_eq!(pointers[0], pointers[2]);
    assert_ne!(pointers[0], pointers[1]);
    assert_eq!(word(elf.at(pointers[1] + 4, 4), 0), 0x100);
}

#[test]
fn a_string_without_its_end_is_an_error() {
    let work = Work::new();
    let a = work.s(
        "a",
        ".section .rodata.str1.1,\"aMS\",@progbits,1\n.ascii \"no end\"\n.text\n.globl _start\n_start: ret\n",
    );
    let outcome = work.ld(&["-o", "program", &a]).no_crash();
    if outcome.code == Some(1) {
        outcome.says(&["a.o", ".rodata.str1.1"]);
    } else {
        let elf = work.elf_unchecked("program");
        assert!(elf.bytes.windows(6).any(|w| w == b"no end"), "kept whole or refused, never cut");
    }
}

#[test]
fn merged_sections_with_other_alignment_stay_aligned() {
    let work = Work::new();
    let aligned = ".section .rodata.str1.8,\"aMS\",@progbits,1\n.balign 8\n1: .asciz \"abc\"\n.balign 8\n2: .asciz \"defgh\"\n.section .ptr,\"a\"\n.quad 1b,2b\n";
    let a = work.s("a", &format!("{aligned}.text\n.globl _start\n_start: ret\n"));
    let b = work.s("b", aligned);
    work.ld(&["-no-pie", "-o", "program", &a, &b]).quiet();
    let elf = work.elf("program");
    let pointers = elf.section(".ptr").quads();
    assert!(pointers.iter().all(|p| p % 8 == 0), "{pointers:x?}");
    assert_eq!(elf.at(pointers[1], 6), b"defgh\0");
}

on_every_machine!(equal_cies_are_merged_across_files_and_every_fde_is_in_the_table,);
