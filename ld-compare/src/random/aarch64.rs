//! The templates for AArch64: `A` is x0, `S` is x19.

use super::dialect::{ANY, Dialect, FIXED, Leads, NEAR, Needs, PROGRAM, field, form, word};

/// The templates.
pub const DIALECT: Dialect = Dialect {
    comment: "//",
    at: '%',
    enter: "\tstp x29, x30, [sp, #-32]!\n\t.cfi_def_cfa_offset 32\n\t.cfi_offset 29, -32\n\t.cfi_offset 30, -24\n\tmov x29, sp\n\tstr x19, [sp, #16]\n\t.cfi_offset 19, -16",
    leave: "\tldr x19, [sp, #16]\n\tldp x29, x30, [sp], #32\n\t.cfi_restore 19\n\t.cfi_restore 29\n\t.cfi_restore 30\n\t.cfi_def_cfa_offset 0\n\tret",
    ret: "\tret",
    constant: |value| {
        let part = |at: u32| (value >> at) & 0xffff;
        format!(
            "\tmovz x0, #{}\n\tmovk x0, #{}, lsl #16\n\tmovk x0, #{}, lsl #32\n\tmovk x0, #{}, lsl #48",
            part(0),
            part(16),
            part(32),
            part(48)
        )
    },
    addresses: &[
        form("ADR_PREL_PG_HI21", NEAR, "\tadrp x0, {t}{a}\n\tadd x0, x0, :lo12:{t}{a}"),
        form("ADR_PREL_PG_HI21 x9", NEAR, "\tadrp x9, {t}{a}\n\tadd x0, x9, :lo12:{t}{a}"),
        form("ADR_PREL_LO21", Needs { global: true, ..NEAR }, "\tadr x0, {t}{a}"),
        form("GOT", ANY, "\tadrp x0, :got:{t}\n\tldr x0, [x0, :got_lo12:{t}]\n\tadd x0, x0, #{n}"),
        form(
            "GOT apart",
            ANY,
            "\tadrp x9, :got:{t}\n\tnop\n\tldr x10, [x9, :got_lo12:{t}]\n\tadd x0, x10, #{n}",
        ),
        form(
            "LD64_GOTPAGE_LO15",
            Needs { global: true, ..ANY },
            "\tadrp x0, _GLOBAL_OFFSET_TABLE_\n\tldr x0, [x0, :gotpage_lo15:{t}]\n\tadd x0, x0, #{n}",
        ),
        form(
            "MOVW_UABS",
            Needs { global: true, ..FIXED },
            "\tmovz x0, #:abs_g3:{t}{a}\n\tmovk x0, #:abs_g2_nc:{t}{a}\n\tmovk x0, #:abs_g1_nc:{t}{a}\n\tmovk x0, #:abs_g0_nc:{t}{a}",
        ),
        form(
            "MOVW_PREL",
            Needs { global: true, ..NEAR },
            ".L{l}:\tmovz x0, #:prel_g3:{t}{a}\n\tmovk x0, #:prel_g2_nc:{t}{a}+4\n\tmovk x0, #:prel_g1_nc:{t}{a}+8\n\tmovk x0, #:prel_g0_nc:{t}{a}+12\n\tadr x9, .L{l}\n\tadd x0, x0, x9",
        ),
    ],
    calls: &[
        form("CALL26", ANY, "\tbl {t}"),
        form("JUMP26", ANY, "\tbl .L{l}\n\tb .L{l}e\n.L{l}:\tb {t}\n.L{l}e:"),
        form("GOT blr", ANY, "\tadrp x9, :got:{t}\n\tldr x9, [x9, :got_lo12:{t}]\n\tblr x9"),
    ],
    tls: &[
        form(
            "TLSDESC",
            ANY,
            "\tadrp x0, :tlsdesc:{t}\n\tldr x1, [x0, :tlsdesc_lo12:{t}]\n\tadd x0, x0, :tlsdesc_lo12:{t}\n\t.tlsdesccall {t}\n\tblr x1\n\tmrs x1, tpidr_el0\n\tadd x0, x0, x1\n\tadd x0, x0, #{n}",
        ),
        form(
            "IE",
            ANY,
            "\tadrp x0, :gottprel:{t}\n\tldr x0, [x0, :gottprel_lo12:{t}]\n\tmrs x1, tpidr_el0\n\tadd x0, x0, x1\n\tadd x0, x0, #{n}",
        ),
        form(
            "LE",
            PROGRAM,
            "\tmrs x0, tpidr_el0\n\tadd x0, x0, :tprel_hi12:{t}{a}, lsl #12\n\tadd x0, x0, :tprel_lo12_nc:{t}{a}",
        ),
        form(
            "LE MOVW",
            PROGRAM,
            "\tmrs x0, tpidr_el0\n\tmovz x1, #:tprel_g1:{t}{a}\n\tmovk x1, #:tprel_g0_nc:{t}{a}\n\tadd x0, x0, x1",
        ),
    ],
    words: &[
        word("ABS64", ANY, "\t.quad {t}{a}", Leads::Address),
        word("ABS64 unaligned", ANY, "\t.quad {t}{a}", Leads::Address),
        word("ABS32", FIXED, "\t.long {t}{a}", Leads::Short),
        word("PREL64", NEAR, "\t.quad {t}{a}-.", Leads::Relative),
        word("PREL32", NEAR, "\t.long {t}{a}-.", Leads::ShortRelative),
    ],
    data_fields: &[
        field("ABS16", FIXED, "\t.hword {t}\n\t.zero 6", &[0, 0x7fff, 0xffff]),
        field("ABS32", FIXED, "\t.long {t}\n\t.zero 4", &[0, 0x7fff_ffff, 0xffff_ffff]),
        field("ABS64", ANY, "\t.quad {t}", &[0, i64::MAX, i64::MIN, -1]),
    ],
    code_fields: &[
        field("MOVW_UABS_G0", FIXED, "\tmovz x0, #:abs_g0:{t}", &[0, 1, 0xffff]),
        field("MOVW_SABS_G0", FIXED, "\tmovz x0, #:abs_g0_s:{t}", &[0, 0x7fff, 0xffff, -1, -0x1_0000]),
        field(
            "MOVW_SABS_G1",
            FIXED,
            "\tmovz x0, #:abs_g1_s:{t}\n\tmovk x0, #:abs_g0_nc:{t}",
            &[0, 0xffff_ffff, -1, -0x1_0000_0000],
        ),
        field(
            "MOVW_UABS_G1",
            FIXED,
            "\tmovz x0, #:abs_g1:{t}\n\tmovk x0, #:abs_g0_nc:{t}",
            &[0, 0x1_0000, 0xffff_ffff],
        ),
        field(
            "MOVW_UABS_G2",
            FIXED,
            "\tmovz x0, #:abs_g2:{t}\n\tmovk x0, #:abs_g1_nc:{t}\n\tmovk x0, #:abs_g0_nc:{t}",
            &[0, 0xffff_ffff_ffff],
        ),
        field("GOT", FIXED, "\tadrp x0, :got:{t}\n\tldr x0, [x0, :got_lo12:{t}]", &[0, i64::MAX, -1, 77]),
    ],
    sizes: &[],
    load: "\tldr x0, [x0]",
    load_signed: "\tldrsw x0, [x0]",
    load_short: "\tldr w0, [x0]",
    save: "\tmov x19, x0",
    add: "\tadd x0, x0, x19",
    subtract: "\tsub x0, x0, x19",
    shift: "\tlsl x0, x0, #{i}",
    unaligned: "\t.byte 1",
    store: "\tstr x0, [x19]",
    call_a: "\tblr x0",
    got: "\tadrp x19, _GLOBAL_OFFSET_TABLE_\n\tadd x19, x19, :lo12:_GLOBAL_OFFSET_TABLE_",
    observe: "\tmov x1, x0\n\tmov w0, #{i}\n\tbl observe",
    observe_text: "\tmov x1, x0\n\tmov w0, #{i}\n\tbl observe_text",
    observe_range: "\tmov x2, x0\n\tmov x1, x19\n\tmov w0, #{i}\n\tbl observe_range",
};
