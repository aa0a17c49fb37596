//! Section groups and link order: which frames belong to the copy of a function that is kept.

use super::super::blob::{Edition, abi};
use super::super::case::{Case, Fact, Source};
use super::super::linked::{described, expected, links, look, nothing_else, refused_or, sound};
use super::super::program::{File, Frames};
use super::common::{link, of_edition, right};
use crate::machine::Machine;
use sframe_format::Section;

const UNIT: Source = Source::Gabi("ch. 4, Section Groups: members are kept or left out as a unit");
const OUTSIDE: Source =
    Source::Gabi("ch. 4, Section Groups: sections outside refer to members by global symbols only");

/// How the frames of a function of a group are attached to it.
#[derive(Clone, Copy)]
enum Form {
    /// One section for all functions of the object.
    Monolithic,
    /// A section for each, in no group.
    Apart,
    /// In the group.
    Grouped,
    /// Linked to the text, in no group.
    Linked,
    /// In the group and linked.
    Both,
}

impl Form {
    const ALL: [(Form, &'static str, &'static str); 5] = [
        (
            Form::Monolithic,
            "monolithic",
            "one .sframe for the group's function and others, outside the group",
        ),
        (Form::Apart, "apart", "a .sframe for each function, outside the group"),
        (Form::Grouped, "grouped", "a .sframe for each function, in its group"),
        (Form::Linked, "linked", "a .sframe for each function, linked to its text, outside its group"),
        (Form::Both, "grouped-linked", "a .sframe for each function, in its group and linked to its text"),
    ];

    /// Whether the form refers into a group from outside.
    fn violates(self) -> bool {
        matches!(self, Form::Monolithic | Form::Apart | Form::Linked)
    }

    fn attach(self, file: File, names: &[&str], edition: Edition) -> File {
        let one = |file: File, name: &str, with: fn(Frames) -> Frames| {
            file.frames(with(Frames::of(&[name]).edition(edition)))
        };
        let with: fn(Frames) -> Frames = match self {
            Form::Monolithic => return file.frames(Frames::of(names).edition(edition)),
            Form::Apart => |frames| frames,
            Form::Grouped => Frames::grouped,
            Form::Linked => Frames::linked,
            Form::Both => |frames| frames.grouped().linked(),
        };
        names.iter().fold(file, |file, name| one(file, name, with))
    }
}

/// `a.o`: `_start` and a copy of `shared`. `b.o`: `other` and the copy that loses.
fn pair(machine: Machine, form: Form, editions: [Edition; 2]) -> [Vec<u8>; 2] {
    let a = File::new(machine)
        .function("_start")
        .comdat("shared")
        .call("_start", "shared")
        .call("_start", "other");
    let b = File::new(machine).function("other").comdat("shared").call("other", "shared");
    let a = form.attach(a, &["_start", "shared"], editions[0]);
    let b = form.attach(b, &["other", "shared"], editions[1]);
    [a.write(), b.write()]
}

const LIVE: &[&str] = &["_start", "shared", "other"];

pub fn cases(machine: Machine) -> Vec<Case> {
    let mut cases = Vec::new();
    for (form, name, about) in Form::ALL {
        cases.push(copies(machine, form, name, about, Edition::V3));
    }
    for (form, name, about) in [Form::ALL[2], Form::ALL[4]] {
        cases.push(copies(machine, form, name, about, Edition::V2));
    }
    cases.extend(details(machine));
    cases.push(order(machine));
    cases.push(reordered_groups(machine));
    cases
}

/// Two copies of a function, both with frames.
fn copies(machine: Machine, form: Form, name: &str, about: &str, edition: Edition) -> Case {
    let suffix = if edition == Edition::V3 { String::new() } else { format!("-{}", edition.name()) };
    let [a, b] = pair(machine, form, [edition, edition]);
    let case = link(machine, &format!("groups/{name}{suffix}"), about)
        .file("a.o", a)
        .file("b.o", b)
        .step("a.o b.o", "out");
    if form.violates() {
        return case.facts([refused_or(OUTSIDE, right(machine, LIVE))]);
    }
    let facts = right(machine, LIVE).into_iter().map(|fact| fact.by(UNIT)).collect();
    case.facts(of_edition(edition, facts))
}

