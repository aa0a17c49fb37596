//! Inputs of several versions, of unknown ones, and damaged ones.

use super::super::blob::{self, Blob, Edition, abi, blob};
use super::super::case::{Case, Fact, Source};
use super::super::linked::{complains, described, expected, links, look, nothing_else, refused_or, survives};
use super::super::program::Frames;
use super::common::{ALL, a, b, link, right};
use crate::machine::Machine;
use sframe_format::Section;

const MIXED: Source =
    Source::Proposal("mixed versions pass; every blob is right by its own version (SFrame rule 5)");
const NOTHING_SILENT: Source = Source::Proposal("SFrame rule 10: nothing is dropped in silence");
const VALID: Source =
    Source::Proposal("SFrame rule 10: a corrupt input gets a message, and spoils nothing else");

pub fn cases(machine: Machine) -> Vec<Case> {
    let mut cases = mixed(machine);
    cases.extend(unknown(machine));
    cases.extend(damaged(machine));
    cases
}

/// Two versions in one link.
fn mixed(machine: Machine) -> Vec<Case> {
    let editions = || Edition::ALL.into_iter().filter(|edition| edition.is_for(abi(machine)));
    let mut cases = Vec::new();
    for first in editions() {
        for second in editions().filter(|second| second.version() != first.version()) {
            let family = format!("versions/{}-and-{}", first.name(), second.name());
            cases.push(
                link(machine, &family, "two objects of different versions")
                    .file("a.o", a(machine, |frames| frames.edition(first)))
                    .file("b.o", b(machine, |frames| frames.edition(second)))
                    .step("a.o b.o", "out")
                    .facts(right(machine, ALL).into_iter().map(|fact| fact.by(MIXED))),
            );
        }
    }
    cases
}

/// The functions of `a.o`, whose frames are in order whatever `b.o` holds.
fn first_is_described(machine: Machine) -> Vec<Fact> {
    vec![
        links().by(NOTHING_SILENT),
        described(expected(abi(machine), &["_start", "first"])).by(VALID),
        nothing_else(ALL),
    ]
}

/// A link whose second object holds other bytes.
fn beside(machine: Machine, family: &str, about: &str, second: &Blob) -> Case {
    link(machine, family, about)
        .file("a.o", a(machine, |frames| frames))
        .file("b.o", b(machine, |frames: Frames| frames.bytes(second.clone())))
        .step("a.o b.o", "out")
}

fn second_blob(machine: Machine) -> Blob {
    let functions = ["second", "third"].map(|name| blob::function(abi(machine), name));
    blob(abi(machine), Edition::V3, &functions)
}

/// A version that nobody knows yet.
fn unknown(machine: Machine) -> Vec<Case> {
    let future = || second_blob(machine).with_byte(2, 9);
    let kept = look(
        "kept-or-told",
        "frames of an unknown version are in the output as they are, or a message says that they are not",
        NOTHING_SILENT,
        |linked, outcome| {
            let preamble: [u8; 3] = if linked.view.big { [0xde, 0xe2, 9] } else { [0xe2, 0xde, 9] };
            let has = |data: &[u8]| data.windows(3).any(|window| window == preamble);
            let holds = linked.view.sections.iter().any(|section| section.is_alloc() && has(section.data));
            if holds || outcome.complained() { Ok(()) } else { Err("gone without a word".into()) }
        },
    );
    vec![
        beside(
            machine,
            "versions/unknown-is-kept-or-told",
            "a blob of version 9 beside one of version 3",
            &future(),
        )
        .facts([survives(VALID), kept]),
        beside(
            machine,
            "versions/unknown-spoils-nothing",
            "a blob of version 9 beside one of version 3",
            &future(),
        )
        .facts(first_is_described(machine)),
        link(machine, "versions/unknown-alone", "only a blob of version 9")
            .file("b.o", b(machine, |frames: Frames| frames.bytes(future())))
            .step("-e second b.o", "out")
            .facts([
                links().by(NOTHING_SILENT),
                look("no-rows", "no reader of known versions finds rows", VALID, |linked, _| {
                    let count: usize = linked
                        .sections()
                        .map(|section| Section::new(section.data, section.address).blobs().count())
                        .sum();
                    if count == 0 { Ok(()) } else { Err(format!("{count} blobs of known versions")) }
                }),
            ]),
    ]
}

/// Bytes that are no SFrame, or not all of it.
fn damaged(machine: Machine) -> Vec<Case> {
    let good = || second_blob(machine);
    let length = good().bytes.len();
    let other_abi = if machine == Machine::X86_64 { 2 } else { 3 };
    let rows = u32::from_le_bytes([0xff; 4]).to_le_bytes();
    let mut counts = good();
    counts.bytes[8..12].copy_from_slice(&rows);
    let mut rows_far = good();
    // The offset of the second function's rows: V3 entries have 16 bytes, the offset is their last word.
    rows_far.bytes[28 + 16 + 12..28 + 32].copy_from_slice(&rows);
    let inputs = [
        ("magic", "the first byte is no magic number", good().with_byte(0, 0)),
        ("abi", "the header names another machine", good().with_byte(4, other_abi)),
        ("abi-unknown", "the header names no machine that exists", good().with_byte(4, 99)),
        ("flags", "a flag that version 3 does not define", good().with_flags(0x40)),
        ("cut-header", "the section ends in the header", good().with_length(20)),
        ("cut-entries", "the section ends in the second entry", good().with_length(52)),
        ("cut-rows", "the section ends in the rows", good().with_length(length - 4)),
        ("count", "a count of entries that no file has room for", counts),
        ("row-offset", "the rows of a function lie outside", rows_far),
        ("noise", "eight bytes that are nothing", good().with_length(8).with_byte(0, 0x5a)),
    ];
    let mut cases = Vec::new();
    for (name, about, bytes) in inputs {
        // Relocations outside a section that was cut would be a fault of another kind.
        let mut bytes = bytes;
        bytes.fields.retain(|field| field + 8 <= bytes.bytes.len() as u64);
        let case = |subject: &str| beside(machine, &format!("damaged/{name}-{subject}"), about, &bytes);
        cases.push(case("is-told").facts([survives(VALID), complains(NOTHING_SILENT)]));
        cases.push(case("spoils-nothing").facts([
            survives(VALID),
            refused_or(
                VALID,
                vec![described(expected(abi(machine), &["_start", "first"])), nothing_else(ALL)],
            ),
        ]));
    }
    cases
}
