//! Makes linker scripts for programs: whole layouts from random parts, sections that are inserted into the
//! linker's own layout, and scripts that name inputs.
//!
//! A script defines symbols around the words of the sections `.table.*`, and says in which order the words
//! come. The program notes the words between the symbols, but not the symbols' addresses. addresses are not
//! noted, but the words between them are.

use super::output::Output;
use super::program::Program;
use super::rng::Rng;

/// A linker script.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it does.
    pub kind: Kind,
    /// Its text. The text of a script with inputs needs the command line first.
    pub text: String,
    /// The name of its file.
    pub file: String,
}

/// The kinds of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `-T`: replaces the linker's own script.
    Layout,
    /// `-T`: adds to the linker's own script.
    Insertion,
    /// An input that names inputs.
    Inputs,
}

/// The script for a way to link a program, if it has one.
pub fn script(rng: &mut Rng, program: &Program, output: Output, number: usize) -> Option<Script> {
    let kind = match rng.below(6) {
        0..3 if program.scripted => Kind::Layout,
        3 if program.scripted => Kind::Insertion,
        4 => Kind::Inputs,
        _ => return None,
    };
    let text = match kind {
        Kind::Layout => layout(rng, program, output),
        Kind::Insertion => {
            let after = *rng.pick(&["AFTER .data", "BEFORE .bss"]);
            format!("SECTIONS\n{{\n{}}}\nINSERT {after};\n", table(rng))
        }
        Kind::Inputs => String::new(),
    };
    Some(Script { kind, text, file: format!("script{number}.ld") })
}

/// The text of a script that names inputs: objects, then archives.
pub fn inputs(objects: &[String], archives: &[String]) -> String {
    let mut text = String::from("/* GNU ld script */\n");
    let mut add = |word: &str, files: &[String]| {
        if !files.is_empty() {
            text.push_str(&format!("{word} ( {} )\n", files.join(" ")));
        }
    };
    add("INPUT", objects);
    add("GROUP", archives);
    text
}

/// Writes the section with the words, and the symbols around them.
fn table(rng: &mut Rng) -> String {
    let pattern = *rng.pick(&[
        "*(SORT_BY_NAME(.table.*))",
        "*(SORT(.table.*))",
        "*(.table.b* .table.a*) *(.table.*)",
        "*(.table.c*) *(SORT_BY_NAME(.table.*))",
        "*(EXCLUDE_FILE(*unit1.o) .table.*) *(SORT_BY_NAME(.table.*))",
    ]);
    let extra = *rng.pick(&["", "QUAD(0x1234567890)", "LONG(1) SHORT(2) BYTE(3) BYTE(4)", ". = . + 16;"]);
    let (start, end) = if rng.one_in(2) {
        ("PROVIDE(table_start = .);", "PROVIDE(table_end = .);")
    } else {
        ("table_start = .;", "table_end = .;")
    };
    format!("  .table : {{ . = ALIGN(8); {start} KEEP({}) {extra} {end} }}\n", kept(pattern))
}

/// The patterns, each in `KEEP`.
fn kept(pattern: &str) -> String {
    pattern.replace(") *(", ")) KEEP(*(")
}

/// A whole layout. It names every output section that contains what a program needs; the linker places
/// others.
fn layout(rng: &mut Rng, program: &Program, output: Output) -> String {
    let fixed = matches!(output, Output::Static | Output::NoPie);
    let base = if fixed { *rng.pick(&["0x400000", "0x10000000"]) } else { "0" };
    // In its own layout, each linker puts code, constants and data into different segments. A script has to
    // put them on different pages.
    let page = "  . = ALIGN(CONSTANT(MAXPAGESIZE));\n";
    let array = |name: &str, sort: &str| {
        format!(
            "  .{name} : {{ PROVIDE_HIDDEN(__{name}_start = .); {sort}KEEP(*(.{name})) PROVIDE_HIDDEN(__{name}_end = .); }}\n"
        )
    };
    let sorted = |name: &str| array(name, &format!("KEEP(*(SORT_BY_INIT_PRIORITY(.{name}.*))) "));
    let text = *rng.pick(&[
        "*(.text.start) *(.text .text.*)",
        "*(.text .text.*)",
        "KEEP(*(.text.start)) *(SORT_BY_NAME(.text.*)) *(.text)",
        "*(.text.unit_*) *(SORT_BY_ALIGNMENT(.text) SORT_BY_ALIGNMENT(.text.*))",
    ]);
    let discarded = *rng.pick(&["*(.comment)", "*(.comment) *(.note.gnu.property)", "*(.nothing.here)"]);
    let mut parts = vec![
        "  .interp : { *(.interp) }\n".to_owned(),
        format!("{page}  .text : {{ {text} }}\n"),
        page.into(),
        "  .rodata : { *(.rodata .rodata.*) }\n".into(),
        "  .eh_frame_hdr : { *(.eh_frame_hdr) }\n  .eh_frame : { KEEP(*(.eh_frame)) }\n".into(),
        page.into(),
        "  .tdata : { *(.tdata .tdata.*) }\n  .tbss : { *(.tbss .tbss.*) }\n".into(),
    ];
    parts.insert(
        1,
        if output == Output::Static {
            "  .rela.plt : { PROVIDE_HIDDEN(__rela_iplt_start = .); *(.rela.plt .rela.iplt .rela.dyn) \
             PROVIDE_HIDDEN(__rela_iplt_end = .); }\n"
                .into()
        } else {
            "  .rela.plt : { *(.rela.plt .rela.iplt) }\n  .rela.dyn : { *(.rela.dyn .rela.*) }\n".into()
        },
    );
    if rng.one_in(2) {
        parts.push("  .dynamic : { *(.dynamic) }\n  .got : { *(.got .igot) }\n  .got.plt : { *(.got.plt .igot.plt) }\n".into());
    }
    parts.extend([array("preinit_array", ""), sorted("init_array"), sorted("fini_array")]);
    if rng.one_in(2) {
        parts.push("  .data.rel.ro : { *(.data.rel.ro .data.rel.ro.*) }\n".into());
    }
    let (table, data) = (table(rng), "  .data : { *(.data .data.*) }\n".to_owned());
    parts.extend(if rng.one_in(2) { [table, data] } else { [data, table] });
    if fixed && rng.one_in(2) {
        parts.push("  table_size = SIZEOF(.table);\n".into());
    }
    if rng.one_in(3) {
        parts.push("  ASSERT(SIZEOF(.table) < 0x10000, \"the table is too long\")\n".into());
    }
    let common = if rng.one_in(2) { "*(.bss .bss.*) *(COMMON)" } else { "*(COMMON) *(.bss .bss.*)" };
    parts.push(format!("  .bss : {{ {common} }}\n"));
    parts.push(format!("  /DISCARD/ : {{ {discarded} }}\n"));
    if program.framed && rng.one_in(2) {
        parts.insert(5, "  .sframe : { *(.sframe .sframe.*) }\n".into());
    }
    format!("ENTRY(_start)\nSECTIONS\n{{\n  . = {base} + SIZEOF_HEADERS;\n{}}}\n", parts.concat())
}
