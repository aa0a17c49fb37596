//! The examples in `linker-scripts/` (`kernel-module.ld`: see `sframe_index`).

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::sframe::blobs;
use crate::support::{Machine, Work, built};

const PROGRAM: &str = r#"
#include <stdio.h>
__thread int local = 3;
__attribute__((constructor)) static void start(void) { local++; }
int main(void) { printf("local %d\n", local); return 0; }
"#;

fn example(work: &Work, name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("linker-scripts").join(name);
    work.write(name, std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Readers find the index through its segment, and it has rows for the program's own functions.
fn a_program_by_the_example_script_holds_the_index(machine: &'static Machine) {
    let work = Work::on(machine);
    let script = example(&work, "user-program.ld");
    let object = work.c("program", PROGRAM, &["-fno-PIE", "-fasynchronous-unwind-tables"]);
    let option = format!("-Wl,-T,{script}");
    let modes = ["-Wl,--sframe-index", "-Wl,--sframe-from-eh-frame=all", &option, &object, "-o", "program"];
    for form in ["-no-pie", "-static"] {
        work.gcc(&[&[form], &modes[..]].concat()).quiet();
        assert_eq!(work.run("program"), "local 4\n", "{form}");
        let elf = work.elf("program");
        let index = elf.section(".sframe_idx");
        assert_eq!((index.kind, index.addr % 8), (SHT_GNU_SFRAME, 0));
        let segment = elf.segment(PT_GNU_SFRAME);
        assert_eq!((segment.addr, segment.size), (index.addr, index.size));
        let main = elf.symbol("main").value;
        let found = blobs(index).iter().flat_map(|blob| &blob.rows).any(|row| row.start == main);
        assert!(found, "{form}: a row for main");
    }
}

const KERNEL_SCRIPT: &str = "
OUTPUT_FORMAT(\"elf64-x86-64\", \"elf64-x86-64\", \"elf64-x86-64\")
ENTRY(startup)
PHDRS { text PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); note PT_NOTE FLAGS(0); }
LOAD_OFFSET = 0xffffffff80000000;
SECTIONS
{
  . = LOAD_OFFSET + 0x1000000;
  phys_startup = ABSOLUTE(startup - LOAD_OFFSET);
  .text : AT(ADDR(.text) - LOAD_OFFSET) { _text = .; *(.text) _etext = .; } :text =0xcccccccc
  . = ALIGN(0x1000);
  .rodata : AT(ADDR(.rodata) - LOAD_OFFSET) { *(.rodata) }
  . = ALIGN(0x1000);
  .data : AT(ADDR(.data) - LOAD_OFFSET) { *(.data) *(.bss) } :data
  _end = .;
  /DISCARD/ : { *(.eh_frame) *(.comment) *(.note*) }
}
";

/// The index comes after `.rodata`. Its load address differs from its address by as much as for the rest of
/// the kernel.
#[test]
fn a_kernel_by_the_example_script_holds_the_index() {
    let work = Work::new();
    let assembly = "
        .text
        .globl startup
        .type startup, @function
startup:
        .cfi_startproc
        push %rbx
        .cfi_adjust_cfa_offset 8
        pop %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size startup, . - startup
        .section .rodata
        .quad 1, __start_sframe, __stop_sframe
        .data
        .quad 2
    ";
    let object = work.s("head", assembly);
    let main = work.write("vmlinux.lds", KERNEL_SCRIPT);
    let added = example(&work, "vmlinux.ld");
    for scripts in [["-T", &main, "-T", &added], ["-T", &added, "-T", &main]] {
        let modes = ["--sframe-index", "--sframe-from-eh-frame=all", &object, "-o", "vmlinux"];
        work.ld(&[&scripts[..], &modes].concat()).quiet();
        let elf = work.elf_unchecked("vmlinux");
        let names: Vec<&str> = elf.section_names();
        let at = |name: &str| names.iter().position(|n| *n == name).expect(name);
        assert_eq!(at(".sframe_idx"), at(".rodata") + 1, "{names:?}");
        let index = elf.section(".sframe_idx");
        let value = |name: &str| elf.symbol(name).value;
        assert_eq!((value("__start_sframe"), value("__stop_sframe")), (index.addr, index.end()));
        let load = elf.load_at(index.addr).expect("the index is loaded");
        assert_eq!(load.addr - load.load_addr, 0xffff_ffff_8000_0000);
        let rows: Vec<_> = blobs(index).into_iter().flat_map(|blob| blob.rows).collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].start, value("startup"));
        assert_eq!(value("phys_startup"), 0x100_0000);
        // Call frame information takes no memory here; the index is compared with it.
        let frames = elf.section(".eh_frame");
        assert_eq!(
            (frames.flags & SHF_ALLOC, elf.section(".data").addr),
            (0, index.end().next_multiple_of(0x1000))
        );
        let verified = work.command(built::sframe(), &["verify", "vmlinux"]).ok();
        assert!(verified.stdout.contains(".eh_frame: 1 function "), "{verified}");
    }
}

on_every_machine![a_program_by_the_example_script_holds_the_index];
