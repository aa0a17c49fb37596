//! Tests relocations of s390x at the ends of their ranges. The linked bytes must equal GNU ld's, and a value
//! one past the end must be an error that names the relocation, the place and the excess.

use crate::need;
use crate::support::machine::{S390X, check};
use crate::support::{Machine, Work};
use std::fmt::Write;

/// What a relocation is computed from, besides its addend.
#[derive(Clone, Copy)]
enum Base {
    Symbol,
    /// The distance from the field to the symbol.
    Distance,
    /// The distance from the GOT to the symbol.
    FromGot,
    /// The distance from the GOT to the slot of the symbol.
    Slot,
    /// The distance from the field to that slot.
    SlotDistance,
    /// The distance from the GOT to the slot with the thread-local symbol's offset.
    TlsSlot,
    /// The distance from the field to that slot.
    TlsSlotDistance,
    /// The distance from the field to the GOT.
    GotDistance,
}

use Base::*;

const BYTE: (i64, i64, i64) = (-0x80, 0xff, 1);
const HALF: (i64, i64, i64) = (-0x8000, 0xffff, 1);
const WORD: (i64, i64, i64) = (-0x8000_0000, 0xffff_ffff, 1);
const SIGNED16: (i64, i64, i64) = (-0x8000, 0x7fff, 1);
const SIGNED32: (i64, i64, i64) = (-0x8000_0000, 0x7fff_ffff, 1);
const SHORT: (i64, i64, i64) = (0, 0xfff, 1);
const LONG: (i64, i64, i64) = (-0x8_0000, 0x7_ffff, 1);
const HALVES12: (i64, i64, i64) = (-0x1000, 0xffe, 2);
const HALVES16: (i64, i64, i64) = (-0x1_0000, 0xfffe, 2);
const HALVES24: (i64, i64, i64) = (-0x100_0000, 0xff_fffe, 2);
const HALVES32: (i64, i64, i64) = (-0x1_0000_0000, 0xffff_fffe, 2);

/// Every type whose field can overflow: what it is computed from, its smallest value, its largest value, and
/// the distance between values.
const TYPES: &[(&str, Base, (i64, i64, i64))] = &[
    ("R_390_8", Symbol, BYTE),
    ("R_390_12", Symbol, SHORT),
    ("R_390_16", Symbol, HALF),
    ("R_390_20", Symbol, LONG),
    ("R_390_32", Symbol, WORD),
    ("R_390_PC16", Distance, SIGNED16),
    ("R_390_PC32", Distance, SIGNED32),
    ("R_390_PLT32", Distance, SIGNED32),
    ("R_390_PC12DBL", Distance, HALVES12),
    ("R_390_PC16DBL", Distance, HALVES16),
    ("R_390_PC24DBL", Distance, HALVES24),
    ("R_390_PC32DBL", Distance, HALVES32),
    ("R_390_PLT12DBL", Distance, HALVES12),
    ("R_390_PLT16DBL", Distance, HALVES16),
    ("R_390_PLT24DBL", Distance, HALVES24),
    ("R_390_PLT32DBL", Distance, HALVES32),
    ("R_390_GOTOFF16", FromGot, HALF),
    ("R_390_GOTOFF32", FromGot, WORD),
    ("R_390_PLTOFF16", FromGot, HALF),
    ("R_390_PLTOFF32", FromGot, WORD),
    ("R_390_GOT12", Slot, SHORT),
    ("R_390_GOT16", Slot, HALF),
    ("R_390_GOT20", Slot, LONG),
    ("R_390_GOT32", Slot, WORD),
    ("R_390_GOTPLT12", Slot, SHORT),
    ("R_390_GOTPLT16", Slot, HALF),
    ("R_390_GOTPLT20", Slot, LONG),
    ("R_390_GOTPLT32", Slot, WORD),
    ("R_390_GOTENT", SlotDistance, HALVES32),
    ("R_390_GOTPLTENT", SlotDistance, HALVES32),
    ("R_390_TLS_GOTIE12", TlsSlot, SHORT),
    ("R_390_TLS_GOTIE20", TlsSlot, LONG),
    ("R_390_TLS_IEENT", TlsSlotDistance, HALVES32),
    ("R_390_GOTPCDBL", GotDistance, HALVES32),
];