fn details(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let [a, b] = pair(machine, Form::Both, [Edition::V2, Edition::V3]);
    let versions =
        link(machine, "groups/copies-of-two-versions", "the kept copy's frames are V2, the other's V3")
            .file("a.o", a)
            .file("b.o", b)
            .step("a.o b.o", "out")
            .facts(of_edition(Edition::V2, right(machine, LIVE)));
    let bare = File::new(machine).function("_start").comdat("shared").call("_start", "shared");
    let bare = bare.frames(Frames::of(&["_start"]));
    let [_, b] = pair(machine, Form::Both, [Edition::V3; 2]);
    let without = link(machine, "groups/kept-copy-without-frames", "only the copy that loses has frames")
        .file("a.o", bare.write())
        .file("b.o", b)
        .step("a.o b.o", "out")
        .facts([
            links().by(UNIT),
            described(expected(abi, &["_start", "other"])).by(UNIT),
            nothing_else(&["_start", "other", "shared"]),
            sound(),
        ]);
    let [a, b] = pair(machine, Form::Monolithic, [Edition::V3; 2]);
    let inhibit = link(
        machine,
        "groups/violation-not-inhibited",
        "--noinhibit-exec: the output of a link with a reference into a discarded group",
    )
    .needs("--noinhibit-exec")
    .file("a.o", a)
    .file("b.o", b)
    .step("--noinhibit-exec a.o b.o", "out")
    .facts([
        nothing_else(LIVE).by(Source::Proposal("SFrame rule 3: a dead row stands for no address")),
        described(expected(abi, LIVE)).by(Source::Proposal("SFrame rule 3")),
    ]);
    vec![versions, without, inhibit]
}

/// The addresses of live functions in the order of blobs and entries.
fn addresses(linked: &super::super::linked::Linked<'_>) -> Vec<u64> {
    let sections = linked.sections().map(|section| Section::new(section.data, section.address));
    let blobs = sections.flat_map(|section| section.blobs().collect::<Vec<_>>());
    blobs
        .flat_map(|blob| blob.fdes().filter(|fde| fde.size > 0).map(|fde| fde.address).collect::<Vec<_>>())
        .collect()
}

fn follow_text() -> Fact {
    let source = Source::Gabi("ch. 4, SHF_LINK_ORDER: the order is that of the linked sections");
    look("follows-text", "frames in link order stand in the order of their text", source, |linked, _| {
        let found = addresses(linked);
        if found.is_sorted() && !found.is_empty() { Ok(()) } else { Err(format!("the order is {found:x?}")) }
    })
}

/// Frames whose order in the file is not that of their text.
fn order(machine: Machine) -> Case {
    let names = ["_start", "first", "second", "third"];
    let file = names.iter().fold(File::new(machine), |file, name| file.function(name));
    let file = ["third", "first", "second", "_start"]
        .iter()
        .fold(file, |file, name| file.frames(Frames::of(&[name]).linked()));
    link(machine, "groups/link-order", "linked sections that stand in another order than their text")
        .file("a.o", file.write())
        .step("a.o", "out")
        .facts(right(machine, &names))
        .facts([follow_text()])
}

/// Link order over several objects whose text the command line turns around.
fn reordered_groups(machine: Machine) -> Case {
    let object = |names: [&str; 2]| {
        let file = names.iter().fold(File::new(machine), |file, name| file.comdat(name));
        names.iter().rev().fold(file, |file, name| file.frames(Frames::of(&[name]).grouped().linked()))
    };
    let names = ["_start", "first", "second", "third"];
    link(machine, "groups/link-order-of-groups", "linked members of groups, in two objects")
        .file("a.o", object(["_start", "first"]).write())
        .file("b.o", object(["second", "third"]).write())
        .step("b.o a.o", "out")
        .facts(right(machine, &names))
        .facts([follow_text()])
}
