//! `-r`: what a second link gets, and what comes out of it.

use super::super::blob::{Edition, abi};
use super::super::case::{Case, Fact, Source};
use super::super::linked::{expected, look};
use super::super::objects::{not_sorted, one_relocation_each, refers_to, relocations, target};
use super::super::program::{File, Frames};
use super::common::{ALL, a, b, link, of_edition, right};
use crate::machine::Machine;
use object::elf;
use sframe_format::Section;

const UNIT: Source = Source::Gabi("ch. 4, Section Groups: sh_flags of members, and the group section");
const LINK: Source = Source::Gabi("ch. 4, SHF_LINK_ORDER: sh_link names the section that the order is of");

/// No section holds two blobs: GNU ld cannot read such inputs.
fn one_blob_each() -> Fact {
    let source = Source::Proposal("SFrame rule 6: under -r every input stays a section of its own");
    look("one-blob-each", "no section of the output holds two blobs", source, |linked, _| {
        for &row in &linked.sframe {
            let count = Section::new(linked.view.sections[row].data, 0).blobs().count();
            if count > 1 {
                return Err(format!("{count} blobs in one section"));
            }
        }
        Ok(())
    })
}

/// The frames of functions in groups are members of these groups.
fn stays_in_group(names: &'static [&'static str]) -> Fact {
    look("stays-in-group", "frames that were members of a group are members of it", UNIT, move |linked, _| {
        let view = &linked.view;
        for name in names {
            let symbol = view.symbols.iter().find(|symbol| symbol.name == *name && symbol.is_defined());
            let symbol = symbol.ok_or_else(|| format!("{name} is not in the output"))?;
            let members = view
                .sections
                .iter()
                .filter(|section| section.kind == elf::SHT_GROUP)
                .map(|section| words(section.data, view.big))
                .find(|members| members.contains(&symbol.section))
                .ok_or_else(|| format!("{name} is in no group"))?;
            let has = linked.sframe.iter().any(|&row| members.contains(&(row as u32)));
            if !has {
                return Err(format!("the group of {name} has no frames"));
            }
        }
        Ok(())
    })
}

