//! Objects whose `.sframe` sections have any form that the format allows.

use super::super::blob::{self, Edition, abi, blob};
use super::super::case::{Case, Fact, Source};
use super::super::linked::{aligned, described, expected, links, look, nothing_else, sound};
use super::super::program::{By, File, Frames};
use super::common::{ALL, a, b, link, of_edition, right};
use crate::machine::Machine;
use object::elf;
use sframe_format::PT_GNU_SFRAME;

pub fn cases(machine: Machine) -> Vec<Case> {
    let mut cases = Vec::new();
    for edition in Edition::ALL.into_iter().filter(|edition| edition.is_for(abi(machine))) {
        cases.extend(editions(machine, edition));
    }
    cases.extend(texts(machine));
    cases.extend(bodies(machine));
    cases.extend(names(machine));
    cases.extend(little(machine));
    cases
}

fn editions(machine: Machine, edition: Edition) -> [Case; 2] {
    let family = |name: &str| format!("objects/{name}-{}", edition.name());
    let of = |frames: Frames| frames.edition(edition);
    let one = link(machine, &family("one"), "one object; one .sframe for two text sections");
    let two = link(machine, &family("two"), "two objects, each with one .sframe for two functions");
    [
        one.file("a.o", a(machine, of))
            .step("a.o", "out")
            .facts(of_edition(edition, right(machine, &["_start", "first"]))),
        two.file("a.o", a(machine, of))
            .file("b.o", b(machine, of))
            .step("a.o b.o", "out")
            .facts(of_edition(edition, right(machine, ALL))),
    ]
}

/// How functions lie in text sections.
fn texts(machine: Machine) -> Vec<Case> {
    let names = ["_start", "first", "second"];
    let together = names.iter().fold(File::new(machine), |file, name| file.function_in(".text", name));
    let apart = names.iter().fold(File::new(machine), |file, name| file.function(name));
    let each = |file: File| names.iter().fold(file, |file, name| file.frames(Frames::of(&[name])));
    let by_symbol = || Frames::of(&names).by(By::Function);
    let apart_again = names.iter().fold(File::new(machine), |file, name| file.function(name));
    let by_symbols = names.iter().fold(File::new(machine), |file, name| file.function(name));
    let case = |family: &str, about: &str, file: File| {
        link(machine, family, about)
            .file("a.o", file.write())
            .step("a.o", "out")
            .facts(right(machine, &names))
    };
    vec![
        case("objects/one-text", "three functions in one text section", together.frames(Frames::of(&names))),
        case("objects/three-texts", "one .sframe for three text sections", apart.frames(Frames::of(&names))),
        case(
            "objects/three-sections",
            "one object with a .sframe for each of three text sections, all of one name",
            each(apart_again),
        ),
        case(
            "objects/by-function-symbol",
            "start fields refer to global functions instead of sections",
            by_symbols.frames(by_symbol()),
        ),
    ]
}

/// What lies between header, entries and rows, and around a blob.
fn bodies(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let names = ["_start", "first"];
    let functions = names.map(|name| blob::function(abi, name));
    let sound_blob = || blob(abi, Edition::V3, &functions);
    let one = |name: &str| blob(abi, Edition::V3, &[blob::function(abi, name)]);
    let equal = [blob::function(abi, "same"), blob::function(abi, "twin")];
    let length = sound_blob().bytes.len();
    let case = |family: &str, about: &str, blob| {
        link(machine, family, about)
            .file("a.o", a(machine, |frames| frames.bytes(Clone::clone(&blob))))
            .step("a.o", "out")
            .facts(right(machine, &names))
    };
    let mut cases = vec![
        case("objects/trailing-zeros", "eight zeros behind the blob", sound_blob().with_length(length + 8)),
        case("objects/auxiliary-header", "an auxiliary header of 4 bytes", sound_blob().with_auxiliary(4)),
        case("objects/gaps", "unused bytes before the entries and the rows", sound_blob().with_gaps(8)),
    ];
    let several = Source::Proposal("SFrame rule 9: a section holds one blob or several");
    let mut two =
        case("objects/two-blobs", "two blobs in one input section", one("_start").then(one("first")));
    two.facts = two.facts.into_iter().map(|fact| fact.by(several)).collect();
    cases.push(two);
    let twins = File::new(machine)
        .function_with("_start", equal[0].clone())
        .function_with("first", equal[1].clone())
        .frames(Frames::of(&names).bytes(blob::shared(abi, Edition::V3, &equal, true)));
    let expected_twins = names.iter().zip(&equal).map(|(name, function)| ((*name).into(), function.clone()));
    cases.push(
        link(machine, "objects/shared-rows", "two functions whose entries name the same rows")
            .file("a.o", twins.write())
            .step("a.o", "out")
            .facts([links(), described(expected_twins.collect()), nothing_else(&names), sound()]),
    );
    let backwards = File::new(machine)
        .function("_start")
        .function("first")
        .function("second")
        .frames(Frames::of(&["second", "_start", "first"]));
    cases.push(
        link(machine, "objects/entries-out-of-order", "entries that do not follow the order of the text")
            .file("a.o", backwards.write())
            .step("a.o", "out")
            .facts(right(machine, &["_start", "first", "second"])),
    );
    cases
}

