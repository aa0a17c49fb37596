//! Features that kernel builds need from a linker and programs do not need.

use crate::on_every_machine;
use crate::support::Work;
use crate::support::elf::*;
use crate::support::machine::Machine;

/// The header of an arm64 boot image contains such numbers, in a link with `-shared`.
fn numbers_of_scripts_are_fixed_in_position_independent_outputs(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.s(
        "a",
        ".data\n.balign 8\n.globl first, last, table\nfirst: .quad size\ntable: .long size, flags, high, 0\nlast: .quad moving\n",
    );
    let script = work.write(
        "script",
        "SECTIONS { . = SIZEOF_HEADERS; .dynsym : { *(.dynsym) } .dynstr : { *(.dynstr) } .hash : { *(.hash) } .gnu.hash : { *(.gnu.hash) }\n\
         .rela.dyn : { *(.rela.dyn) } . = ALIGN(0x10000);\n.dynamic : { *(.dynamic) } .data : { *(.data) } }\n\
         size = ((last - first) & 0xffffffff); high = (last - first) >> 32; flags = (1 << 3) | again; again = 2;\n\
         moving = first + 8;\n",
    );
    for mode in ["-shared", "-pie"] {
        work.ld(&[mode, "-Bsymbolic", "--no-dynamic-linker", "-e", "0", "-o", "out", "-T", &script, &object])
            .quiet();
        let elf = work.elf_unchecked("out");
        let data = elf.section(".data");
        assert_eq!((data.quads()[0], &data.words()[2..6]), (24, &[24, 10, 0, 0][..]), "{mode}");
        let relocated: Vec<u64> =
            elf.dynamic_relocations().iter().map(|relocation| relocation.offset).collect();
        assert_eq!(relocated, [data.addr + 24], "{mode}: only the address moves");
        assert_eq!(elf.symbol("size").section, SHN_ABS, "{mode}");
    }
}

on_every_machine!(numbers_of_scripts_are_fixed_in_position_independent_outputs,);

/// Code that runs from one input section into the next one passes instructions that do nothing.
#[test]
fn gaps_between_code_hold_the_instructions_that_gnu_ld_puts_there() {
    let work = Work::new();
    let first = work.s("first", ".text\n.globl _start\n_start: .byte 0x90, 0x90, 0x90\n");
    let second = work.s("second", ".text\n.balign 16\nnext: ret\n");
    for mode in [&["-r"][..], &[]] {
        work.ld(&[mode, &["-o", "out", &first, &second]].concat()).quiet();
        let elf = work.elf_unchecked("out");
        let text = &elf.section(".text").data;
        let gap = [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x00];
        assert_eq!(text[3..16], gap, "{mode:?}");
    }
}
