//! What becomes of each form of `.sframe` that an assembler could write, in every kind of link. Two files
//! share an inline function, so one copy loses together with its section group. The tables below say what the
//! linker is meant to do.
//!
//! GNU as 2.47 assembles all forms. From call frame directives it makes one section for all text itself;
//! `.section` directives write the other forms. other shapes are written out with `.section` directives.

use crate::need;
use crate::support::elf::*;
use crate::support::sframe::{PCREL, blobs, v3_source};
use crate::support::{Elf, Outcome, Work, tools};
use std::path::Path;

/// How frames are connected to their text.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape {
    /// One section for all text sections.
    Monolithic,
    /// One for each text section; only the relocation shows which one.
    PerText,
    /// One for each text section, in its group if it has one.
    InGroup,
    /// One for each text section, with `SHF_LINK_ORDER` to it.
    LinkOrder,
    /// One for each text section, with group and link order.
    Both,
}
use Shape::*;

/// The rows are the functions that the output describes, by address. With `-r` the output has sections,
/// separated by `|`: `*` marks one in a group, `>` one that is linked to a text section. `dead` is a row of
/// size 0 whose relocation computes nothing. Collection does not hide a violation.
#[rustfmt::skip]
const MATRIX: [(Shape, &str, [&str; 3]); 15] = [
    (Monolithic, "",              ["violation", "", ""]),
    (Monolithic, "--gc-sections", ["violation", "", ""]),
    (Monolithic, "-r",            ["warning", "main shared | b dead unused", "main shared b unused"]),
    (PerText,    "",              ["violation", "", ""]),
    (PerText,    "--gc-sections", ["violation", "", ""]),
    (PerText,    "-r",            ["warning", "main | shared | b | dead | unused", "main shared b unused"]),
    (InGroup,    "",              ["", "main shared b unused", ""]),
    (InGroup,    "--gc-sections", ["", "main shared b", ""]),
    (InGroup,    "-r",            ["", "main | shared* | b | unused", "main shared b unused"]),
    (LinkOrder,  "",              ["violation", "", ""]),
    (LinkOrder,  "--gc-sections", ["violation", "", ""]),
    (LinkOrder,  "-r",            ["warning", "main> | shared> | b> | dead | unused>", "main shared b unused"]),
    (Both,       "",              ["", "main shared b unused", ""]),
    (Both,       "--gc-sections", ["", "main shared b", ""]),
    (Both,       "-r",            ["", "main> | shared*> | b> | unused>", "main shared b unused"]),
];

/// Options that help if a section for all text violates the rules of groups, with the message, the section,
/// and its rows.
#[rustfmt::skip]
const HELP: [(&[&str], &str, &str, &str); 8] = [
    (&["--sframe=concat"],                        "violation", "",            ""),
    (&["--sframe-index"],                         "",          ".sframe_idx", "main shared b unused"),
    (&["--sframe-index", "--gc-sections"],        "",          ".sframe_idx", "main shared b"),
    (&["--sframe=merge"],                         "",          ".sframe",     "main shared b unused"),
    (&["--sframe-split"],                         "",          ".sframe",     "main shared b unused"),
    (&["--sframe-split", "--gc-sections"],        "",          ".sframe",     "main shared b"),
    (&["-z", "sframe-violation=warning"],         "warning",   ".sframe",     "main shared b unused"),
    (&["--sframe=discard"],                       "",          "",            ""),
];

/// A function with its frames in a form.
fn function(shape: Shape, name: &str, comdat: bool, body: &str) -> String {
    let (flags, group) = if comdat { ("axG", format!(",{name},comdat")) } else { ("ax", String::new()) };
    let text = format!(
        ".section .text.{name},\"{flags}\",@progbits{group}\n.weak {name}\n.type {name},@function\n{name}:\n.L{name}:\n"
    );
    let end = format!(".L{name}_end: .size {name},.-{name}\n");
    if shape == Monolithic {
        return format!("{text}.cfi_startproc\n{body}\n.cfi_endproc\n{end}");
    }
    let (in_group, linked) = (comdat && matches!(shape, InGroup | Both), matches!(shape, LinkOrder | Both));
    let flags = format!("a{}{}", if in_group { "G" } else { "" }, if linked { "o" } else { "" });
    let link = if linked { format!(",.text.{name}") } else { String::new() };
    let group = if in_group { group } else { String::new() };
    let unique = name.bytes().map(u32::from).sum::<u32>();
    let section = format!(".section .sframe,\"{flags}\",@0x6ffffff4{link}{group},unique,{unique}");
    let frames = v3_source(&section, &format!(".L{name}"), &format!(".L{name}_end-.L{name}"));
    format!("{text}{body}\n{end}{frames}")
}

/// The two files.
fn objects(work: &Work, assembler: &Path, shape: Shape) -> [String; 2] {
    let shared = function(shape, "shared", true, "nop\nret");
    let main = function(shape, "main", false, "call shared\ncall b\nret");
    let b = function(shape, "b", false, "call shared\nret");
    let unused = function(shape, "unused", false, "nop\nnop\nret");
    [("a", [main, shared.clone()].concat()), ("b", [b, shared, unused].concat())].map(|(name, source)| {
        let source = format!(".cfi_sections .sframe\n{source}\n.section .note.GNU-stack,\"\",@progbits\n");
        let (file, object) = (work.write(&format!("{name}.s"), source), format!("{name}.o"));
        work.command(assembler, &["-o", &object, &file]).quiet();
        object
    })
}