/// The address of the first section. Each section has 16 bytes, and a field that starts at the third byte.
/// (For fields of 24 bits, GNU ld reads one byte before the field.)
const FIELDS: i64 = 0x2_0000_0000;
const GOT: i64 = 0x2_0001_0000;
const TARGET: i64 = 0x2_0002_0000;
/// The GOT has three reserved words, then the slots of `target` and of `local`.
const SLOT: i64 = GOT + 24;
const TLS_SLOT: i64 = GOT + 32;

/// The layout that both linkers get.
const SCRIPT: &str = "SECTIONS {
    .text 0x200000000 : { *(SORT_BY_NAME(.f.*)) }
    .got 0x200010000 : { *(.got) }
    .got.plt : { *(.got.plt) }
    .data 0x200020000 : { *(.data) }
    .tdata 0x200030000 : { *(.tdata) }
    /DISCARD/ : { *(.comment) *(.note*) *(.eh_frame) }
}";

/// A source with a field for each type and value.
fn source(values: &[(usize, i64)]) -> String {
    let mut text = String::from(
        ".data\ntarget: .quad 0\n.section .tdata,\"awT\"\n.quad 0\nlocal: .quad 0\n.globl _start\n_start = 0\n",
    );
    for (number, &(row, value)) in values.iter().enumerate() {
        let (name, base, _) = TYPES[row];
        let place = FIELDS + number as i64 * 16 + 2;
        let (symbol, base) = match base {
            Symbol => ("target", TARGET),
            Distance => ("target", TARGET - place),
            FromGot => ("target", TARGET - GOT),
            Slot => ("target", SLOT - GOT),
            SlotDistance => ("target", SLOT - place),
            TlsSlot => ("local", TLS_SLOT - GOT),
            TlsSlotDistance => ("local", TLS_SLOT - place),
            GotDistance => ("_GLOBAL_OFFSET_TABLE_", GOT - place),
        };
        let addend = value - base;
        writeln!(
            text,
            ".section .f.{number:03},\"ax\"\n.balign 16\n.short -1\n.reloc ., {name}, {symbol}+{addend}\n\
             .long -1, -1, -1\n.short -1"
        )
        .expect("memory");
    }
    text
}

/// Assembles the fields to `rows.o` and writes the script.
fn assemble(work: &Work, assembler: &std::path::Path, values: &[(usize, i64)]) {
    work.write("rows.s", source(values));
    work.write("layout.ld", SCRIPT);
    work.command(assembler, &["-o", "rows.o", "rows.s"]).ok();
}

#[test]
fn ends_of_ranges_are_written_as_gnu_ld_does() {
    let assembler = need!(S390X.tool("as"));
    let copy = need!(S390X.tool("objcopy"));
    let gnu = need!(S390X.tool("ld"));
    let work = Work::new();
    let rows = TYPES.iter().enumerate();
    let ends: Vec<_> = rows.flat_map(|(row, &(_, _, (low, high, _)))| [(row, low), (row, high)]).collect();
    assemble(&work, &assembler, &ends);
    let image = |file: &str| {
        let sections = ["-j", ".text", "-j", ".got", "-O", "binary", file, "image"];
        work.command(&copy, &sections).ok();
        work.read("image")
    };
    work.ld(&["-T", "layout.ld", "rows.o", "-o", "ours"]).quiet();
    work.command(&gnu, &["-T", "layout.ld", "rows.o", "-o", "theirs"]).ok();
    let (ours, theirs) = (image("ours"), image("theirs"));
    for (number, &(row, value)) in ends.iter().enumerate() {
        let place = number * 16..number * 16 + 16;
        assert_eq!(ours[place.clone()], theirs[place], "{} of {value:#x}", TYPES[row].0);
    }
    assert_eq!(ours[0x10000..], theirs[0x10000..], "the GOT");
}

