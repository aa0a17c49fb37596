//! `SHT_REL`: the addends of relocations lie at the places that they relocate.

use crate::support::Work;
use crate::support::elf::*;
use crate::support::elf_write::{Link, RawSection, RawSymbol, object};

const SHT_REL: u32 = 9;
const R_X86_64_64: u64 = 1;
const R_X86_64_PC32: u64 = 2;

/// The entries of an `SHT_REL` section: offset, symbol, type.
pub fn entries(list: &[(u64, u64, u64)]) -> Vec<u8> {
    list.iter()
        .flat_map(|(offset, symbol, kind)| [*offset, symbol << 32 | kind])
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// A section with 16 bytes of code.
pub fn code(name: &'static str) -> RawSection {
    RawSection {
        name,
        kind: SHT_PROGBITS,
        flags: SHF_ALLOC | SHF_EXECINSTR,
        align: 16,
        data: vec![0xc3; 16],
        link: Link::Index(0),
        ..Default::default()
    }
}

/// `.data` with three words whose addends are 5, 3 and -4: x, the start of `.text.x`, and the distance to x.
fn with_addends() -> Vec<u8> {
    let mut data = [5u64.to_le_bytes(), 3u64.to_le_bytes()].concat();
    data.extend((-4i32).to_le_bytes());
    let data = RawSection {
        name: ".data",
        kind: SHT_PROGBITS,
        flags: SHF_ALLOC | SHF_WRITE,
        align: 8,
        data,
        link: Link::Index(0),
        ..Default::default()
    };
    let relocations = RawSection {
        name: ".rel.data",
        kind: SHT_REL,
        info: 3,
        align: 8,
        entsize: 16,
        data: entries(&[(0, 3, R_X86_64_64), (8, 1, R_X86_64_64), (16, 3, R_X86_64_PC32)]),
        ..Default::default()
    };
    let symbols = [
        RawSymbol { name: "", info: 3, section: 2, value: 0 },
        RawSymbol { name: "d", info: 0x11, section: 3, value: 0 },
        RawSymbol { name: "x", info: 0x12, section: 2, value: 8 },
    ];
    object(&[code(".text.unused"), code(".text.x"), data, relocations], &symbols)
}

fn check_words(work: &Work, program: &str) {
    let elf = work.elf(program);
    let (x, d) = (elf.symbol("x").value, elf.symbol("d").value);
    assert_eq!(elf.quad_at(d), x + 5);
    assert_eq!(elf.quad_at(d + 8), x - 8 + 3);
    assert_eq!(i64::from(word(elf.at(d + 16, 4), 0) as i32), x as i64 - 4 - (d as i64 + 16));
}

#[test]
fn addends_come_from_the_places() {
    let work = Work::new();
    work.write("rel.o", with_addends());
    let start = work.s("start", ".globl _start\n_start: ret\n.data\n.quad d\n");
    work.ld(&["-o", "program", &start, "rel.o"]).quiet();
    check_words(&work, "program");
    work.ld(&["-o", "program", "--gc-sections", &start, "rel.o"]).quiet();
    assert!(work.elf("program").find_symbol("x").is_none(), "nothing loaded refers to d from code");
    work.ld(&["-o", "program", "--gc-sections", "-u", "d", &start, "rel.o"]).quiet();
    check_words(&work, "program");
    work.ld(&["-o", "program", "--emit-relocs", &start, "rel.o"]).quiet();
    check_words(&work, "program");
}

#[test]
fn relocatable_output_has_them_as_they_were() {
    let work = Work::new();
    work.write("rel.o", with_addends());
    let start = work.s("start", ".globl _start\n_start: ret\n.section .text.x,\"ax\"\n.fill 32\n");
    work.ld(&["-r", "-o", "merged.o", &start, "rel.o"]).quiet();
    let merged = work.elf("merged.o");
    let relocations = merged.section(".rel.data");
    assert_eq!((relocations.kind, relocations.entsize, relocations.size), (SHT_REL, 16, 48));
    assert_eq!(relocations.info as usize, merged.section(".data").index);
    assert!(merged.find(".rela.data").is_none());
    // The addend of the section symbol moved with its section.
    assert_eq!(merged.section(".data").quads()[..2], [5, 32 + 3]);
    work.ld(&["-o", "program", "merged.o"]).quiet();
    check_words(&work, "program");
}

#[test]
fn tables_that_come_with_both_are_written_with_addends() {
    let work = Work::new();
    work.write("rel.o", with_addends());
    let start = work.s("start", ".globl _start\n_start: ret\n.data\n.quad x + 1\n");
    work.ld(&["-r", "-o", "merged.o", &start, "rel.o"]).quiet();
    let merged = work.elf("merged.o");
    assert!(merged.find(".rel.data").is_none());
    let addends: Vec<i64> =
        merged.relocations_for(merged.section(".data").index).iter().map(|r| r.addend).collect();
    assert_eq!(addends, [1, 5, 3, -4]);
    work.ld(&["-o", "program", "merged.o"]).quiet();
    check_words(&work, "program");
}

#[test]
fn a_place_that_cannot_hold_its_new_addend_is_an_error() {
    let work = Work::new();
    let text = RawSection { data: vec![0; 200], ..code(".text.x") };
    let data = RawSection {
        name: ".data",
        kind: SHT_PROGBITS,
        flags: SHF_ALLOC | SHF_WRITE,
        align: 1,
        data: vec![100],
        link: Link::Index(0),
        ..Default::default()
    };
    const R_X86_64_8: u64 = 14;
    let relocations = RawSection {
        name: ".rel.data",
        kind: SHT_REL,
        info: 2,
        align: 8,
        entsize: 16,
        data: entries(&[(0, 1, R_X86_64_8)]),
        ..Default::default()
    };
    let symbol = RawSymbol { name: "", info: 3, section: 1, value: 0 };
    work.write("small.o", object(&[text, data, relocations], &[symbol]));
    work.ld(&["-r", "-o", "one.o", "small.o"]).quiet();
    work.write("copy.o", work.read("small.o"));
    work.ld(&["-r", "-o", "two.o", "small.o", "copy.o"]).fails().says(&["copy.o", ".data", "addend"]);
}
