//! Linker scripts: where `.sframe` goes, or that it goes nowhere.

use super::super::blob::{Edition, abi};
use super::super::case::{Case, Source};
use super::super::linked::{
    complains, described, expected, has_type, links, look, no_section, nothing_else, refused_or, segment,
    sound,
};
use super::super::program::{File, Frames};
use super::common::{ALL, a, b, link, right};
use crate::machine::Machine;
use sframe_format::{PT_GNU_SFRAME, Section};

const PLACE: Source =
    Source::Gnu("ld's manual, SECTIONS: an input goes where the first rule that matches says");
const ORPHAN: Source = Source::Gnu("ld's manual, Orphan Sections: an input without a rule is in the output");

/// Both objects, linked by a script.
fn scripted(machine: Machine, family: &str, about: &str, script: &str) -> Case {
    link(machine, family, about)
        .needs("-T x.ld")
        .file("x.ld", script)
        .file("a.o", a(machine, |frames| frames))
        .file("b.o", b(machine, |frames| frames))
        .step("-T x.ld a.o b.o", "out")
}

const TEXT: &str = "SECTIONS { . = 0x400000; .text : { *(.text .text.*) }";

pub fn cases(machine: Machine) -> Vec<Case> {
    let mut cases = vec![
        scripted(
            machine,
            "scripts/rule",
            "a rule for .sframe",
            &format!("{TEXT} .sframe : {{ *(.sframe) *(.sframe.*) }} }}"),
        )
        .facts(right(machine, ALL)),
        scripted(machine, "scripts/orphan", "no rule for .sframe", &format!("{TEXT} }}"))
            .facts(right(machine, ALL).into_iter().map(|fact| fact.by(ORPHAN))),
        scripted(
            machine,
            "scripts/keep",
            "KEEP around the rule",
            &format!("{TEXT} .sframe : {{ KEEP(*(.sframe)) }} }}"),
        )
        .facts(right(machine, ALL)),
        scripted(
            machine,
            "scripts/before-text",
            "frames at lower addresses than text",
            "SECTIONS { . = 0x400000; .sframe : { *(.sframe) } . = 0x500000; .text : { *(.text .text.*) } }",
        )
        .facts(right(machine, ALL)),
        scripted(
            machine,
            "scripts/discard",
            "/DISCARD/ takes .sframe",
            &format!("{TEXT} /DISCARD/ : {{ *(.sframe) }} }}"),
        )
        .facts([links(), no_section(PLACE)]),
        scripted(
            machine,
            "scripts/reordered-text",
            "text sections in another order than their frames",
            "SECTIONS { . = 0x400000; .text : { *(.text.b) *(.text.first) *(.text.*) } .sframe : { *(.sframe) } }",
        )
        .facts(right(machine, ALL)),
    ];
    cases.extend(other_sections(machine));
    cases.extend(headers(machine));
    cases.extend(distances(machine));
    cases.push(bounds(machine));
    cases
}

/// Output sections of other names.
fn other_sections(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let renamed = format!("{TEXT} .frames : {{ *(.sframe) }} }}");
    let mixed = format!("{TEXT} .rodata : {{ *(.rodata) *(.sframe) }} }}");
    let split = format!("{TEXT} .sframe : {{ *a.o(.sframe) }} .sframe_more : {{ *b.o(.sframe) }} }}");
    vec![
        scripted(machine, "scripts/renamed", "an output section of another name", &renamed).facts([
            links(),
            has_type().by(Source::Proposal("SFrame rule 1: the output's type is always SHT_GNU_SFRAME")),
            described(expected(abi, ALL)).by(PLACE),
            sound(),
        ]),
        scripted(machine, "scripts/two-outputs", "the inputs go into two output sections", &split).facts([
            links(),
            described(expected(abi, ALL)).by(PLACE),
            nothing_else(ALL),
            sound(),
        ]),
        scripted(machine, "scripts/with-other-data", "frames in one output section with data", &mixed)
            .facts([links()]),
    ]
}

/// Scripts that make the program headers themselves.
fn headers(machine: Machine) -> Vec<Case> {
    let named = "PHDRS { text PT_LOAD FLAGS(5); frames 0x6474e554 FLAGS(4); } \
                 SECTIONS { . = 0x400000; .text : { *(.text .text.*) } :text .sframe : { *(.sframe) } :text :frames }";
    let unnamed = "PHDRS { text PT_LOAD FLAGS(5); } \
                   SECTIONS { . = 0x400000; .text : { *(.text .text.*) } :text .sframe : { *(.sframe) } :text }";
    let phdrs = Source::Gnu("ld's manual, PHDRS: with it, ld makes no program headers but these");
    vec![
        scripted(machine, "scripts/phdrs-with-frames", "PHDRS names a segment of type 0x6474e554", named)
            .facts([segment().by(phdrs)]),
        scripted(machine, "scripts/phdrs-without-frames", "PHDRS names no segment for frames", unnamed)
            .facts([
                links(),
                look("no-segment", "there is no PT_GNU_SFRAME", phdrs, |linked, _| {
                    let has = linked.view.segments.iter().any(|segment| segment.kind == PT_GNU_SFRAME);
                    if has { Err("there is one".into()) } else { Ok(()) }
                }),
            ]),
    ]
}

/// Text that is far from its frames.
fn distances(machine: Machine) -> Vec<Case> {
    let script = "SECTIONS { . = 0x400000; .text : { *(.text .text.*) } \
                  . = 0x200000000; .sframe : { *(.sframe) } }";
    let far = |family: &str, about: &str, edition: Edition| {
        link(machine, family, about)
            .needs("-T x.ld")
            .file("x.ld", script)
            .file("a.o", a(machine, |frames| frames.edition(edition)))
            .step("-T x.ld a.o", "out")
    };
    let names = &["_start", "first"];
    let reach = Source::Sframe("Function Descriptor Entries: the start field of V3 has 64 bits, of V2 32");
    vec![
        far("scripts/far-v3", "frames 8 GiB from their text", Edition::V3)
            .facts(right(machine, names).into_iter().map(|fact| fact.by(reach))),
        far("scripts/far-v2", "V2 frames 8 GiB from their text, which 32 bits do not reach", Edition::V2)
            .facts([refused_or(reach, vec![nothing_else(names), complains(reach)])]),
    ]
}

/// Symbols around the section, as the kernel's scripts have them.
fn bounds(machine: Machine) -> Case {
    let script = format!("{TEXT} .sframe : {{ from = .; *(.sframe) upto = .; }} }}");
    let file =
        || File::new(machine).function("_start").function("first").frames(Frames::of(&["_start", "first"]));
    link(machine, "scripts/bounds", "symbols before and behind the frames")
        .needs("-T x.ld")
        .file("x.ld", script)
        .file("a.o", file().write())
        .step("-T x.ld a.o", "out")
        .facts([look("bounds", "the symbols enclose every blob", PLACE, |linked, _| {
            let (Some(from), Some(upto)) = (linked.address("from"), linked.address("upto")) else {
                return Err("the symbols are not there".into());
            };
            for section in linked.sections() {
                for blob in Section::new(section.data, section.address).blobs() {
                    let end = blob.address() + blob.data().len() as u64;
                    if blob.address() < from || end > upto {
                        return Err(format!(
                            "a blob at {:#x} to {end:#x}, symbols {from:#x}, {upto:#x}",
                            blob.address()
                        ));
                    }
                }
            }
            if linked.sframe.is_empty() { Err("no SFrame section".into()) } else { Ok(()) }
        })])
}
