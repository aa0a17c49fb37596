//! Scripts with many names of one kind. Each name must be found without a search through the others, which
//! would exceed the limits of `proportion`.

use crate::proportion::{lines, within};
use crate::support::Work;
use crate::support::elf::PT_NOTE;

#[test]
fn start_symbols_of_many_output_sections() {
    let work = Work::new();
    let count = 40_000;
    let sections = lines(count, |n| format!(".section s_{n},\"aw\"\n.quad __start_s_{n}, __stop_s_{n}"));
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{sections}"));
    let outputs = lines(count, |n| format!("s_{n} : {{ *(s_{n}) }}"));
    work.write("script.ld", format!("SECTIONS {{ .text : {{ *(.text) }} {outputs} }}"));
    within(&work, &["-T", "script.ld", &object]).ok();
    let outputs = lines(count, |n| format!("s : {{ *(s_{n}) }}"));
    work.write("script.ld", format!("SECTIONS {{ .text : {{ *(.text) }} {outputs} }}"));
    within(&work, &["-T", "script.ld", &object]).fails().says(&["undefined symbol: __start_s_0"]);
}

/// A section may name any number of program headers. All sections that follow it, in the script or not,
/// inherit them.
#[test]
fn program_headers_that_many_sections_inherit() {
    let work = Work::new();
    let count = 12_000;
    let sections = lines(count, |n| format!(".section s_{n},\"aw\"\n.quad {n}"));
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{sections}"));
    let headers = lines(count, |n| format!("p{n} PT_NOTE;"));
    let named = lines(count, |n| format!(":p{n}"));
    let outputs = lines(count, |n| format!("s_{n} : {{ *(s_{n}) }}"));
    let overlay = lines(count, |n| format!("s_{n} {{ *(s_{n}) }}"));
    for (rest, named_by_overlay) in
        [(outputs, ""), (String::new(), ""), (format!("OVERLAY : {{ {overlay} }}"), &*named)]
    {
        let text = format!(
            "PHDRS {{ text PT_LOAD; data PT_LOAD; {headers} }}\n\
             SECTIONS {{ .text : {{ *(.text) }} :text .data : {{ QUAD(0) }} :data {named} {rest} {named_by_overlay} }}"
        );
        work.write("script.ld", text);
        within(&work, &["-T", "script.ld", &object]).ok();
        assert_eq!(work.elf_unchecked("out").segments_of(PT_NOTE).len(), count);
    }
}

/// Each symbol belongs to the section near its address, and there are as many sections as symbols.
#[test]
fn computed_addresses_among_many_sections() {
    let work = Work::new();
    let count = 60_000;
    let sections = lines(count, |n| format!(".section s_{n},\"aw\"\n.quad {n}"));
    let object = work.s("object", &format!(".globl a\n.data\na: .quad 0\n{sections}"));
    work.write("symbols.ld", lines(count, |n| format!("x{n} = a + {n} + 1;")));
    within(&work, &["-shared", &object, "symbols.ld"]).ok();
}

#[test]
fn names_of_many_equals_signs() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let name = lines(600_000, |n| format!("a{n}=")).replace('\n', "");
    work.write("script.ld", format!("{name}1;"));
    within(&work, &["-T", "script.ld", &start]).fails().says(&["expected `;`"]);
}

#[test]
fn regions_that_nothing_declares() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let count = 60_000;
    let outputs = lines(count, |n| format!("s{n} {n} : {{ BYTE(1) }} > r{n}"));
    work.write("script.ld", format!("SECTIONS {{ .text 0x100000 : {{ *(.text) }} {outputs} }}"));
    let outcome = within(&work, &["-T", "script.ld", "--error-limit=0", &start]);
    assert_eq!(outcome.ok().stderr.matches("not declared").count(), count);
}

#[test]
fn aliases_of_aliases() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let aliases = lines(60_000, |n| format!("REGION_ALIAS(\"a{n}\", a{})", n + 1));
    let layout = "SECTIONS { .text : { *(.text) } > a0 }";
    let memory = "MEMORY { a60000 : ORIGIN = 0x1000, LENGTH = 4K }";
    work.write("script.ld", format!("{memory} {aliases} {layout}"));
    within(&work, &["-T", "script.ld", &start]).ok();
    work.write("script.ld", format!("{aliases} REGION_ALIAS(a60000, a0) {layout}"));
    within(&work, &["-T", "script.ld", &start]).fails().says(&["does not exist"]);
}

/// A rule for each pair of sections that must not refer to each other, and references that no rule forbids.
#[test]
fn rules_against_references() {
    let work = Work::new();
    let count = 20_000;
    let sections = lines(count, |n| format!(".section s_{n},\"aw\"\n.quad {n}"));
    let references = ".data\n.rept 300000\n.quad _start\n.endr\n";
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{sections}{references}"));
    let outputs = lines(count, |n| format!("s_{n} : {{ *(s_{n}) }}"));
    let rules = lines(count, |n| format!("NOCROSSREFS_TO(s_{n} .data)"));
    let script = format!("SECTIONS {{ .text : {{ *(.text) }} .data : {{ *(.data) }} {outputs} }} {rules}");
    work.write("script.ld", &script);
    within(&work, &["-T", "script.ld", &object]).ok();
    work.write("script.ld", script + "NOCROSSREFS(.text .data)");
    within(&work, &["-T", "script.ld", &object])
        .fails()
        .says(&["prohibited cross reference from .data to `_start' in .text", "more errors"]);
}

/// Each output section may only take its sections if none of them is writable.
#[test]
fn sections_of_constrained_output_sections() {
    let work = Work::new();
    let count = 30_000;
    let sections = lines(count, |n| format!(".section s_{n},\"a{}\"\n.quad {n}", ["", "w"][n % 2]));
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{sections}"));
    let outputs = lines(count, |n| format!("o_{n} : ONLY_IF_RO {{ *(s_{n}) }}"));
    let script = format!("SECTIONS {{ .text : {{ *(.text) }} {outputs} rest : {{ *(s_*) }} }}");
    work.write("script.ld", script);
    within(&work, &["-T", "script.ld", &object]).ok();
    let elf = work.elf_unchecked("out");
    assert_eq!(elf.section("o_0").size, 8);
    assert!(elf.find("o_1").is_none());
    assert_eq!(elf.section("rest").size, 8 * count as u64 / 2);
}
