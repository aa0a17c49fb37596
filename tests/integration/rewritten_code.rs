//! Code that an unwind table describes must stay as it is: BOLT takes no such file, `sframe` tells one that
//! it has rewritten, and a program whose program headers it moved stops at its start.

use crate::support::{Elf, Machine, Outcome, Work, built, tools, unwind_runtime};
use crate::{need, on_every_machine};

on_every_machine![files_with_a_table_have_the_mark];

const MARK: &str = ".bolt.org.sframe_unwind";
const SOURCE: &str = "
    .text
    .globl _start
    _start:
        .cfi_startproc
        .cfi_def_cfa_offset 320
        nop
        .cfi_endproc
";

fn files_with_a_table_have_the_mark(machine: &'static Machine) {
    let work = Work::on(machine);
    let object = work.s("object", SOURCE);
    let text = "SECTIONS { .text : { *(.text) } .data : { *(.data .bss) } .table : { *(.sframe_unwind) } \
                /DISCARD/ : { *(.bolt* .debug_frame) } }";
    let script = work.write("script.ld", text);
    let forms: [&[&str]; 4] =
        [&[], &["-s"], &["-pie"], &["-T", &script, "--orphan-handling=error", "--separate-debug-file"]];
    for mode in ["replace", "add"] {
        let table = format!("--unwind-table={mode}");
        for form in forms.iter().filter(|form| mode == "replace" || !form.contains(&"-T")) {
            let words = [&["-o", "out", &object, &table, "--unwind-runtime=program"], *form].concat();
            work.ld(&words).ok();
            let elf = work.elf("out");
            let mark = elf.section(MARK);
            assert_eq!((mark.flags, mark.addr), (0, 0), "{words:?}");
            assert!(mark.data.starts_with(b"The code is described by .sframe_unwind"), "{words:?}");
        }
    }
    for words in [&["--unwind-table=none"][..], &[], &["-r", "--unwind-table=replace"]] {
        work.ld(&[&["-o", "out", &object], words].concat()).ok();
        assert!(work.elf("out").find(MARK).is_none(), "{words:?}");
    }
}

/// BOLT says in a note how it was called.
#[test]
fn the_command_tells_files_that_bolt_has_rewritten() {
    let objcopy = need!(tools::binutil("objcopy"));
    let work = Work::new();
    let object = work.s("object", SOURCE);
    let note = work.write("note", "a note");
    for mode in ["--unwind-table=replace", "--unwind-table=add"] {
        work.ld(&["-o", "out", &object, mode, "--unwind-runtime=program"]).ok();
        let add = format!("--add-section=.note.bolt_info={note}");
        work.command(&objcopy, &[&add, "out", "changed"]).ok();
        for (command, code) in [("verify", 1), ("unwind-table", 2)] {
            let run = |file: &str| -> Outcome { work.command(built::sframe(), &[command, file]) };
            assert!(!run("out").ok().output().contains("BOLT"));
            let outcome = run("changed");
            assert_eq!(outcome.code, Some(code), "{outcome}");
            let text = outcome.output();
            for part in ["BOLT has rewritten code", ".sframe_unwind", "--unwind-table=none"] {
                assert!(text.contains(part), "{part:?} in {text}");
            }
        }
    }
    // Other tables are made anew by `sframe attach`, and then they are true.
    work.ld(&["-o", "out", &object, "--sframe-from-eh-frame=all", "--sframe-index"]).ok();
    work.command(&objcopy, &[&format!("--add-section=.note.bolt_info={note}"), "out", "changed"]).ok();
    let outcome = work.command(built::sframe(), &["verify", "changed"]).ok();
    assert!(!outcome.output().contains("BOLT"), "{outcome}");
}

/// Nobody unwinds by what a table says of code that was.
#[test]
fn stacks_do_not_follow_a_table_of_code_that_bolt_has_rewritten() {
    let objcopy = need!(tools::binutil("objcopy"));
    let work = Work::new();
    let object = work.s("object", SOURCE);
    work.ld(&["-o", "out", &object, "--unwind-table=replace", "--unwind-runtime=program"]).ok();
    let note = work.write("note", "a note");
    work.command(&objcopy, &[&format!("--add-section=.note.bolt_info={note}"), "out", "changed"]).ok();
    let start = work.elf("out").section(".text").addr;
    work.write("registers", format!("rip {start:#x}\nrsp 0x7ffe00001000\nrbp 5\n"));
    let mut stack = vec![0u8; 320];
    stack[312..].copy_from_slice(&(start + 1).to_le_bytes());
    work.write("stack", stack);
    let has_caller = |file: &str| {
        let words =
            ["unwind", "--rows=sframe", "--registers=registers", "--memory=stack@0x7ffe00001000", file];
        work.command(built::sframe(), &words).output().contains(&format!("{:x}", start + 1))
    };
    assert!(has_caller("out") && !has_caller("changed"));
}

/// Moves the program headers behind everything else, and loads them there, as BOLT does.
fn with_moved_headers(elf: &Elf) -> Vec<u8> {
    const PT_LOAD: u32 = 1;
    const PT_NOTE: u32 = 4;
    const PT_PHDR: u32 = 6;
    let mut bytes = elf.bytes.clone();
    bytes.resize(bytes.len().next_multiple_of(0x1000), 0);
    let offset = bytes.len();
    let end = elf.segments.iter().map(|segment| segment.addr + segment.size).max().unwrap();
    let address = end.next_multiple_of(0x1000) as usize;
    let size = elf.segments.len() * 56;
    let mut headers = elf.bytes[64..64 + size].to_vec();
    for (number, segment) in elf.segments.iter().enumerate().filter(|(_, segment)| segment.kind == PT_PHDR) {
        assert_eq!(segment.offset, 64);
        for (field, value) in [(8, offset), (16, address), (24, address)] {
            headers[number * 56 + field..][..8].copy_from_slice(&value.to_le_bytes());
        }
    }
    let note = elf.segments.iter().position(|segment| segment.kind == PT_NOTE).expect("a header to spare");
    let loaded = [offset, address, address, size, size, 0x1000].map(usize::to_le_bytes).concat();
    headers[note * 56..][..56]
        .copy_from_slice(&[&PT_LOAD.to_le_bytes(), &4_u32.to_le_bytes(), &loaded[..]].concat());
    bytes.extend(headers);
    bytes[32..40].copy_from_slice(&offset.to_le_bytes());
    bytes
}

#[test]
fn programs_whose_program_headers_were_moved_stop_at_their_start() {
    let machine = &crate::support::machine::X86_64;
    let runtimes = need!(unwind_runtime::both(machine));
    let work = Work::new();
    let source = "int main() { try { throw 1; } catch (int) {} }\n";
    let program = work.cc("program", source, &["-O2", "-fPIE"]);
    let link = |options: &[&str]| {
        work.gxx(&[&["-o", "program", "-pie", &program, "-Wl,--build-id"], options].concat()).quiet();
        work.write_program("moved", with_moved_headers(&work.elf("program")));
        work.run_any("moved")
    };
    // Other programs do not care.
    link(&[]).ok();
    for runtime in &runtimes {
        let outcome = link(&["-Wl,--unwind-table=replace", runtime]);
        assert_eq!(outcome.code, Some(127), "{runtime} {outcome}");
        outcome.says(&["sframe unwind table: the program headers are not where the linker put them", "BOLT"]);
    }
}