/// What a link says about the violation: nothing, an error, or a warning.
#[track_caller]
fn said(outcome: &Outcome) -> &'static str {
    if outcome.stderr.is_empty() {
        assert_eq!(outcome.code, Some(0), "{outcome}");
        return "";
    }
    // The section, what refers to it, its group and the file that prevails.
    for text in ["discarded section", ".text.shared", "b.o", ".sframe", "shared", "a.o"] {
        assert!(outcome.stderr.contains(text), "{text}: {outcome}");
    }
    match outcome.code {
        Some(0) => "warning",
        _ => "violation",
    }
}

/// The functions that a program's blobs describe, by address.
fn rows(elf: &Elf, section: &str) -> String {
    let Some(found) = elf.find(section) else { return String::new() };
    let mut starts: Vec<u64> =
        blobs(found).into_iter().flat_map(|blob| blob.rows).filter(|r| r.size > 0).map(|r| r.start).collect();
    starts.sort_unstable();
    let symbols = elf.symbols();
    let name = |start: &u64| {
        let symbol = symbols.iter().find(|s| s.value == *start && s.kind == STT_FUNC);
        symbol.map_or(format!("{start:#x}"), |symbol| symbol.name.clone())
    };
    starts.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// The `.sframe` sections of an object.
fn sections(elf: &Elf) -> String {
    let symbols = elf.symbols();
    let section = |section: &Section| {
        let relocations = elf.relocations_for(section.index);
        let name = |field: usize, size: u32| {
            // GNU ld counts one relocation for each function.
            let relocation = relocations.iter().find(|r| r.offset == field as u64).expect("a relocation");
            let text = &elf.sections[usize::from(symbols[relocation.symbol].section)];
            if relocation.kind == 0 {
                assert_eq!((size, text.index), (0, section.index));
                return "dead".to_owned();
            }
            text.name.replace(".text.", "")
        };
        let all = blobs(section);
        assert!(all.len() == 1 && all[0].flags & PCREL != 0);
        let names: Vec<String> = all[0].rows.iter().map(|row| name(row.field, row.size)).collect();
        let in_group = if section.flags & SHF_GROUP != 0 { "*" } else { "" };
        // It is linked to the text that it describes, or to nothing.
        let linked = section.flags & SHF_LINK_ORDER != 0 && section.link != 0;
        if linked {
            assert_eq!(elf.sections[section.link as usize].name, format!(".text.{}", names[0]));
        }
        format!("{}{in_group}{}", names.join(" "), if linked { ">" } else { "" })
    };
    elf.sections_named(".sframe").into_iter().map(section).collect::<Vec<_>>().join(" | ")
}

#[test]
fn every_shape_has_its_outcome_in_every_kind_of_link() {
    let assembler = need!(tools::assembler(3));
    for shape in [Monolithic, PerText, InGroup, LinkOrder, Both] {
        let work = Work::new();
        let [a, b] = objects(&work, &assembler, shape);
        for (_, option, expected) in MATRIX.iter().filter(|cell| cell.0 == shape) {
            let link = |option: &str, inputs: &[&str], out: &str| {
                let options = option.split_whitespace().chain(["-e", "main", "-o", out]);
                work.ld(&options.chain(inputs.iter().copied()).collect::<Vec<_>>())
            };
            let outcome = link(option, &[&a, &b], "out");
            let said = said(&outcome);
            let elf = (said != "violation").then(|| work.elf_unchecked("out"));
            let (found, through) = match elf {
                None => (String::new(), String::new()),
                Some(elf) if *option == "-r" => {
                    link("", &["out"], "final").quiet();
                    (sections(&elf), rows(&work.elf("final"), ".sframe"))
                }
                Some(elf) => (rows(&elf, ".sframe"), String::new()),
            };
            assert_eq!([said, &found, &through], *expected, "{shape:?} {option}");
        }
    }
}

#[test]
fn options_help_against_the_violation_of_a_monolithic_section() {
    let assembler = need!(tools::assembler(3));
    let work = Work::new();
    let [a, b] = objects(&work, &assembler, Monolithic);
    for (options, message, section, functions) in HELP {
        let outcome = work.ld(&[&["-e", "main", "-o", "out", &a, &b], options].concat());
        assert_eq!(said(&outcome), message, "{options:?}");
        if message == "violation" {
            outcome.says(&["--sframe-index", "--sframe=merge", "--sframe-split", "--sframe=discard"]);
            continue;
        }
        let elf = work.elf("out");
        let found: Vec<&str> =
            elf.sections.iter().filter(|s| s.kind == SHT_GNU_SFRAME).map(|s| s.name.as_str()).collect();
        assert_eq!(found.join(" "), section, "{options:?}");
        assert_eq!(rows(&elf, section), functions, "{options:?}");
    }
}
