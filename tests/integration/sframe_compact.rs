//! `--sframe-index=compact`, `sframe table` and attached compact tables.

use crate::on_every_machine;
use crate::sframe_machines::PROGRAM;
use crate::support::Work;
use crate::support::elf::*;
use crate::support::machine::Machine;

/// Checks that the table is sound and agrees with `.eh_frame`.
#[track_caller]
fn check_verified(work: &Work, file: &str) {
    let verified = work.sframe(&["verify", file]).ok();
    assert!(verified.stdout.contains(" 0 errors") && verified.stdout.contains(" 0 wrong"), "{verified}");
    assert!(!verified.stdout.contains(" 0 SFrame functions"), "{verified}");
}

fn every_kind_of_output_has_the_rows_of_its_call_frames(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.cc("program", PROGRAM, &["-fPIC"]);
    for form in ["-pie", "-no-pie", "-static", "-shared", "-pie -Wl,--gc-sections"] {
        let options = ["-Wl,--sframe-index=compact,--sframe=discard", "-Wl,--sframe-from-eh-frame=all"];
        let args = [&form.split(' ').collect::<Vec<_>>()[..], &options, &["-o", "program", &object]].concat();
        work.gxx(&args).quiet();
        if form != "-shared" {
            assert_eq!(work.run("program"), "deep 21\n", "{form}");
        }
        let elf = work.elf_unchecked("program");
        let table = elf.section(".sframe_compact");
        assert_eq!((table.kind, table.flags & SHF_ALLOC, table.addr % 8), (SHT_PROGBITS, SHF_ALLOC, 0));
        assert!(elf.find(".sframe").is_none() && elf.segments_of(PT_GNU_SFRAME).is_empty(), "{form}");
        check_verified(&work, "program");
    }
}

/// `verify` reads the table as its readers do, so it also checks rules that SFrame cannot express.
#[test]
fn a_wrong_rule_that_sframe_cannot_hold_is_found() {
    let work = Work::new();
    let source = ".globl _start\n.type _start, %function\n_start: .cfi_startproc\nnop\n\
        .cfi_def_cfa rsp, 5000016\nnop\nret\n.cfi_endproc\n.size _start, .-_start\n";
    let object = work.s("a", source);
    work.ld(&[
        "-o",
        "program",
        "--sframe-index=compact",
        "--sframe-from-eh-frame=all",
        "--sframe=discard",
        &object,
    ])
    .quiet();
    check_verified(&work, "program");
    let elf = work.elf("program");
    let table = elf.section(".sframe_compact");
    let rule =
        table.data.windows(8).position(|word| word == 5_000_016u64.to_le_bytes()).expect("a long rule");
    let mut damaged = elf.bytes.clone();
    damaged[table.offset as usize + rule + 6] = 1;
    work.write("damaged", damaged);
    let outcome = work.sframe(&["verify", "damaged"]);
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(outcome.stdout.contains("1 wrong"), "{outcome}");
}

fn the_command_makes_and_attaches_tables(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.cc("program", PROGRAM, &[]);
    work.gxx(&["-o", "program", &object]).quiet();
    work.sframe(&["table", "program"]).ok();
    let address = format!("{:x}", work.elf_unchecked("program").symbol("main").value);
    let alone = work.sframe(&["lookup", "program.sframe_compact", &address]).ok();
    assert!(alone.stdout.contains("row +0: cfa="), "{alone}");
    work.sframe(&["attach", "--name", ".sframe_compact", "-o", "attached", "program"]).ok();
    assert_eq!(work.run("attached"), "deep 21\n");
    let elf = work.elf_unchecked("attached");
    let table = elf.section(".sframe_compact");
    assert!(elf.load_at(table.addr).is_some_and(|load| load.covers(table)));
    assert!(elf.segments_of(PT_GNU_SFRAME).is_empty());
    check_verified(&work, "attached");
    // The second table replaces the first one, in the same place.
    work.sframe(&["attach", "--name", ".sframe_compact", "-o", "again", "attached"]).ok();
    assert_eq!(work.read("again").len(), work.read("attached").len());
    check_verified(&work, "again");
    // Together with SFrame, which keeps its segment.
    work.sframe(&["attach", "-o", "both", "attached"]).ok();
    assert_eq!(work.elf_unchecked("both").segments_of(PT_GNU_SFRAME).len(), 1);
    assert_eq!(work.run("both"), "deep 21\n");
    check_verified(&work, "both");
}

on_every_machine![
    every_kind_of_output_has_the_rows_of_its_call_frames,
    the_command_makes_and_attaches_tables
];

#[test]
fn code_far_apart_has_regions_of_its_own() {
    let work = Work::new();
    let source = " .section .text.near,\"ax\"\n .globl _start\n_start: .cfi_startproc\n nop\n .cfi_endproc\n \
                  .section .text.far,\"ax\"\n .globl far\nfar: .cfi_startproc\n push %rbx\n .cfi_def_cfa_offset 16\n \
                  pop %rbx\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n";
    let object = work.s("a", source);
    work.write(
        "script",
        "SECTIONS { .near 0x10000 : { *(.text.near) } .far 0x70000000 : { *(.text.far) } .sframe_compact : { *(.sframe_compact) } \
         .eh_frame : { *(.eh_frame) } }",
    );
    work.ld(&["-Tscript", "--sframe-index=compact", "--sframe-from-eh-frame=all", &object, "-o", "program"])
        .quiet();
    let dump = work.sframe(&["dump", "program"]).ok();
    assert!(dump.stdout.contains("2 entries on 2 pages in 2 regions"), "{dump}");
    let found = work.sframe(&["lookup", "program", "far+1", "_start"]).ok();
    assert!(
        found.stdout.contains("row +1: cfa=rsp+16") && found.stdout.contains("row +0: cfa=rsp+8"),
        "{found}"
    );
}

#[test]
fn damaged_tables_are_told_of() {
    let work = Work::new();
    let object = work.cc("program", PROGRAM, &[]);
    work.gxx(&["-o", "program", &object]).quiet();
    work.sframe(&["table", "-o", "table", "program"]).ok();
    let mut bytes = work.read("table");
    bytes[8] ^= 1;
    work.write("table", bytes);
    let outcome = work.sframe(&["verify", "table"]);
    let said = outcome.to_string();
    assert!(said.contains("the header says"), "{said}");
}