/// Code and literals for all thread-local models, and types whose range has no end.
const SEQUENCES: &str = "
    .section .f.0,\"ax\"
    .globl _start
    _start: larl %r12,_GLOBAL_OFFSET_TABLE_
    larl %r1,function
    larl %r1,function@PLT
    brasl %r14,function@PLT
    lg %r1,target@GOT(%r12)
    l %r1,target@GOT(%r12)
    larl %r1,target@GOTENT
    larl %r1,local@INDNTPOFF
    l %r1,local@GOTNTPOFF(%r12)
    brasl %r14,__tls_get_offset@PLT:tls_gdcall:local
    brasl %r14,__tls_get_offset@PLT:tls_ldcall:local
    lg %r1,0(%r1,%r12):tls_load:local
    lg %r2,0(%r12,%r3):tls_load:local
    lg %r4,0(%r5):tls_load:local
    lg %r6,0(%r7,0):tls_load:local
    function: br %r14
    __tls_get_offset: br %r14
    nopr
    .data
    target: .quad target, target-., function@PLT, function@PLTOFF, target@GOTOFF, target@GOT
    .quad local@TLSGD, local@TLSLDM, local@DTPOFF, local@NTPOFF, local@INDNTPOFF, local@GOTNTPOFF
    .section .tdata,\"awT\"
    .quad 0
    local: .quad 0
";

#[test]
fn sequences_are_rewritten_as_gnu_ld_does() {
    let assembler = need!(S390X.tool("as"));
    let copy = need!(S390X.tool("objcopy"));
    let gnu = need!(S390X.tool("ld"));
    let work = Work::new();
    work.write("code.s", SEQUENCES);
    work.write("layout.ld", SCRIPT);
    work.command(&assembler, &["-o", "code.o", "code.s"]).ok();
    work.ld(&["-T", "layout.ld", "code.o", "-o", "ours"]).quiet();
    work.command(&gnu, &["-T", "layout.ld", "code.o", "-o", "theirs"]).ok();
    for section in [".text", ".got", ".data"] {
        let image = |file: &str| {
            work.command(&copy, &["-j", section, "-O", "binary", file, "image"]).ok();
            work.read("image")
        };
        assert_eq!(image("ours"), image("theirs"), "{section}");
    }
}

#[test]
fn one_past_the_end_is_an_error() {
    let assembler = need!(S390X.tool("as"));
    let work = Work::new();
    let rows = TYPES.iter().enumerate();
    let past: Vec<_> =
        rows.flat_map(|(row, &(_, _, (low, high, step)))| [(row, low - step), (row, high + step)]).collect();
    assemble(&work, &assembler, &past);
    let outcome = work.ld(&["-T", "layout.ld", "rows.o", "-o", "out", "--error-limit=0"]).fails();
    for (number, &(row, value)) in past.iter().enumerate() {
        let (name, base, (low, high, _)) = TYPES[row];
        let said = format!(
            "rows.o:(.f.{number:03}+0x2): relocation {name} out of range: {value} is not in [{low}, {high}]"
        );
        let symbol = match base {
            TlsSlot | TlsSlotDistance => "local",
            GotDistance => "_GLOBAL_OFFSET_TABLE_",
            _ => "target",
        };
        let found = outcome.stderr.split_once(&said).unwrap_or_else(|| panic!("{said} in {outcome}")).1;
        let note = found.lines().nth(1).unwrap_or_default();
        assert!(note.contains(symbol), "{name}: {note}");
    }
}

#[test]
fn odd_addresses_are_out_of_reach_of_code() {
    let assembler = need!(S390X.tool("as"));
    let work = Work::new();
    work.write("odd.s", ".globl _start\n_start: larl %r1,odd\n.data\n.byte 0\n.globl odd\nodd: .byte 0\n");
    work.command(&assembler, &["-o", "odd.o", "odd.s"]).ok();
    let outcome = work.ld(&["odd.o", "-o", "out"]).fails();
    outcome.says(&[
        "odd.o:(.text+0x2): misaligned symbol odd for relocation R_390_PC32DBL",
        "is not a multiple of 2",
        "references odd",
    ]);
}