/// Names and types of input sections.
fn names(machine: Machine) -> Vec<Case> {
    let two = |family: &str, about: &str, of: fn(Frames) -> Frames| {
        link(machine, family, about)
            .file("a.o", a(machine, of))
            .file("b.o", b(machine, of))
            .step("a.o b.o", "out")
    };
    let suffix = Source::Gnu("ld's default script: *(.sframe) *(.sframe.*)");
    let by = |source: Source| right(machine, ALL).into_iter().map(move |fact| fact.by(source));
    let rule_1 = Source::Proposal("SFrame rule 1: SHT_PROGBITS sections of these names are SFrame, too");
    let mixed = link(machine, "objects/progbits-beside-sframe", "one object has the old section type")
        .file("a.o", a(machine, |frames| frames))
        .file("b.o", b(machine, |frames| frames.kind(elf::SHT_PROGBITS)))
        .step("a.o b.o", "out");
    vec![
        two("objects/progbits", "sections of type SHT_PROGBITS, as before binutils 2.45", |frames| {
            frames.kind(elf::SHT_PROGBITS)
        })
        .facts(by(rule_1)),
        mixed.facts(by(rule_1)),
        two("objects/suffix", "sections named .sframe.f", |frames| frames.name(".sframe.f"))
            .facts(by(suffix)),
        two("objects/other-name", "sections of type SHT_GNU_SFRAME with another name", |frames| {
            frames.name("frames_of_mine")
        })
        .facts(by(Source::Proposal("SFrame rule 1: a section of this type is SFrame by any name"))),
    ]
}

/// Inputs that hold little or nothing.
fn little(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let bare = || File::new(machine).function("second").function("third");
    let empty = || blob(abi, Edition::V3, &[]);
    let second = |family: &str, about: &str, file: File| {
        link(machine, family, about)
            .file("a.o", a(machine, |frames| frames))
            .file("b.o", file.write())
            .step("a.o b.o", "out")
            .facts(right(machine, &["_start", "first"]))
    };
    let none = Source::Gabi("ch. 4, Sections: the output holds what the inputs hold");
    vec![
        second("objects/beside-none", "the second object has no .sframe", bare()),
        second(
            "objects/beside-no-functions",
            "the second object has a header without functions",
            bare().frames(Frames::of(&[]).bytes(empty())),
        ),
        second(
            "objects/beside-zero-bytes",
            "the second object has a .sframe of 0 bytes",
            bare().frames(Frames::of(&[]).bytes(empty().with_length(0))),
        ),
        link(machine, "objects/no-frames", "no object has a .sframe")
            .file("a.o", File::new(machine).function("_start").write())
            .step("a.o", "out")
            .facts([look("no-frames", "no SFrame section and no PT_GNU_SFRAME", none, |linked, _| {
                let segment = linked.view.segments.iter().any(|segment| segment.kind == PT_GNU_SFRAME);
                match (linked.sframe.is_empty(), segment) {
                    (true, false) => Ok(()),
                    (false, _) => Err("an SFrame section".into()),
                    (true, true) => Err("a segment without a section".into()),
                }
            })]),
        link(machine, "objects/odd-sizes", "blobs whose sizes are no multiples of 8, in three objects")
            .file("a.o", a(machine, |frames| frames.edition(Edition::V3)))
            .file("b.o", b(machine, |frames| frames))
            .file("c.o", File::new(machine).function("left").frames(Frames::of(&["left"])).write())
            .step("a.o b.o c.o", "out")
            .facts([links(), aligned(), described(expected(abi, &["_start", "second", "left"])), sound()]),
        link(machine, "objects/strip-debug", "-S: frames are no debug information")
            .needs("-S")
            .file("a.o", a(machine, |frames| frames))
            .file("b.o", b(machine, |frames| frames))
            .step("-S a.o b.o", "out")
            .facts(right(machine, ALL)),
        link(
            machine,
            "objects/start-lib",
            "the second object is a member of an archive that nothing asks for",
        )
        .needs("--start-lib --end-lib")
        .file("a.o", a(machine, |frames| frames))
        .file("b.o", b(machine, |frames| frames))
        .step("a.o --start-lib b.o --end-lib", "out")
        .facts(right(machine, &["_start", "first"])),
        link(machine, "objects/emit-relocs", "-q: relocations stay beside the values that they computed")
            .needs("-q")
            .file("a.o", a(machine, |frames| frames))
            .file("b.o", b(machine, |frames| frames))
            .step("-q a.o b.o", "out")
            .facts(right(machine, ALL))
            .facts([relocations_compute()]),
    ]
}

/// The relocations of `--emit-relocs` compute what is written.
fn relocations_compute() -> Fact {
    let source = Source::Proposal("SFrame rule 5: emitted relocations compute the written values");
    look(
        "relocations-compute",
        "each relocation that stays computes the value at its place",
        source,
        |linked, _| {
            let view = &linked.view;
            let mut seen = 0;
            for (row, records) in &view.relocations {
                let target = view.sections[*row].info as usize;
                if !linked.sframe.contains(&target) {
                    continue;
                }
                let section = &view.sections[target];
                for record in records.iter().filter(|record| record.kind != 0) {
                    let symbol = view.symbols.get(record.symbol as usize).ok_or("a symbol out of range")?;
                    let value = symbol.value.wrapping_add(record.addend as u64).wrapping_sub(record.offset);
                    let at = record.offset.wrapping_sub(section.address) as usize;
                    let bytes: [u8; 8] = section
                        .data
                        .get(at..at + 8)
                        .and_then(|bytes| bytes.try_into().ok())
                        .ok_or_else(|| format!("a relocation at {:#x}, outside", record.offset))?;
                    let stored = if view.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) };
                    if stored != value {
                        return Err(format!(
                            "at {:#x}: {stored:#x} is written, {value:#x} computed",
                            record.offset
                        ));
                    }
                    seen += 1;
                }
            }
            if seen == 0 { Err("no relocation of .sframe stays".into()) } else { Ok(()) }
        },
    )
}
