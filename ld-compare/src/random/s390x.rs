//! The templates for s390x: `A` is r2, `S` is r7. Instructions can only form even addresses, so functions and
//! data that they refer to have even addresses.

use super::dialect::{ANY, Dialect, FIXED, Leads, NEAR, PROGRAM, field, form, word};

/// The templates.
pub const DIALECT: Dialect = Dialect {
    comment: "#",
    at: '@',
    enter: "\tstmg %r6, %r15, 48(%r15)\n\t.cfi_offset 6, -112\n\t.cfi_offset 7, -104\n\t.cfi_offset 12, -64\n\t.cfi_offset 13, -56\n\t.cfi_offset 14, -48\n\t.cfi_offset 15, -40\n\taghi %r15, -160\n\t.cfi_def_cfa_offset 320",
    leave: "\tlmg %r6, %r15, 208(%r15)\n\t.cfi_restore 6\n\t.cfi_restore 7\n\t.cfi_restore 12\n\t.cfi_restore 13\n\t.cfi_restore 14\n\t.cfi_restore 15\n\t.cfi_def_cfa_offset 160\n\tbr %r14",
    ret: "\tbr %r14",
    constant: |value| format!("\tllihf %r2, {}\n\toilf %r2, {}", value >> 32, value & 0xffff_ffff),
    addresses: &[
        form("PC32DBL", NEAR, "\tlarl %r2, {t}{a}"),
        form("GOTENT", ANY, "\tlgrl %r2, {t}@GOTENT\n\taghi %r2, {n}"),
        form("GOTENT larl", ANY, "\tlarl %r1, {t}@GOTENT\n\tlg %r2, 0(%r1)\n\taghi %r2, {n}"),
        form("GOT20", ANY, "\tlarl %r12, _GLOBAL_OFFSET_TABLE_\n\tlg %r2, {t}@GOT(%r12)\n\taghi %r2, {n}"),
    ],
    calls: &[
        form("PLT32DBL", ANY, "\tbrasl %r14, {t}@PLT"),
        form("direct", NEAR, "\tbrasl %r14, {t}"),
        form("GOTENT basr", ANY, "\tlgrl %r1, {t}@GOTENT\n\tbasr %r14, %r1"),
        form("jg", ANY, "\tbras %r14, .L{l}\n\tj .L{l}e\n.L{l}:\tjg {t}@PLT\n.L{l}e:"),
    ],
    tls: &[
        form(
            "GD",
            ANY,
            "\t.section .rodata.literals, \"a\"\n\t.balign 8\n.L{l}:\t.quad {t}@tlsgd\n\t.previous\n\tlarl %r12, _GLOBAL_OFFSET_TABLE_\n\tlgrl %r2, .L{l}\n\tbrasl %r14, __tls_get_offset@PLT:tls_gdcall:{t}\n\tear %r1, %a0\n\tsllg %r1, %r1, 32\n\tear %r1, %a1\n\tagr %r2, %r1\n\taghi %r2, {n}",
        ),
        form(
            "LD",
            NEAR,
            "\t.section .rodata.literals, \"a\"\n\t.balign 8\n.L{l}:\t.quad {t}@tlsldm\n.L{l}d:\t.quad {t}@dtpoff\n\t.previous\n\tlarl %r12, _GLOBAL_OFFSET_TABLE_\n\tlgrl %r2, .L{l}\n\tbrasl %r14, __tls_get_offset@PLT:tls_ldcall:{t}\n\tlgrl %r3, .L{l}d\n\tagr %r2, %r3\n\tear %r1, %a0\n\tsllg %r1, %r1, 32\n\tear %r1, %a1\n\tagr %r2, %r1\n\taghi %r2, {n}",
        ),
        form(
            "IEENT",
            ANY,
            "\tlarl %r3, {t}@INDNTPOFF\n\tlg %r2, 0(%r3)\n\tear %r1, %a0\n\tsllg %r1, %r1, 32\n\tear %r1, %a1\n\tagr %r2, %r1\n\taghi %r2, {n}",
        ),
        form(
            "GOTIE20",
            ANY,
            "\tlarl %r12, _GLOBAL_OFFSET_TABLE_\n\tlg %r2, {t}@GOTNTPOFF(%r12)\n\tear %r1, %a0\n\tsllg %r1, %r1, 32\n\tear %r1, %a1\n\tagr %r2, %r1\n\taghi %r2, {n}",
        ),
        form(
            "LE64",
            PROGRAM,
            "\t.section .rodata.literals, \"a\"\n\t.balign 8\n.L{l}:\t.quad {t}@NTPOFF\n\t.previous\n\tlgrl %r2, .L{l}\n\tear %r1, %a0\n\tsllg %r1, %r1, 32\n\tear %r1, %a1\n\tagr %r2, %r1\n\taghi %r2, {n}",
        ),
    ],
    words: &[
        word("64", ANY, "\t.quad {t}{a}", Leads::Address),
        word("64 unaligned", ANY, "\t.quad {t}{a}", Leads::Address),
        word("32", FIXED, "\t.long {t}{a}", Leads::Short),
        word("PC64", NEAR, "\t.quad {t}{a}-.", Leads::Relative),
        word("PC32", NEAR, "\t.long {t}{a}-.", Leads::ShortRelative),
    ],
    data_fields: &[
        field("8", FIXED, "\t.byte {t}\n\t.zero 7", &[0, 127, 255]),
        field("16", FIXED, "\t.short {t}\n\t.zero 6", &[0, 0x7fff, 0xffff]),
        field("32", FIXED, "\t.long {t}\n\t.zero 4", &[0, 0x7fff_ffff, 0xffff_ffff]),
        field("64", ANY, "\t.quad {t}", &[0, i64::MAX, i64::MIN, -1]),
    ],
    code_fields: &[
        field("12", FIXED, "\tlghi %r3, 0\n\tla %r2, {t}(%r3)", &[0, 1, 0xfff]),
        field("20", FIXED, "\tlghi %r3, 0\n\tlay %r2, {t}(%r3)", &[0, 0x7_ffff, -0x8_0000, -1]),
        field("16", FIXED, "\tlghi %r2, {t}", &[0, 0x7fff, -0x8000, -1]),
        field("GOT", FIXED, "\tlgrl %r2, {t}@GOTENT", &[0, i64::MAX - 1, -2, 78]),
    ],
    sizes: &[],
    load: "\tlg %r2, 0(%r2)",
    load_signed: "\tlgf %r2, 0(%r2)",
    load_short: "\tllgf %r2, 0(%r2)",
    save: "\tlgr %r7, %r2",
    add: "\tagr %r2, %r7",
    subtract: "\tsgr %r2, %r7",
    shift: "\tsllg %r2, %r2, {i}",
    unaligned: "\t.short 1",
    store: "\tstg %r2, 0(%r7)",
    call_a: "\tbasr %r14, %r2",
    got: "\tlarl %r7, _GLOBAL_OFFSET_TABLE_",
    observe: "\tlgr %r3, %r2\n\tlghi %r2, {i}\n\tbrasl %r14, observe@PLT",
    observe_text: "\tlgr %r3, %r2\n\tlghi %r2, {i}\n\tbrasl %r14, observe_text@PLT",
    observe_range: "\tlgr %r4, %r2\n\tlgr %r3, %r7\n\tlghi %r2, {i}\n\tbrasl %r14, observe_range@PLT",
};