/// Initial-exec code whose literal is the address of a slot, and code whose literal is the slot's offset.
const INITIAL_EXEC: &str = "
    .text
    .globl sum
    .type sum,@function
    sum: stmg %r12,%r14,96(%r15)
    larl %r12,_GLOBAL_OFFSET_TABLE_
    ear %r3,%a0
    sllg %r3,%r3,32
    ear %r3,%a1
    larl %r5,address
    lg %r1,0(%r5)
    lg %r2,0(%r1):tls_load:one
    l %r4,0(%r2,%r3)
    larl %r5,offset
    lg %r1,0(%r5)
    lg %r2,0(%r1,%r12):tls_load:two
    a %r4,0(%r2,%r3)
    lgrl %r2,one@INDNTPOFF
    a %r4,0(%r2,%r3)
    larl %r2,two@INDNTPOFF
    lg %r2,0(%r2)
    a %r4,0(%r2,%r3)
    lg %r2,one@GOTNTPOFF(%r12)
    a %r4,0(%r2,%r3)
    lgfr %r2,%r4
    lmg %r12,%r14,96(%r15)
    br %r14
    .section .data.rel.ro,\"aw\"
    .balign 8
    address: .quad one@INDNTPOFF
    offset: .quad two@GOTNTPOFF
";

fn initial_exec_code_of_every_form_runs(machine: &'static Machine) {
    let work = Work::on(machine);
    let code = work.s("code", INITIAL_EXEC);
    let variables = work.c("variables", "__thread int one = 7, two = 1000;", &["-fPIC"]);
    let main = work.c("main", "int sum(void); int main(void) { return sum() == 2021 ? 0 : 1; }", &["-fPIC"]);
    for link in ["-no-pie", "-pie", "-static"] {
        work.gcc(&[link, "-o", "program", &main, &code, &variables]).quiet();
        work.run("program");
    }
    work.gcc(&["-shared", "-o", "libvariables.so", &variables]).quiet();
    for link in ["-no-pie", "-pie"] {
        work.gcc(&[link, "-o", "program", &main, &code, "-L.", "-lvariables"]).quiet();
        work.run("program");
    }
    work.gcc(&["-shared", "-o", "libsum.so", &code, &variables]).quiet();
    work.gcc(&["-o", "program", &main, "-L.", "-lsum"]).quiet();
    work.run("program");
}

#[test]
fn initial_exec_code_runs() {
    check(&S390X, initial_exec_code_of_every_form_runs);
}

/// Start-up code that applies the relative relocations of its own program. Debian's C library has no such
/// code.
const SELF_RELOCATING: &str = "
    .globl _start
    _start: larl %r2,__ehdr_start
    larl %r1,_DYNAMIC
    lghi %r4,0
    lghi %r5,0
    .Ltag: lg %r3,0(%r1)
    cghi %r3,0
    je .Lfound
    cghi %r3,7
    jne .Lsize
    lg %r4,8(%r1)
    .Lsize: cghi %r3,8
    jne .Lnext
    lg %r5,8(%r1)
    .Lnext: aghi %r1,16
    j .Ltag
    .Lfound: agr %r4,%r2
    agr %r5,%r4
    .Lrelocate: cgr %r4,%r5
    jnl .Ldone
    lg %r3,0(%r4)
    lg %r0,16(%r4)
    agr %r0,%r2
    stg %r0,0(%r3,%r2)
    aghi %r4,24
    j .Lrelocate
    .Ldone: larl %r1,table
    lg %r1,8(%r1)
    lg %r2,0(%r1)
    aghi %r2,-42
    svc 1
    .data
    .balign 8
    table: .quad table, value
    value: .quad 42
";

#[test]
fn static_position_independent_programs_relocate_themselves() {
    check(&S390X, |machine| {
        let work = Work::on(machine);
        let object = work.s("start", SELF_RELOCATING);
        let common = ["-static", "-pie", "--no-dynamic-linker", "-z", "text", "-o", "program", &object];
        for more in [&[][..], &["-z", "now", "--eh-frame-hdr"], &["--build-id", "--gc-sections"]] {
            work.ld(&[&common[..], more].concat()).quiet();
            work.run("program");
            let elf = work.elf("program");
            const PT_INTERP: u32 = 3;
            assert!(elf.segments_of(PT_INTERP).is_empty());
            let kinds: Vec<u32> =
                elf.dynamic_relocations().iter().map(|relocation| relocation.kind).collect();
            assert_eq!(kinds, [machine.relocations.relative; 2]);
        }
    });
}
