//! The templates for x86-64: `A` is rax, `S` is rbx.

use super::dialect::{ANY, Dialect, FIXED, GLOBAL, Leads, NEAR, Needs, PROGRAM, Word, field, form, word};

const BYTE: &[i64] = &[0, 127, 255];
const HALF: &[i64] = &[0, 0x7fff, 0xffff];
const LONG: &[i64] = &[0, 0x7fff_ffff, 0xffff_ffff];
const SIGNED: &[i64] = &[0, 0x7fff_ffff, -0x8000_0000, -1];
const QUAD: &[i64] = &[0, i64::MAX, i64::MIN, -1, 0x1_0000_0000];

/// The templates.
pub const DIALECT: Dialect = Dialect {
    comment: "#",
    at: '@',
    enter: "\tpush %rbx\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %rbx, -16",
    leave: "\tpop %rbx\n\t.cfi_def_cfa_offset 8\n\tret",
    ret: "\tret",
    constant: |value| format!("\tmovabs ${value:#x}, %rax"),
    addresses: &[
        form("PC32", NEAR, "\tlea {t}{a}(%rip), %rax"),
        form("GOTPCRELX mov", ANY, "\tmov {t}@GOTPCREL(%rip), %rax\n\tlea {n}(%rax), %rax"),
        form("GOTPCRELX mov r11", ANY, "\tmov {t}@GOTPCREL(%rip), %r11\n\tlea {n}(%r11), %rax"),
        form("GOTPCRELX add", ANY, "\tmov ${n}, %eax\n\tadd {t}@GOTPCREL(%rip), %rax"),
        form(
            "GOTPCRELX sub",
            ANY,
            "\txor %eax, %eax\n\tsub {t}@GOTPCREL(%rip), %rax\n\tneg %rax\n\tadd ${n}, %rax",
        ),
        form("GOTPCRELX or", ANY, "\txor %eax, %eax\n\tor {t}@GOTPCREL(%rip), %rax\n\tadd ${n}, %rax"),
        form("GOTPCRELX xor", ANY, "\txor %eax, %eax\n\txor {t}@GOTPCREL(%rip), %rax\n\tadd ${n}, %rax"),
        form("GOTPCRELX and", ANY, "\tmov $-1, %rax\n\tand {t}@GOTPCREL(%rip), %rax\n\tadd ${n}, %rax"),
        form("GOTPCRELX adc", ANY, "\txor %eax, %eax\n\tadc {t}@GOTPCREL(%rip), %rax\n\tadd ${n}, %rax"),
        form(
            "GOTPCRELX sbb",
            ANY,
            "\txor %eax, %eax\n\tsbb {t}@GOTPCREL(%rip), %rax\n\tneg %rax\n\tadd ${n}, %rax",
        ),
        form(
            "GOTPCRELX cmp",
            ANY,
            "\tmov {t}@GOTPCREL(%rip), %rax\n\tcmp {t}@GOTPCREL(%rip), %rax\n\tje .L{l}\n\tud2\n.L{l}:\tadd ${n}, %rax",
        ),
        form(
            "GOTPCRELX test",
            ANY,
            "\tmov $-1, %rax\n\ttest %rax, {t}@GOTPCREL(%rip)\n\tsetne %al\n\tmovzbl %al, %eax\n\tdec %rax\n\tor {t}@GOTPCREL(%rip), %rax\n\tadd ${n}, %rax",
        ),
        form("GOTPCREL push", ANY, "\tpushq {t}@GOTPCREL(%rip)\n\tpop %rax\n\tadd ${n}, %rax"),
        form(
            "GOTOFF64",
            Needs { global: true, ..NEAR },
            "\tlea _GLOBAL_OFFSET_TABLE_(%rip), %rcx\n\tmovabs ${t}@GOTOFF{a}, %rax\n\tadd %rcx, %rax",
        ),
        form(
            "GOT64",
            GLOBAL,
            "\tlea _GLOBAL_OFFSET_TABLE_(%rip), %rcx\n\tmovabs ${t}@GOT, %rax\n\tmov (%rcx,%rax), %rax\n\tadd ${n}, %rax",
        ),
        form(
            "GOTPC64",
            Needs { global: true, ..NEAR },
            ".L{l}:\tlea .L{l}(%rip), %rcx\n\tmovabs $_GLOBAL_OFFSET_TABLE_-.L{l}, %rax\n\tadd %rax, %rcx\n\tmovabs ${t}@GOTOFF{a}, %rax\n\tadd %rcx, %rax",
        ),
        form("32", FIXED, "\tmov ${t}{a}, %eax"),
        form("32S", FIXED, "\tmovq ${t}{a}, %rax"),
        form("32S indexed", FIXED, "\txor %ecx, %ecx\n\tlea {t}{a}(,%rcx,8), %rax"),
        form("64", FIXED, "\tmovabs ${t}{a}, %rax"),
    ],
    calls: &[
        form("PLT32", ANY, "\tcall {t}@PLT"),
        form("direct", ANY, "\tcall {t}"),
        form("GOTPCRELX call", ANY, "\tcall *{t}@GOTPCREL(%rip)"),
        form("PLT32 jmp", ANY, "\tcall .L{l}\n\tjmp .L{l}e\n.L{l}:\tjmp {t}@PLT\n.L{l}e:"),
        form("GOTPCRELX jmp", ANY, "\tcall .L{l}\n\tjmp .L{l}e\n.L{l}:\tjmp *{t}@GOTPCREL(%rip)\n.L{l}e:"),
        form(
            "conditional",
            ANY,
            "\tcall .L{l}\n\tjmp .L{l}e\n.L{l}:\txor %eax, %eax\n\tje {t}\n\tud2\n.L{l}e:",
        ),
        form(
            "PLTOFF64",
            GLOBAL,
            "\tlea _GLOBAL_OFFSET_TABLE_(%rip), %rbx\n\tmovabs ${t}@PLTOFF, %rax\n\tadd %rbx, %rax\n\tcall *%rax",
        ),
    ],
    tls: &[
        form(
            "GD",
            ANY,
            "\t.byte 0x66\n\tlea {t}@tlsgd(%rip), %rdi\n\t.value 0x6666\n\trex64\n\tcall __tls_get_addr@PLT\n\tadd ${n}, %rax",
        ),
        form(
            "GD -fno-plt",
            ANY,
            "\t.byte 0x66\n\tlea {t}@tlsgd(%rip), %rdi\n\t.byte 0x66\n\trex64\n\tcall *__tls_get_addr@GOTPCREL(%rip)\n\tadd ${n}, %rax",
        ),
        form(
            "LD",
            NEAR,
            "\tlea {t}@tlsld(%rip), %rdi\n\tcall __tls_get_addr@PLT\n\tlea {t}@dtpoff{a}(%rax), %rax",
        ),
        form(
            "LD -fno-plt",
            NEAR,
            "\tlea {t}@tlsld(%rip), %rdi\n\tcall *__tls_get_addr@GOTPCREL(%rip)\n\tlea {t}@dtpoff{a}(%rax), %rax",
        ),
        form(
            "TLSDESC",
            ANY,
            "\tlea {t}@tlsdesc(%rip), %rax\n\tcall *{t}@tlscall(%rax)\n\tadd %fs:0, %rax\n\tadd ${n}, %rax",
        ),
        form("IE mov", ANY, "\tmov {t}@gottpoff(%rip), %rax\n\tadd %fs:0, %rax\n\tadd ${n}, %rax"),
        form(
            "IE mov r12",
            ANY,
            "\tmov {t}@gottpoff(%rip), %r11\n\tmov %fs:{n}(%r11), %rcx\n\tmov %fs:0, %rax\n\tlea {n}(%rax,%r11), %rax\n\tcmp %rcx, (%rax)\n\tje .L{l}\n\tud2\n.L{l}:",
        ),
        form("IE add", ANY, "\tmov %fs:0, %rax\n\tadd {t}@gottpoff(%rip), %rax\n\tadd ${n}, %rax"),
        form("LE", PROGRAM, "\tmov %fs:0, %rax\n\tlea {t}@tpoff{a}(%rax), %rax"),
        form("LE TPOFF64", PROGRAM, "\tmovabs ${t}@tpoff{a}, %rax\n\tadd %fs:0, %rax"),
    ],
    words: &[
        word("64", ANY, "\t.quad {t}{a}", Leads::Address),
        word("64 unaligned", ANY, "\t.quad {t}{a}", Leads::Address),
        word("32", FIXED, "\t.long {t}{a}", Leads::Short),
        word("PC64", NEAR, "\t.quad {t}{a}-.", Leads::Relative),
        word("PC32", NEAR, "\t.long {t}{a}-.", Leads::ShortRelative),
        word("GOTOFF64", Needs { global: true, ..NEAR }, "\t.quad {t}@GOTOFF{a}", Leads::GotRelative),
        Word { addend: false, ..word("GOTPCREL", ANY, "\t.long {t}@GOTPCREL", Leads::Slot) },
        Word {
            form: form("PLT32", ANY, "\t.long {t}@PLT-."),
            leads: Leads::ShortRelative,
            addend: false,
            function: true,
        },
    ],
    data_fields: &[
        field("8", FIXED, "\t.byte {t}\n\t.zero 7", BYTE),
        field("16", FIXED, "\t.value {t}\n\t.zero 6", HALF),
        field("32", FIXED, "\t.long {t}\n\t.zero 4", LONG),
        field("64", ANY, "\t.quad {t}", QUAD),
    ],
    code_fields: &[
        field("8", FIXED, "\txor %eax, %eax\n\tmovb ${t}, %al", BYTE),
        field("16", FIXED, "\txor %eax, %eax\n\tmovw ${t}, %ax", HALF),
        field("32", FIXED, "\tmov ${t}, %eax", LONG),
        field("32S", FIXED, "\tmovq ${t}, %rax", SIGNED),
        field("64", FIXED, "\tmovabs ${t}, %rax", QUAD),
        field("GOT", ANY, "\tmov {t}@GOTPCREL(%rip), %rax", QUAD),
        field("GOT small", ANY, "\tmov {t}@GOTPCREL(%rip), %rax", SIGNED),
    ],
    sizes: &[
        form("SIZE64", ANY, "\t.quad {t}@SIZE"),
        form("SIZE32", ANY, "\t.long {t}@SIZE\n\t.zero 4"),
        form("SIZE64 with addend", ANY, "\t.quad {t}@SIZE+5"),
    ],
    load: "\tmov (%rax), %rax",
    load_signed: "\tmovslq (%rax), %rax",
    load_short: "\tmov (%rax), %eax",
    save: "\tmov %rax, %rbx",
    add: "\tadd %rbx, %rax",
    subtract: "\tsub %rbx, %rax",
    shift: "\tshl ${i}, %rax",
    unaligned: "\t.byte 1",
    store: "\tmov %rax, (%rbx)",
    call_a: "\tcall *%rax",
    got: "\tlea _GLOBAL_OFFSET_TABLE_(%rip), %rbx",
    observe: "\tmov %rax, %rsi\n\tmov ${i}, %edi\n\tcall observe@PLT",
    observe_text: "\tmov %rax, %rsi\n\tmov ${i}, %edi\n\tcall observe_text@PLT",
    observe_range: "\tmov %rax, %rdx\n\tmov %rbx, %rsi\n\tmov ${i}, %edi\n\tcall observe_range@PLT",
};