fn words(data: &[u8], big: bool) -> Vec<u32> {
    let word = |bytes: &[u8]| {
        let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
        if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    data.chunks_exact(4).skip(1).map(word).collect()
}

/// The frames are linked to the text that they describe.
fn stays_linked() -> Fact {
    look("stays-linked", "frames that were linked to their text are linked to it", LINK, |linked, _| {
        let view = &linked.view;
        for &row in &linked.sframe {
            let section = &view.sections[row];
            if section.flags & u64::from(elf::SHF_LINK_ORDER) == 0 {
                return Err(format!("section {row} is not in link order"));
            }
            let places: Vec<u32> = relocations(view, row)
                .filter_map(|record| target(view, record))
                .map(|place| place.0)
                .collect();
            if places.iter().any(|&place| place != section.link) {
                return Err(format!("section {row} is linked to {}, and describes {places:?}", section.link));
            }
        }
        if linked.sframe.is_empty() { Err("no SFrame section".into()) } else { Ok(()) }
    })
}

/// `-r` of both objects.
fn both(machine: Machine, family: &str, about: &str, of: fn(Frames) -> Frames) -> Case {
    link(machine, family, about)
        .needs("-r")
        .file("a.o", a(machine, of))
        .file("b.o", b(machine, of))
        .step("-r a.o b.o", "out.o")
}

pub fn cases(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let all = || expected(abi, ALL);
    let plain: fn(Frames) -> Frames = |frames| frames;
    let mut cases = vec![
        both(machine, "relocatable/refers", "two objects", plain).facts([refers_to(all())]),
        both(machine, "relocatable/relocations", "two objects", plain).facts([one_relocation_each()]),
        both(machine, "relocatable/not-sorted", "two objects", plain).facts([not_sorted()]),
        both(machine, "relocatable/one-blob-each", "two objects", plain).facts([one_blob_each()]),
    ];
    for edition in Edition::ALL.into_iter().filter(|edition| edition.is_for(abi)) {
        cases.push(then_final(machine, edition));
        if edition != Edition::V3 {
            cases.extend(old(machine, edition));
        }
    }
    cases.extend(attached(machine));
    cases.push(mixed(machine));
    cases.extend(copies(machine));
    cases.push(twice(machine));
    cases
}

/// V1 or V2 objects: one alone, and two.
fn old(machine: Machine, edition: Edition) -> [Case; 2] {
    let facts = |names: &[&str]| {
        of_edition(edition, vec![refers_to(expected(abi(machine), names)), one_relocation_each()])
    };
    let of = |frames: Frames| frames.edition(edition);
    let case = |subject: &str, about: &str| {
        link(machine, &format!("relocatable/{subject}-{}", edition.name()), about)
            .needs("-r")
            .file("a.o", a(machine, of))
    };
    [
        case("alone", "-r of one object of an older version")
            .step("-r a.o", "out.o")
            .facts(facts(&["_start", "first"])),
        case("two", "-r of two objects of an older version")
            .file("b.o", b(machine, of))
            .step("-r a.o b.o", "out.o")
            .facts(facts(ALL)),
    ]
}

/// `-r`, then a final link of its output.
fn then_final(machine: Machine, edition: Edition) -> Case {
    let of = |frames: Frames| frames.edition(edition);
    link(
        machine,
        &format!("relocatable/then-final-{}", edition.name()),
        "-r of two objects, then a final link of it",
    )
    .needs("-r")
    .file("a.o", a(machine, of))
    .file("b.o", b(machine, of))
    .step("-r a.o b.o", "all.o")
    .step("all.o", "out")
    .facts(of_edition(edition, right(machine, ALL)))
}

/// Frames in groups and in link order.
fn attached(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let names = ["_start", "shared"];
    let file = || File::new(machine).comdat("_start").comdat("shared").call("_start", "shared");
    let each = |with: fn(Frames) -> Frames| {
        names.iter().fold(file(), |file, name| file.frames(with(Frames::of(&[name]))))
    };
    let apart = || File::new(machine).function("_start").function("shared");
    let linked = names.iter().fold(apart(), |file, name| file.frames(Frames::of(&[name]).linked()));
    let case = |family: &str, about: &str, file: File| {
        link(machine, family, about).needs("-r").file("a.o", file.write()).step("-r a.o", "out.o")
    };
    let grouped = each(Frames::grouped);
    let both = || each(|frames| frames.grouped().linked());
    vec![
        case("relocatable/grouped", "frames in the groups of their text", grouped)
            .facts([stays_in_group(&["_start", "shared"]), refers_to(expected(abi, &names))]),
        case("relocatable/linked", "frames linked to their text", linked)
            .facts([stays_linked(), refers_to(expected(abi, &names))]),
        case("relocatable/grouped-linked", "frames in groups and linked", both()).facts([
            stays_in_group(&["_start", "shared"]),
            stays_linked(),
            refers_to(expected(abi, &names)),
        ]),
        case("relocatable/grouped-linked-then-final", "frames in groups and linked", both())
            .step("out.o", "out")
            .facts(right(machine, &names)),
    ]
}

/// Inputs of two versions.
fn mixed(machine: Machine) -> Case {
    link(machine, "relocatable/mixed-versions", "-r of a V2 and a V3 object")
        .needs("-r")
        .file("a.o", a(machine, |frames| frames.edition(Edition::V2)))
        .file("b.o", b(machine, |frames| frames))
        .step("-r a.o b.o", "out.o")
        .facts(of_edition(Edition::V2, vec![refers_to(expected(abi(machine), ALL)), one_relocation_each()]))
}

/// Two copies of a group, described from outside or inside.
fn copies(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let object = |own: &str, inside: bool| {
        let file = File::new(machine).function(own).comdat("shared").call(own, "shared");
        let file = if inside {
            file.frames(Frames::of(&[own])).frames(Frames::of(&["shared"]).grouped())
        } else {
            file.frames(Frames::of(&[own, "shared"]))
        };
        file.write()
    };
    let live = ["_start", "shared", "other"];
    let case = |family: &str, about: &str, inside| {
        link(machine, family, about)
            .needs("-r")
            .file("a.o", object("_start", inside))
            .file("b.o", object("other", inside))
            .step("-r a.o b.o", "out.o")
    };
    let dead = Source::Proposal("SFrame rule 3: under -r a dead row has size 0 and no relocation");
    vec![
        case("relocatable/copies-grouped", "two copies of a group with frames in it", true)
            .facts([refers_to(expected(abi, &live)), one_relocation_each()]),
        case("relocatable/copies-monolithic", "two copies of a group, described from outside", false)
            .facts([refers_to(expected(abi, &live)).by(dead), one_relocation_each().by(dead)]),
        case(
            "relocatable/copies-monolithic-then-final",
            "two copies, described from outside; then a final link",
            false,
        )
        .step("out.o", "out")
        .facts(right(machine, &live).into_iter().map(|fact| fact.by(dead))),
    ]
}

/// `-r` of the output of `-r`.
fn twice(machine: Machine) -> Case {
    both(machine, "relocatable/twice", "-r of the output of -r", |frames| frames)
        .step("-r out.o", "again.o")
        .facts([refers_to(expected(abi(machine), ALL)), one_relocation_each()])
}
