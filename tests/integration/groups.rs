//! Section groups: COMDAT groups by signature, groups that only tie sections together, malformed ones.

use crate::support::Work;
use crate::support::elf::*;
use crate::support::elf_write::{Link, RawSection, RawSymbol, object, words};

const START: &str = ".globl _start\n_start: mov $60,%eax\nxor %edi,%edi\nsyscall\n";

fn member(signature: &str, body: &str) -> String {
    format!(
        ".section .text.{signature},\"axG\",@progbits,{signature},comdat\n.weak {signature}\n.type {signature},@function\n{signature}:\n{body}\n.size {signature},.-{signature}\n"
    )
}

#[test]
fn the_first_group_of_a_signature_wins() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nint f(void); int use_a(void); int use_b(void);\nint main(void) { printf(\"%d %d %d\\n\", f(), use_a(), use_b()); }", &[]);
    let a = work.s("a", &format!("{}\n.text\n.globl use_a\nuse_a: jmp f\n", member("f", "mov $1,%eax\nret")));
    let b = work.s("b", &format!("{}\n.text\n.globl use_b\nuse_b: jmp f\n", member("f", "mov $2,%eax\nret")));
    work.gcc(&["-o", "program", &main, &a, &b]).quiet();
    assert_eq!(work.run("program"), "1 1 1\n");
    work.gcc(&["-o", "program", &main, &b, &a]).quiet();
    assert_eq!(work.run("program"), "2 2 2\n");
    let elf = work.elf("program");
    assert!(elf.sections.iter().all(|s| s.kind != SHT_GROUP && s.flags & SHF_GROUP == 0));
}

#[test]
fn a_losing_group_loses_all_its_members() {
    let work = Work::new();
    let extra = ".section .data.extra,\"awG\",@progbits,f,comdat\n.globl only_in_b\nonly_in_b: .quad 0x1122334455667788\n";
    let a = work.s("a", &format!("{START}call f\n{}", member("f", "ret")));
    let b = work.s("b", &format!("{}{extra}", member("f", "nop\nret")));
    work.ld(&["-o", "program", &a, &b]).quiet();
    let elf = work.elf("program");
    assert!(!elf.bytes.windows(8).any(|w| w == 0x1122_3344_5566_7788u64.to_le_bytes()));
    let user = work.s("user", ".data\n.quad only_in_b\n");
    work.ld(&["-o", "p", &a, &b, &user]).fails().says(&["only_in_b", "user.o"]);
}

#[test]
fn archive_members_take_part_in_the_order_of_their_extraction() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nint f(void); int early(void); int late(void);\nint main(void) { printf(\"%d\\n\", f() + early() + late()); }", &[]);
    let early = work.s(
        "early",
        &format!("{}.text\n.globl early\nearly: xor %eax,%eax\nret\n", member("f", "mov $1,%eax\nret")),
    );
    let late = work.s(
        "late",
        &format!("{}.text\n.globl late\nlate: xor %eax,%eax\nret\n", member("f", "mov $2,%eax\nret")),
    );
    let archive = work.ar("libboth.a", "", &[&early]);
    work.gcc(&["-o", "program", &main, &archive, &late]).quiet();
    assert_eq!(work.run("program"), "1\n");
    work.gcc(&["-o", "program", &main, &late, &archive]).quiet();
    assert_eq!(work.run("program"), "2\n");
}

#[test]
fn a_reference_to_a_local_symbol_of_a_discarded_group_is_an_error() {
    let work = Work::new();
    let body = |value| {
        format!(
            "{START}call _Z4innev\n{}\n.section .data,\"aw\"\n.quad .Llocal{value}\n",
            member("_Z4innev", &format!(".Llocal{value}: ret\n.byte {value}"))
        )
    };
    let a = work.s("a", &body(1));
    let b = work.s("b", &body(2).replace("_start", "start_b"));
    let outcome = work.ld(&["-o", "program", &a, &b]).fails();
    outcome.says(&["discarded section", ".text._Z4innev", "b.o", "a.o", "inne()", ".data+0x"]);
    assert!(!work.exists("program"));
    work.ld(&["-o", "program", &a, &b, "--noinhibit-exec"]).ok().says(&["discarded section"]);
    assert!(work.exists("program"));
    work.ld(&["-r", "-o", "merged.o", &a, &b]).ok().says(&["discarded section"]);
}

