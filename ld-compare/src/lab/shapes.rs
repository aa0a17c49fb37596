//! The shapes of the lab: ways to break the section-group rule, as assembly text.
//!
//! The program is always the same. `a` defines `_start` and `b` defines `b_fn`. Both have a copy of `shared`
//! in a COMDAT group of that name, and the linker discards the copy of `b`. Nobody calls `unused`. A shape
//! adds further sections to the two files. It writes SFrame (V2 or V3) as data, so any assembler can assemble
//! it.

use crate::machine::{Dialect, Machine};
use std::fmt::Write;

/// What the verdict on a shape looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `.sframe`.
    Sframe,
    /// A word after [`MARK`] that refers to the discarded copy.
    Word,
    /// `.eh_frame`.
    EhFrame,
    /// The sections and symbols of the output.
    Members,
}

/// A shape.
#[derive(Debug)]
pub struct Shape {
    /// The short name, for cases and reports.
    pub name: &'static str,
    /// The violation in it, or that there is none.
    pub what: &'static str,
    /// What the verdict looks at.
    pub subject: Subject,
    /// Whether a reference breaks the group rule. Shapes without such a reference serve for comparison.
    pub violates: bool,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// One `.sframe` for all functions of a file, in this version.
    Monolithic(u8),
    /// One `.sframe` for each function: possibly in the function's group, possibly linked to its text.
    PerSection { group: bool, linked: bool },
    /// A section of `b`, outside the group, that refers to the discarded copy through a local label.
    Outside { section: &'static str },
    /// The full text of both files; `{at}`, `{call}`, `{ret}` and `{abs}` stand for the machine's own words.
    Text { a: &'static str, b: &'static str },
    /// Call frame information outside the group.
    Cfi,
}

impl Shape {
    /// Whether the section with the reference is loaded.
    pub fn is_loaded(&self) -> bool {
        matches!(self.form, Form::Outside { section } if section.split('"').nth(1).is_some_and(|flags| flags.contains('a')))
    }
}

/// Marks the word after it, so that the verdict can find it.
pub const MARK: u64 = 0x5f4d_4152_4b5f_4c44;

const fn outside(name: &'static str, section: &'static str, what: &'static str) -> Shape {
    Shape { name, what, subject: Subject::Word, violates: true, form: Form::Outside { section } }
}

const fn sframe(name: &'static str, what: &'static str, violates: bool, form: Form) -> Shape {
    Shape { name, what, subject: Subject::Sframe, violates, form }
}

const fn text(
    name: &'static str,
    what: &'static str,
    violates: bool,
    a: &'static str,
    b: &'static str,
) -> Shape {
    Shape { name, what, subject: Subject::Members, violates, form: Form::Text { a, b } }
}

/// All shapes; those for `.sframe` come first.
pub const SHAPES: &[Shape] = &[
    sframe(
        "sframe-monolithic-v2",
        "one V2 .sframe (PROGBITS, as gas 2.40 to 2.44 write it) for all functions",
        true,
        Form::Monolithic(2),
    ),
    sframe("sframe-monolithic-v3", "one V3 .sframe for all functions", true, Form::Monolithic(3)),
    sframe(
        "sframe-per-section",
        "a V3 .sframe for each function, outside its group",
        true,
        Form::PerSection { group: false, linked: false },
    ),
    sframe(
        "sframe-group",
        "a V3 .sframe for each function, in its group",
        false,
        Form::PerSection { group: true, linked: false },
    ),
    sframe(
        "sframe-link-order",
        "linked to its text, outside its group",
        true,
        Form::PerSection { group: false, linked: true },
    ),
    sframe(
        "sframe-group-link-order",
        "linked to its text and in its group",
        false,
        Form::PerSection { group: true, linked: true },
    ),
    outside("text", ".text.probe,\"ax\",{at}progbits", "code that refers to a label in the losing copy"),
    outside("data", ".data.probe,\"aw\",{at}progbits", "data"),
    outside("rodata", ".rodata.probe,\"a\",{at}progbits", "constants"),
    outside("init-array", ".init_array,\"aw\",{at}init_array", "a constructor's entry"),
    outside("note", ".note.probe,\"a\",{at}note", "a loaded note"),
    outside(
        "patchable",
        "__patchable_function_entries,\"aw\",{at}progbits",
        "gcc before 13: __patchable_function_entries outside the group",
    ),
    outside(
        "patchable-link-order",
        "__patchable_function_entries,\"awo\",{at}progbits,.text.shared",
        "the same, linked to its text",
    ),
    outside("except-table", ".gcc_except_table,\"a\",{at}progbits", "one exception table for all functions"),
    outside("debug-info", ".debug_info,\"\",{at}progbits", "debug information"),
    outside("debug-line", ".debug_line,\"\",{at}progbits", "line numbers"),
    outside("debug-loc", ".debug_loc,\"\",{at}progbits", "location lists, where 0 would end the list"),
    outside("debug-ranges", ".debug_ranges,\"\",{at}progbits", "address ranges, where 0 would end the list"),
    outside("debug-names", ".debug_names,\"\",{at}progbits", "the accelerator table"),
    outside("non-alloc", ".mymeta,\"\",{at}progbits", "a section of an unknown tool, not loaded"),
    Shape {
        name: "eh-frame",
        what: ".eh_frame of all functions in one section",
        subject: Subject::EhFrame,
        violates: false,
        form: Form::Cfi,
    },
    text(
        "foreign-member",
        "the losing group holds a section that its file's other code needs, by a local label",
        true,
        "",
        "\t.section .rodata.own,\"aG\",{at}progbits,shared,comdat\n.Lown:\t.8byte 1\n\t.section .data.user,\"aw\",{at}progbits\n\t.globl user\nuser:\t.8byte .Lown\n",
    ),
    text(
        "foreign-global",
        "the same by a global symbol that only the losing group defines",
        true,
        "",
        "\t.section .rodata.own,\"aG\",{at}progbits,shared,comdat\n\t.globl own\nown:\t.8byte 1\n\t.section .data.user,\"aw\",{at}progbits\n\t.globl user\nuser:\t.8byte own\n",
    ),
    text(
        "foreign-unused",
        "a global symbol that only the losing group defines and nobody needs",
        false,
        "",
        "\t.section .rodata.own,\"aG\",{at}progbits,shared,comdat\n\t.globl own\nown:\t.8byte 1\n",
    ),
    text(
        "link-order-discarded",
        "metadata linked to the losing copy's text, outside the group, without a relocation",
        true,
        "",
        "\t.section .meta,\"ao\",{at}progbits,.text.shared\n\t.globl meta\nmeta:\t.8byte 7\n",
    ),
    text(
        "link-order-dead",
        "metadata linked to a function that only --gc-sections removes",
        false,
        "",
        "\t.section .meta,\"ao\",{at}progbits,.text.unused\n\t.globl meta\nmeta:\t.8byte 7\n",
    ),
    text(
        "linkonce",
        "a .gnu.linkonce section beside a COMDAT group of the same name",
        false,
        "\t.section .text.twice,\"axG\",{at}progbits,twice,comdat\n\t.weak twice\ntwice:\t{ret}\n\t{ret}\n",
        "\t.section .gnu.linkonce.t.twice,\"ax\",{at}progbits\n\t.weak twice\ntwice:\t{ret}\n\t.weak only_b\nonly_b:\t{ret}\n",
    ),
    text(
        "group-of-two-sets",
        "groups of one signature with other members: all of the loser's go",
        false,
        "\t.section .data.one,\"awG\",{at}progbits,pair,comdat\n\t.globl one\none:\t.8byte 1\n",
        "\t.section .data.one,\"awG\",{at}progbits,pair,comdat\n\t.globl one\none:\t.8byte 1\n\t.section .data.two,\"awG\",{at}progbits,pair,comdat\n\t.globl two\ntwo:\t.8byte 2\n",
    ),
    text(
        "plain-groups",
        "groups that are no COMDAT: both stay",
        false,
        "\t.section .data.one,\"awG\",{at}progbits,plain\n\t.globl one\none:\t.8byte 1\n",
        "\t.section .data.two,\"awG\",{at}progbits,plain\n\t.globl two\ntwo:\t.8byte 2\n",
    ),
];

/// The assembly of both files of a shape.
pub fn sources(shape: &Shape, machine: Machine) -> [String; 2] {
    let dialect = machine.dialect();
    let functions: [&[(&str, bool)]; 2] =
        [&[("_start", false), ("shared", true)], &[("b_fn", false), ("shared", true), ("unused", false)]];
    let mut texts = functions.map(|functions| {
        let mut text = String::new();
        for &(name, shared) in functions {
            function(&mut text, name, shared, dialect, matches!(shape.form, Form::Cfi));
        }
        text
    });
    for (number, functions) in functions.into_iter().enumerate() {
        let text = &mut texts[number];
        match &shape.form {
            Form::Monolithic(version) => {
                let kind = if *version == 2 { "progbits" } else { "0x6ffffff4" };
                let _ = writeln!(text, "\t.section .sframe,\"a\",{}{kind}", dialect.at);
                let names: Vec<&str> = functions.iter().map(|(name, _)| *name).collect();
                frames(text, &names, *version, dialect);
            }
            Form::PerSection { group, linked } => {
                for (row, &(name, shared)) in functions.iter().enumerate() {
                    per_section(text, name, *group && shared, *linked, row, dialect);
                }
            }
            Form::Outside { section } if number == 1 => {
                let _ = writeln!(
                    text,
                    "\t.section {section}\n\t.balign 8\n\t.8byte {MARK:#x}\n\t.8byte .Lbegin_shared + 4"
                );
            }
            Form::Text { a, b } => text.push_str(if number == 0 { a } else { b }),
            Form::Outside { .. } | Form::Cfi => {}
        }
        let _ = writeln!(text, "\t.section .note.GNU-stack,\"\",{}progbits", dialect.at);
        *text = text
            .replace("{at}", &dialect.at.to_string())
            .replace("{call}", dialect.call)
            .replace("{ret}", dialect.ret)
            .replace("{abs}", dialect.abs64);
    }
    texts
}

fn function(text: &mut String, name: &str, shared: bool, dialect: &Dialect, cfi: bool) {
    let at = dialect.at;
    let _ = if shared {
        writeln!(text, "\t.section .text.{name},\"axG\",{at}progbits,{name},comdat\n\t.weak {name}")
    } else {
        writeln!(text, "\t.section .text.{name},\"ax\",{at}progbits\n\t.globl {name}")
    };
    let _ = writeln!(text, "\t.type {name},{at}function\n{name}:\n.Lbegin_{name}:");
    if cfi {
        text.push_str("\t.cfi_startproc\n");
    }
    let calls: &[&str] = match name {
        "_start" => &["shared", "b_fn"],
        "b_fn" => &["shared"],
        _ => &[],
    };
    for call in calls {
        let separator = if dialect.call.ends_with(',') { "" } else { " " };
        let _ = writeln!(text, "\t{}{separator}{call}", dialect.call);
    }
    // At least eight bytes, so that a label after the start is still inside.
    for _ in 0..8 {
        let _ = writeln!(text, "\t{}", dialect.ret);
    }
    if cfi {
        text.push_str("\t.cfi_endproc\n");
    }
    let _ = writeln!(text, ".Lend_{name}:\n\t.size {name}, . - {name}");
}

fn per_section(text: &mut String, name: &str, group: bool, linked: bool, row: usize, dialect: &Dialect) {
    let at = dialect.at;
    let mut flags = String::from("a");
    let mut more = String::new();
    // gas expects the linked section before the group.
    if group {
        flags.push('G');
    }
    if linked {
        flags.push('o');
        let _ = write!(more, ",.text.{name}");
    }
    if group {
        let _ = write!(more, ",{name},comdat");
    }
    let _ = writeln!(text, "\t.section .sframe,\"{flags}\",{at}0x6ffffff4{more},unique,{row}");
    frames(text, &[name], 3, dialect);
}

/// Writes an SFrame blob. Each function has one row, with the CFA at the stack pointer of the call.
fn frames(text: &mut String, names: &[&str], version: u8, dialect: &Dialect) {
    let count = names.len();
    let (flags, entry, data) = if version == 2 { (0, 20, 3) } else { (4, 16, 8) };
    let cfa = if dialect.fixed_ra == 0 { 0 } else { 8 };
    let _ = writeln!(
        text,
        "\t.balign 8\n\t.2byte 0xdee2\n\t.byte {version}, {flags}, {}, 0, {}, 0\n\t.4byte {count}, {count}, {}, 0, {}",
        dialect.sframe_abi,
        dialect.fixed_ra as u8,
        count * data,
        count * entry
    );
    for (row, name) in names.iter().enumerate() {
        let _ = match version {
            2 => writeln!(
                text,
                "\t.4byte .Lbegin_{name} - .\n\t.4byte .Lend_{name} - .Lbegin_{name}, {}, 1\n\t.byte 0, 0, 0, 0",
                row * data
            ),
            _ => writeln!(
                text,
                "\t.8byte .Lbegin_{name} - .\n\t.4byte .Lend_{name} - .Lbegin_{name}, {}",
                row * data
            ),
        };
    }
    for _ in names {
        let _ = match version {
            2 => writeln!(text, "\t.byte 0, 3, {cfa}"),
            _ => writeln!(text, "\t.2byte 1\n\t.byte 0, 0, 0\n\t.byte 0, 3, {cfa}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_texts_complete() {
        let mut names: Vec<&str> = SHAPES.iter().map(|shape| shape.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SHAPES.len());
        for (shape, machine) in SHAPES.iter().flat_map(|shape| Machine::ALL.map(|machine| (shape, machine))) {
            for text in sources(shape, machine) {
                assert!(text.contains("shared") && !text.contains('{'), "{}: {text}", shape.name);
            }
        }
    }
}
