//! Linker scripts and version scripts; most of them are well-formed.

use arbitrary::{Result, Unstructured};
use std::fmt::Write;

/// Output sections and inputs for scripts.
const SECTIONS: [&str; 10] = [
    ".text",
    ".data",
    ".bss",
    ".rodata",
    ".tdata",
    ".sframe",
    ".sframe_idx",
    ".eh_frame",
    "frames",
    "/DISCARD/",
];
const PATTERNS: [&str; 14] = [
    "*(.text .text.*)",
    "*(.data .data.*)",
    "*(.bss COMMON)",
    "KEEP(*(.init_array .init_array.*))",
    "*(SORT_BY_INIT_PRIORITY(.init_array.*))",
    "*(EXCLUDE_FILE(1.o) .rodata .rodata.*)",
    "1.o(.text*)",
    "*(.tdata .tbss)",
    "*(.eh_frame)",
    "*(.sframe)",
    "*(.sframe_idx)",
    "*(SORT_BY_NAME(frames))",
    "*(SORT(.rodata.*) .rodata)",
    "*(*)",
];
const ADDRESSES: [&str; 12] = [
    "0x400000",
    ".",
    ". + 8",
    "ALIGN(16)",
    "ALIGN(0x1000)",
    "ADDR(.text) + SIZEOF(.text)",
    "LOADADDR(.data)",
    "DEFINED(f) ? f : 0x1000",
    "SIZEOF_HEADERS",
    "CONSTANT(MAXPAGESIZE)",
    "ORIGIN(ram) + LENGTH(ram)",
    "DATA_SEGMENT_ALIGN(0x1000, 0x1000)",
];

/// Statements that only output sections have, and statements for both places.
const INSIDE: [&str; 6] =
    ["BYTE(1)", "QUAD(f)", "LONG(ADDR(.data))", "FILL(0x90)", "ASCIZ \"text\"", "CONSTRUCTORS"];
const ANYWHERE: [&str; 7] = [
    "ASSERT(SIZEOF(.text) < 0x100000, \"too large\")",
    "PROVIDE(g = .)",
    "PROVIDE_HIDDEN(h = . + 4)",
    "f = .",
    "HIDDEN(main = 4)",
    "ENTRY(main)",
    ". = ",
];

/// Commands after the sections.
const BEHIND: [&str; 8] = [
    "",
    "",
    "",
    "INPUT(0.o)\n",
    "EXTERN(f)\n",
    "INSERT AFTER .text;\n",
    "VERSION { V1 { f; }; }\n",
    "NOCROSSREFS(.text .data)\n",
];

/// Memory regions, segments and sections.
pub fn linker_script(from: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    let (regions, segments) = (from.ratio(1, 4)?, from.ratio(1, 4)?);
    if regions {
        text.push_str("MEMORY { rom (rx) : ORIGIN = 0x10000, LENGTH = 0x8000\n ram (w!x) : ORIGIN = 0x100000, LENGTH = 1M }\n");
    }
    if segments {
        text.push_str("PHDRS { headers PT_PHDR PHDRS; text PT_LOAD FILEHDR PHDRS; data PT_LOAD FLAGS(6); tls PT_TLS; }\n");
    }
    text.push_str("SECTIONS {\n");
    if segments {
        text.push_str(".interp : { *(.interp) } :text\n");
    }
    for _ in 0..from.int_in_range(0..=8)? {
        if from.ratio(1, 4)? {
            statement(from, &ANYWHERE, &mut text)?;
            continue;
        }
        text.push_str(from.choose(&SECTIONS)?);
        if from.ratio(1, 4)? {
            let _ = write!(text, " {}", from.choose(&ADDRESSES)?);
        }
        text.push_str(from.choose(&[" : ", " (NOLOAD) : ", " (INFO) : ", " : ", " : ONLY_IF_RO "])?);
        if from.ratio(1, 8)? {
            let _ = write!(text, "AT({}) ", from.choose(&ADDRESSES)?);
        }
        text.push_str("{ ");
        for _ in 0..from.int_in_range(0..=4)? {
            if from.ratio(1, 3)? {
                let words: &[&str] = if from.ratio(1, 2)? { &INSIDE } else { &ANYWHERE };
                statement(from, words, &mut text)?;
            } else {
                let _ = write!(text, "{} ", from.choose(&PATTERNS)?);
            }
        }
        text.push_str("} ");
        if regions && from.ratio(1, 2)? {
            text.push_str(from.choose(&["> rom", "> ram", "> ram AT> rom"])?);
        }
        if segments && from.ratio(1, 2)? {
            text.push_str(from.choose(&[" :text", " :data", " :data :tls", " :NONE"])?);
        }
        text.push('\n');
    }
    text.push_str("}\n");
    text.push_str(from.choose(&BEHIND)?);
    Ok(text)
}

/// Adds an assignment or a command, or whatever the choice of words makes of it.
fn statement(from: &mut Unstructured<'_>, all: &[&str], text: &mut String) -> Result<()> {
    let words = from.choose(all)?;
    text.push_str(words);
    if words.ends_with("= ") {
        text.push_str(from.choose(&ADDRESSES)?);
    }
    text.push_str("; ");
    Ok(())
}

/// Version nodes.
pub fn version_script(from: &mut Unstructured<'_>) -> Result<String> {
    let patterns = ["f", "g", "main", "*", "_Z*", "f?", "[fg]", "extern \"C++\" { a::b*; \"a::b()\"; }"];
    let mut text = String::new();
    let count = from.int_in_range(0..=3)?;
    for number in 0..count {
        let _ = write!(
            text,
            "{} {{ ",
            if count == 1 && from.ratio(1, 2)? { String::new() } else { format!("V{}", number + 1) }
        );
        for scope in ["global: ", "local: "] {
            if from.ratio(1, 2)? {
                text.push_str(scope);
                for _ in 0..from.int_in_range(0..=3)? {
                    let _ = write!(text, "{}; ", from.choose(&patterns)?);
                }
            }
        }
        // One node in eight inherits from a version; the first one, and some others, from a version that does
        // not exist.
        match from.int_in_range(0..=15)? {
            0 => text.push_str("} V9;\n"),
            1 => drop(writeln!(text, "}} V{number};")),
            _ => text.push_str("};\n"),
        }
    }
    Ok(text)
}
