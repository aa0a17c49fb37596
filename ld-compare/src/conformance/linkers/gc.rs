//! Garbage collection, and folding of equal functions.

use super::super::blob::{self, abi};
use super::super::case::{Case, Fact, Source};
use super::super::linked::{
    Expected, described, describes, expected, gone, links, look, nothing_else, silent, sound,
};
use super::super::program::{File, Frames};
use super::common::{link, right};
use crate::machine::Machine;
use sframe_format::Section;

const NO_ROOT: Source = Source::Proposal("SFrame rule 2: .sframe is no root and keeps no text alive");
const KEPT: Source = Source::Proposal("SFrame rule 2: frames of text that lives are kept");

pub fn cases(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let mut cases = Vec::new();
    let texts =
        || File::new(machine).function("_start").function("first").function("unused").call("_start", "first");
    let groups =
        || File::new(machine).function("_start").comdat("first").comdat("unused").call("_start", "first");
    let names = ["_start", "first", "unused"];
    let each = |file: File, with: fn(Frames) -> Frames| {
        names.iter().fold(file, |file, name| file.frames(with(Frames::of(&[name]))))
    };
    let forms = [
        ("monolithic", "one .sframe for live and dead text", texts().frames(Frames::of(&names))),
        (
            "apart",
            "a .sframe for each text section, bound to it by its relocation only",
            each(texts(), |f| f),
        ),
        ("linked", "a .sframe for each text section, linked to it", each(texts(), Frames::linked)),
        ("grouped", "a .sframe in each group", each(groups(), Frames::grouped)),
        (
            "grouped-linked",
            "a .sframe in each group, linked to its text",
            each(groups(), |f| f.grouped().linked()),
        ),
    ];
    for (name, about, file) in forms {
        let case = |subject: &str| {
            link(machine, &format!("gc/{name}-{subject}"), about)
                .needs("--gc-sections")
                .file("a.o", file.write())
                .step("--gc-sections a.o", "out")
        };
        cases.push(case("dead-text").facts([
            links(),
            gone("unused", NO_ROOT),
            nothing_else(&["_start", "first"]).by(NO_ROOT),
            sound(),
        ]));
        cases.push(case("live-frames").facts([described(expected(abi, &["_start", "first"])).by(KEPT)]));
    }
    cases.extend(others(machine));
    cases.extend(folding(machine));
    cases
}

fn others(machine: Machine) -> Vec<Case> {
    let names = ["_start", "first", "unused"];
    let texts =
        || File::new(machine).function("_start").function("first").function("unused").call("_start", "first");
    let mut cases = vec![
        link(machine, "gc/no-message", "frames of collected text are no reason for a message")
            .needs("--gc-sections")
            .file("a.o", texts().frames(Frames::of(&names)).write())
            .step("--gc-sections a.o", "out")
            .facts([silent(Source::Proposal("SFrame rule 2: frames of collected text cause no message"))]),
    ];
    // Dead functions of several objects, so that whole blobs die.
    let dead = |name: &str| File::new(machine).function(name).frames(Frames::of(&[name])).write();
    cases.push(
        link(machine, "gc/whole-objects", "two objects of which one has no live function")
            .needs("--gc-sections")
            .file("a.o", texts().frames(Frames::of(&names)).write())
            .file("b.o", dead("other"))
            .step("--gc-sections a.o b.o", "out")
            .facts([
                links(),
                gone("other", NO_ROOT),
                gone("unused", NO_ROOT),
                nothing_else(&["_start", "first"]),
            ]),
    );
    // A dead function whose frames refer to live text as well must not be kept by them.
    cases.push(
        link(machine, "gc/entry-by-option", "-e chooses the root; _start is dead")
            .needs("--gc-sections")
            .file("a.o", texts().frames(Frames::of(&names)).write())
            .step("--gc-sections -e unused a.o", "out")
            .facts([links(), gone("_start", NO_ROOT), nothing_else(&["unused"]), sound()]),
    );
    cases
}

/// `--icf=all`: two functions with one body.
fn folding(machine: Machine) -> Vec<Case> {
    let abi = abi(machine);
    let file = || {
        File::new(machine)
            .function("_start")
            .function("same")
            .function("twin")
            .call("_start", "same")
            .call("_start", "twin")
    };
    let names = ["_start", "same", "twin"];
    let icf = Source::Proposal("SFrame rule 7: one row for one address");
    let once = || {
        look("one-row", "no sorted blob has two functions at one address", icf, |linked, _| {
            for section in linked.sections() {
                for blob in Section::new(section.data, section.address).blobs() {
                    let mut live: Vec<u64> =
                        blob.fdes().filter(|fde| fde.size > 0).map(|fde| fde.address).collect();
                    let all = live.len();
                    live.sort_unstable();
                    live.dedup();
                    if blob.header().is_sorted() && live.len() < all {
                        return Err(format!("{} entries for {} addresses", all, live.len()));
                    }
                }
            }
            Ok(())
        })
    };
    let equal: Vec<_> = names.iter().map(|name| ((*name).to_owned(), blob::function(abi, name))).collect();
    let case = |family: &str, about: &str, file: File| {
        link(machine, family, about)
            .needs("--icf=all")
            .file("a.o", file.write())
            .step("--icf=all a.o", "out")
            .facts([links(), folded(equal.clone()), nothing_else(&names), once()])
    };
    let linked = names.iter().fold(file(), |file, name| file.frames(Frames::of(&[name]).linked()));
    let mut cases = vec![
        case("icf/monolithic", "two equal functions, one .sframe", file().frames(Frames::of(&names))),
        case("icf/linked", "two equal functions, each with a linked .sframe", linked),
    ];
    let plain = link(machine, "icf/off", "two equal functions that are not folded")
        .file("a.o", file().frames(Frames::of(&names)).write())
        .step("a.o", "out")
        .facts(right(machine, &names));
    cases.push(plain);
    cases
}

/// Of functions with one body, those whose names are in the output are described.
fn folded(functions: Vec<Expected>) -> Fact {
    let says = "code that stands for several functions is described, under every name that it still has";
    look("described", says, KEPT, move |linked, _| {
        let mut found = 0;
        for (name, function) in functions.iter().filter(|(name, _)| linked.address(name).is_some()) {
            describes(linked, name, function)?;
            found += 1;
        }
        if found < 2 { Err("neither of the equal functions is there".into()) } else { Ok(()) }
    })
}
