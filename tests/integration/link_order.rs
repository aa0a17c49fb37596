//! `SHF_LINK_ORDER`: metadata has the order of its text sections, and goes with them.

use crate::support::Work;
use crate::support::elf::*;

fn described(name: &str, value: u32) -> String {
    format!(
        ".section .text.{name},\"ax\",@progbits\n.globl {name}\n{name}: ret\n.section .meta,\"ao\",@progbits,.text.{name},unique,{value}\n.quad {value}\n"
    )
}

const START: &str = ".globl _start\n_start: ret\n";

#[test]
fn metadata_follows_the_addresses_of_its_targets() {
    let work = Work::new();
    let a = work.s("a", &format!("{START}{}{}", described("later", 2), described("first", 1)));
    let b = work.s("b", &described("unlikely_last", 3));
    work.write("order.ld", "SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text) *(.text.first) *(.text.later) *(.text.*) } .meta : { *(.meta) } }");
    work.ld(&["-o", "program", &b, &a, "-T", "order.ld"]).ok();
    let elf = work.elf("program");
    assert_eq!(elf.section(".meta").quads(), [1, 2, 3]);
    let input_order = |args: &[&str]| {
        work.ld(args).quiet();
        let elf = work.elf("program");
        let names = ["first", "later", "unlikely_last"];
        let mut order: Vec<(u64, u64)> = (1..).zip(names).map(|(i, n)| (elf.symbol(n).value, i)).collect();
        order.sort_unstable();
        let expected: Vec<u64> = order.into_iter().map(|(_, i)| i).collect();
        assert_eq!(elf.section(".meta").quads(), expected);
        expected
    };
    assert_eq!(input_order(&["-o", "program", &a, &b]), [2, 1, 3]);
    assert_eq!(input_order(&["-o", "program", &b, &a]), [3, 2, 1]);
}

#[test]
fn plain_sections_come_first_in_input_order() {
    let work = Work::new();
    let plain = ".section .meta,\"a\",@progbits\n.quad 100\n";
    let a = work.s("a", &format!("{START}{}{}{plain}", described("later", 2), described("first", 1)));
    let b = work.s("b", ".section .meta,\"a\",@progbits\n.quad 200\n");
    work.ld(&["-o", "program", &a, &b]).quiet();
    assert_eq!(work.elf("program").section(".meta").quads(), [100, 200, 2, 1]);
}

#[test]
fn link_order_to_nothing_is_plain() {
    let work = Work::new();
    let zero = ".section .meta,\"ao\",@progbits,0,unique,9\n.quad 50\n";
    let a = work.s("a", &format!("{START}{}{zero}", described("f", 1)));
    work.ld(&["-o", "program", &a]).quiet();
    assert_eq!(work.elf("program").section(".meta").quads(), [50, 1]);
}

#[test]
fn the_output_keeps_flag_and_link() {
    let work = Work::new();
    let a = work.s("a", &format!("{START}{}", described("f", 1)));
    work.ld(&["-o", "program", &a]).quiet();
    let elf = work.elf("program");
    let meta = elf.section(".meta");
    if meta.flags & SHF_LINK_ORDER != 0 {
        assert_eq!(elf.sections[meta.link as usize].name, ".text");
    }
}

#[test]
fn metadata_dies_with_its_target_and_does_not_keep_it() {
    let work = Work::new();
    let refer = |name: &str, value: u32| described(name, value) + &format!(".quad {name}\n");
    let a = work
        .s("a", &format!(".globl _start\n_start: call live\nret\n{}{}", refer("dead", 1), refer("live", 2)));
    work.ld(&["-o", "program", &a, "--gc-sections"]).quiet();
    let elf = work.elf("program");
    assert_eq!(elf.section(".meta").quads(), [2, elf.symbol("live").value]);
    assert!(elf.find_symbol("dead").is_none());
}

#[test]
fn metadata_lives_with_its_target_without_any_reference() {
    let work = Work::new();
    let a = work.s("a", &format!(".globl _start\n_start: call live\nret\n{}", described("live", 2)));
    work.ld(&["-o", "program", &a, "--gc-sections"]).quiet();
    assert_eq!(work.elf("program").section(".meta").quads(), [2]);
    let chain = format!(
        "{START}.section .mid,\"ao\",@progbits,.text\n.quad 7\n.section .top,\"ao\",@progbits,.mid\n.quad 8\n"
    );
    let b = work.s("b", &chain);
    work.ld(&["-o", "program", &b, "--gc-sections"]).quiet();
    let elf = work.elf("program");
    assert_eq!((elf.section(".mid").quads(), elf.section(".top").quads()), (vec![7], vec![8]));
}

#[test]
fn metadata_is_dropped_with_a_target_that_lost_its_group() {
    let work = Work::new();
    let body = |n: u32| {
        format!(
            ".section .text.f,\"axG\",@progbits,f,comdat\n.weak f\nf: ret\n.section .meta,\"ao\",@progbits,.text.f\n.quad {n}\n"
        )
    };
    let a = work.s("a", &format!("{START}{}", body(1)));
    let b = work.s("b", &body(2));
    work.ld(&["-o", "program", &a, &b]).ok();
    assert_eq!(work.elf("program").section(".meta").quads(), [1]);
}

#[test]
fn a_link_out_of_range_is_an_error_and_one_to_itself_orders_nothing() {
    let work = Work::new();
    let a = work.s("a", &format!("{START}{}", described("f", 1)));
    let elf = work.elf_unchecked(&a);
    let meta = elf.section(".meta").index;
    let header = quad(&elf.bytes, 40) as usize + meta * 64 + 40;
    let linked_to = |link: u32| {
        let mut bytes = elf.bytes.clone();
        bytes[header..header + 4].copy_from_slice(&link.to_le_bytes());
        work.write("changed.o", bytes)
    };
    let far = linked_to(9999);
    let outcome = work.ld(&["-o", "program", &far]).fails().says(&["changed.o", ".meta"]);
    assert!(!outcome.stderr.contains("internal"), "{outcome}");
    work.ld(&["-r", "-o", "out.o", &far]).fails();
    let own = linked_to(meta as u32);
    work.ld(&["-o", "program", &own]).quiet();
    work.ld(&["-r", "-o", "out.o", &own]).quiet();
    work.ld(&["-o", "program", "out.o"]).quiet();
    assert_eq!(work.elf("program").section(".meta").quads(), [1]);
}

#[test]
fn relocatable_links_keep_one_section_per_target() {
    let work = Work::new();
    let a = work.s("a", &format!("{START}{}{}", described("f", 1), described("g", 2)));
    let b = work.s("b", &described("h", 3));
    work.ld(&["-r", "-o", "merged.o", &a, &b]).quiet();
    let elf = work.elf("merged.o");
    let metas = elf.sections_named(".meta");
    assert_eq!(metas.len(), 3);
    let mut targets: Vec<(String, u64)> =
        metas.iter().map(|m| (elf.sections[m.link as usize].name.clone(), m.quads()[0])).collect();
    targets.sort();
    assert_eq!(targets, [(".text.f".into(), 1), (".text.g".into(), 2), (".text.h".into(), 3)]);
    assert!(metas.iter().all(|m| m.flags & SHF_LINK_ORDER != 0));
    work.ld(&["-o", "direct", &a, &b]).quiet();
    work.ld(&["-o", "through", "merged.o"]).quiet();
    assert_eq!(work.elf("direct").section(".meta").data, work.elf("through").section(".meta").data);
}