#[test]
fn a_global_reference_goes_to_the_prevailing_copy() {
    let work = Work::new();
    let body = |value, start: &str| {
        format!(
            ".globl {start}\n{start}: ret\n{}\n.section .data,\"aw\"\n.quad f\n",
            member("f", &format!(".fill {value},1,0x90\nret"))
        )
    };
    let a = work.s("a", &body(1, "_start"));
    let b = work.s("b", &body(2, "other"));
    work.ld(&["-o", "program", &a, &b]).quiet();
    let elf = work.elf("program");
    let f = elf.symbol("f").value;
    assert_eq!(elf.section(".data").quads(), [f, f]);
}

#[test]
fn groups_without_the_comdat_flag_all_stay_and_bind_liveness() {
    let work = Work::new();
    let source = |n| {
        format!(
            ".section .text.part{n},\"axG\",@progbits,same\n.globl part{n}\npart{n}: ret\n.section .meta,\"aG\",@progbits,same\n.quad 0x{n}{n}{n}\n"
        )
    };
    let a = work.s("a", &format!("{START}call part1\n{}", source(1)));
    let b = work.s("b", &source(2));
    work.ld(&["-o", "program", &a, &b]).quiet();
    assert_eq!(work.elf("program").section(".meta").quads(), [0x111, 0x222]);
    work.ld(&["-o", "program", &a, &b, "--gc-sections"]).quiet();
    assert_eq!(work.elf("program").section(".meta").quads(), [0x111], "members live and die together");
}

#[test]
fn linkonce_sections_and_groups_exclude_each_other() {
    let work = Work::new();
    let once = work.s("once", ".section .gnu.linkonce.t.f,\"ax\",@progbits\n.weak f\nf: mov $1,%eax\nret\n");
    let twice =
        work.s("twice", ".section .gnu.linkonce.t.f,\"ax\",@progbits\n.weak f\nf: mov $1,%eax\nret\n");
    let start = work.s("start", &format!("{START}call f\n"));
    work.ld(&["-o", "program", &start, &once, &twice]).quiet();
    let elf = work.elf("program");
    let copies = |elf: &Elf| elf.bytes.windows(6).filter(|w| w == b"\xb8\x01\0\0\0\xc3").count();
    assert_eq!(copies(&elf), 1);
    let group =
        work.s("group", ".section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf: mov $1,%eax\nret\n");
    for inputs in [[&once, &group], [&group, &once]] {
        work.ld(&["-o", "program", &start, inputs[0], inputs[1]]).quiet();
        assert_eq!(copies(&work.elf("program")), 1, "the first one wins: {inputs:?}");
    }
}

#[test]
fn an_unnamed_section_symbol_signs_by_its_section_name() {
    let make = |section: &'static str, function: &'static str| {
        let sections = [
            RawSection {
                name: ".group",
                kind: SHT_GROUP,
                info: 1,
                align: 4,
                entsize: 4,
                data: words(&[1, 2]),
                ..Default::default()
            },
            RawSection {
                name: section,
                kind: SHT_PROGBITS,
                flags: 0x206,
                align: 1,
                data: vec![0xc3],
                link: Link::Index(0),
                ..Default::default()
            },
        ];
        let symbols = [
            RawSymbol { name: "", info: 3, section: 2, value: 0 },
            RawSymbol { name: function, info: 0x12, section: 2, value: 0 },
        ];
        object(&sections, &symbols)
    };
    let work = Work::new();
    work.write("a.o", make(".text.one", "one"));
    work.write("b.o", make(".text.two", "two"));
    let start = work.s("start", &format!("{START}call one\ncall two\n"));
    work.ld(&["-o", "program", &start, "a.o", "b.o"]).quiet();
    work.elf("program");
}

