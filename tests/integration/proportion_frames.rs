//! Call frame information that no compiler writes: entries that others read again and again, and states of
//! many registers. With `--unwind-table` and `--sframe-from-eh-frame`, tables are made of all FDEs.

use crate::proportion::within;
use crate::support::Work;

/// Options that read the instructions of all FDEs.
const READERS: [&[&str]; 2] = [&["--unwind-table=add"], &["--sframe-from-eh-frame=all"]];

/// Links a section of call frame information in each way that reads it, beside 120,000 functions of a byte.
fn links(work: &Work, frames: &str) {
    let text = format!(
        ".globl _start\n_start: ret\ncode:\n.rept 120000\nret\n.endr\n.section .eh_frame,\"a\",@unwind\n{frames}"
    );
    let object = work.s("object", &text);
    for options in READERS {
        within(work, &[&[&*object], options].concat()).ok();
    }
}

/// A CIE with this augmentation, behind the letter z, and these instructions.
fn cie(name: &str, letters: &str, instructions: &str) -> String {
    format!(
        "{name}: .long 2f-1f\n1: .long 0\n.byte 1\n.ascii \"z\"\n{letters}\n.asciz \"R\"\n.byte 1, 0x78, 16, 1, 0x1b\n\
         .byte 0x0c, 7, 8, 0x90, 1\n{instructions}\n.balign 4\n2:\n"
    )
}

/// So many FDEs, each of another byte of code, by turns of these CIEs.
fn fdes(count: usize, cies: &[&str]) -> String {
    let fde = |cie: &&str| {
        format!(
            ".long 2f-1f\n1: .long 1b-{cie}\n.long code+i-.\n.long 1\n.byte 0, 0, 0, 0\n2:\n.set i, i+1\n"
        )
    };
    let fdes: String = cies.iter().map(fde).collect();
    format!(".set i, 0\n.rept {}\n{fdes}.endr\n", count / cies.len())
}

#[test]
fn frames_of_long_cies() {
    let work = Work::new();
    let nops = cie("one", "", ".skip 4000000");
    links(&work, &(nops + &fdes(100_000, &["one"])));
    // Each CIE is read again when another one was read before.
    let letters = ".rept 2000000\n.byte 'S'\n.endr";
    let cies = cie("one", letters, "") + &cie("other", letters, "");
    links(&work, &(cies + &fdes(100_000, &["one", "other"])));
}

#[test]
fn registers_without_number_in_a_frame() {
    let work = Work::new();
    let text = "
.globl _start
_start: ret
.cfi_startproc
.set register, 128
.rept 16000
nop
.cfi_escape 0x05, 0x80 | (register & 0x7f), register >> 7, 1
.set register, register + 1
.endr
.cfi_endproc
";
    let object = work.s("object", text);
    for options in READERS {
        within(&work, &[&[&*object], options].concat()).ok();
    }
}

/// Each row has a state of its own, with as many registers as a table can hold.
#[test]
fn different_rows_without_number() {
    let work = Work::new();
    let saved: String = (32..62).map(|register| format!(".cfi_escape {}, 1\n", 0x80 | register)).collect();
    let text = format!(
        ".globl _start\n_start: ret\n.set i, 0\n.rept 20\n.cfi_startproc\n{saved}.rept 12000\nnop\n.cfi_def_cfa_offset i*8\n\
         .set i, i+1\n.endr\n.cfi_endproc\n.endr\n"
    );
    let object = work.s("object", &text);
    for options in READERS {
        within(&work, &[&[&*object], options].concat()).ok();
    }
}

/// FDEs of more code than a program can have. Each 64 KiB of a function take an entry of a table.
#[test]
fn frames_of_much_code() {
    let work = Work::new();
    let fdes = ".set i, 0\n.rept 8192\n.long 2f-1f\n1: .long 1b-one\n.long much-.\n.long 0x70000000-i\n\
                .byte 0, 0, 0, 0\n2:\n.set i, i+1\n.endr\n";
    let text = format!(
        ".globl _start\n_start: .cfi_startproc\nret\n.cfi_endproc\n.section .much,\"awx\",@nobits\nmuch: .skip 0x70000000\n\
         .section .eh_frame,\"a\",@unwind\n{}{fdes}",
        cie("one", "", "")
    );
    let object = work.s("object", &text);
    let outcome = within(&work, &[&object, "--unwind-table=add", "--print-sframe"]).ok();
    assert!(outcome.output().contains("8192 FDEs: it covers more than 16 MiB"), "{outcome}");
}