/// A malformed group: what is wrong, its data, the data of a second group, and whether the link must fail.
type Malformed = (&'static str, Vec<u8>, Option<Vec<u8>>, bool);

fn malformed() -> Vec<Malformed> {
    vec![
        ("flag word only", words(&[1]), None, false),
        ("zero size", words(&[]), None, true),
        ("half a word", vec![1, 0], None, true),
        ("size no multiple of 4", vec![1, 0, 0, 0, 2, 0], None, true),
        ("unknown flag", words(&[2, 3]), None, true),
        ("a section in two groups", words(&[1, 3]), Some(words(&[1, 3])), true),
        ("a group in a group", words(&[1, 2]), Some(words(&[1, 3])), true),
        ("a group that holds itself", words(&[1, 1]), None, true),
        ("member out of range", words(&[1, 99]), None, true),
        ("member out of all range", words(&[1, 0xffff_fff0]), None, true),
        ("member zero", words(&[1, 0]), None, true),
        ("the same member twice", words(&[1, 3, 3]), None, true),
    ]
}

fn group_object(first: &[u8], second: Option<&[u8]>, signature: u32) -> Vec<u8> {
    let group = |data: &[u8], info| RawSection {
        name: ".group",
        kind: SHT_GROUP,
        info,
        align: 4,
        entsize: 4,
        data: data.to_vec(),
        ..Default::default()
    };
    let second = match second {
        Some(data) => group(data, 3),
        None => RawSection {
            name: ".comment",
            kind: SHT_PROGBITS,
            align: 1,
            link: Link::Index(0),
            ..Default::default()
        },
    };
    let text = RawSection {
        name: ".text.f",
        kind: SHT_PROGBITS,
        flags: 0x206,
        align: 1,
        data: vec![0xc3],
        link: Link::Index(0),
        ..Default::default()
    };
    let symbols = [
        RawSymbol { name: "_start", info: 0x12, section: 3, value: 0 },
        RawSymbol { name: "signature", info: 0x12, section: 3, value: 0 },
        RawSymbol { name: "second_signature", info: 0x12, section: 3, value: 0 },
    ];
    object(&[group(first, signature), second, text], &symbols)
}

#[test]
fn malformed_groups_are_errors_and_never_crashes() {
    for (name, first, second, must_fail) in malformed() {
        let work = Work::new();
        work.write("bad.o", group_object(&first, second.as_deref(), 2));
        for mode in [
            &["-o", "out", "bad.o"][..],
            &["-r", "-o", "out", "bad.o"],
            &["-o", "out", "bad.o", "--gc-sections"],
        ] {
            let outcome = work.ld(mode).no_crash();
            if must_fail {
                let outcome = outcome.fails().says(&["bad.o"]);
                assert!(outcome.stderr.contains("group"), "{name}: {outcome}");
                assert!(!work.exists("out"), "{name}");
            } else {
                outcome.ok();
                std::fs::remove_file(work.path("out")).unwrap();
            }
        }
    }
}

#[test]
fn a_group_signature_out_of_range_is_an_error() {
    let work = Work::new();
    work.write("bad.o", group_object(&words(&[1, 3]), None, 77));
    work.ld(&["-o", "out", "bad.o"]).fails().says(&["bad.o", "group"]);
    work.ld(&["-r", "-o", "out", "bad.o"]).fails().says(&["bad.o"]);
}

#[test]
fn a_grouped_section_that_no_group_lists_is_accepted() {
    let work = Work::new();
    let text = RawSection {
        name: ".text.f",
        kind: SHT_PROGBITS,
        flags: 0x206,
        align: 1,
        data: vec![0xc3],
        link: Link::Index(0),
        ..Default::default()
    };
    work.write("odd.o", object(&[text], &[RawSymbol { name: "_start", info: 0x12, section: 1, value: 0 }]));
    work.ld(&["-o", "out", "odd.o"]).ok();
    assert!(work.elf("out").find_symbol("_start").is_some());
}
