//! Code that linkers make themselves: PLTs and thunks. A linker need not describe it, but what it says must
//! be true.

use super::super::blob::{abi, entry_offset, rules};
use super::super::case::{Case, Fact, Outcome, Source};
use super::super::linked::{Linked, described, expected, links, look, nothing_else, sound};
use super::super::program::{File, Frames};
use super::common::link;
use crate::machine::Machine;

const ENTRY: Source = Source::Psabi(
    "processor supplements, Function Calling Sequence: where a called function finds its return address",
);

/// Where the first call of `_start` leads: to the function, or to what the linker put before it.
fn call_target(linked: &Linked<'_>) -> Result<u64, String> {
    let start = linked.address("_start").ok_or("_start is not in the output")?;
    let at = start + 12;
    let (_, section) = linked.view.section_at(at).ok_or("_start is in no section")?;
    let from = (at - section.address) as usize;
    let bytes = section.data.get(from..from + 6).ok_or("_start is cut")?;
    let word = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).unwrap_or_default();
    let distance = match linked.view.machine {
        object::elf::EM_X86_64 => i64::from(i32::from_le_bytes(word(&bytes[1..5]))) + 5,
        object::elf::EM_AARCH64 => i64::from((u32::from_le_bytes(word(&bytes[..4])) << 6) as i32 >> 6) * 4,
        _ => i64::from(i32::from_be_bytes(word(&bytes[2..6]))) * 2,
    };
    Ok(at.wrapping_add_signed(distance))
}

/// Whether rows at the call's target say what holds there.
fn target_rows(machine: Machine, linked: &Linked<'_>) -> Result<bool, String> {
    let target = call_target(linked)?;
    let abi = abi(machine);
    let wanted = rules(abi, abi.stack_pointer(), entry_offset(abi), false);
    let found = linked.rules(target)?;
    match found.iter().find(|(rules, _)| *rules != wanted) {
        Some((rules, _)) => Err(format!("at {target:#x}, where the call leads: {rules}, not {wanted}")),
        None => Ok(!found.is_empty()),
    }
}

fn rows_are_true(machine: Machine) -> Fact {
    let says = "where a call leads, rows say that nothing was pushed yet";
    look("plt-rows-true", says, ENTRY, move |linked, _| target_rows(machine, linked).map(|_| ()))
}

/// Rows are there.
pub(super) fn rows_are_there(machine: Machine, source: Source) -> Fact {
    look("plt-rows-there", "the linker describes the code that it makes", source, move |linked, _| {
        if target_rows(machine, linked)? { Ok(()) } else { Err("no rows where the call leads".into()) }
    })
}

fn library(machine: Machine) -> Vec<u8> {
    File::new(machine).function("other").frames(Frames::of(&["other"])).write()
}

fn caller(machine: Machine) -> File {
    File::new(machine).function("_start").call("_start", "other")
}

/// A program that calls a function of a library, linked with more options.
pub(super) fn with_library(machine: Machine, family: &str, about: &str, options: &str) -> Case {
    link(machine, family, about)
        .needs("-shared")
        .file("lib.o", library(machine))
        .file("a.o", caller(machine).frames(Frames::of(&["_start"])).write())
        .step("-shared lib.o", "lib.so")
        .step(&format!("{options} a.o lib.so"), "out")
}

pub fn cases(machine: Machine) -> Vec<Case> {
    let mut cases = vec![
        with_library(machine, "plt/rows", "a call into a shared library", "").facts(facts(machine)),
        with_library(machine, "plt/now", "-z now: no lazy binding", "-z now").facts(facts(machine)),
        with_library(machine, "plt/pie", "from a position-independent program", "-pie").facts(facts(machine)),
        with_library(machine, "plt/gc-keeps-rows", "linked without and with --gc-sections", "")
            .needs("--gc-sections")
            .step("--gc-sections a.o lib.so", "collected")
            .facts([same_with_gc(machine)]),
    ];
    if machine == Machine::X86_64 {
        cases.push(
            with_library(machine, "plt/ibt", "-z ibtplt: two tables", "-z ibtplt")
                .needs("-z ibtplt")
                .facts(facts(machine)),
        );
        let got = caller(machine).got_load("_start", "other").frames(Frames::of(&["_start"]));
        cases.push(
            link(machine, "plt/got", "a function that is called, and whose address is taken by the GOT")
                .needs("-shared")
                .file("lib.o", library(machine))
                .file("a.o", got.write())
                .step("-shared lib.o", "lib.so")
                .step("a.o lib.so", "out")
                .facts(facts(machine)),
        );
    }
    if machine == Machine::Aarch64 {
        cases.extend(thunks(machine));
    }
    cases
}

fn facts(machine: Machine) -> Vec<Fact> {
    vec![
        links(),
        described(expected(abi(machine), &["_start"])),
        nothing_else(&["_start"]),
        rows_are_true(machine),
        sound(),
    ]
}

/// What is described without garbage collection is described with it.
fn same_with_gc(machine: Machine) -> Fact {
    let source = Source::Gnu("ld's manual, --gc-sections: it drops unused input sections, and nothing else");
    let says = "a PLT that has rows has them under --gc-sections, too";
    Fact::new("gc-keeps-plt-rows", says, source, move |outcome: &Outcome| {
        let has = |step| Ok::<_, String>(target_rows(machine, &Linked::parse(outcome.output(step)?)?));
        match (has(1)?, has(2)?) {
            (Ok(true), Ok(false)) => Err("they are gone".into()),
            _ => Ok(()),
        }
    })
}

/// Calls that do not reach.
fn thunks(machine: Machine) -> Vec<Case> {
    let script = "SECTIONS { . = 0x400000; .text : { *(.text._start) *(.text.first) } .sframe : { *(.sframe) } \
                  . = 0x20000000; .text.far : { *(.text.far) } }";
    let names = ["_start", "first", "far"];
    let file = names.iter().fold(File::new(machine), |file, name| file.function(name));
    let file = file.call("_start", "far").frames(Frames::of(&names));
    let gc = Source::Proposal("SFrame rule 2: frames of text that lives are kept");
    let case = |family: &str, about: &str, options: &str, names: &[&str]| {
        let described = described(expected(abi(machine), names));
        let described = if options.is_empty() { described } else { described.by(gc) };
        link(machine, family, about)
            .needs("-T x.ld")
            .file("x.ld", script)
            .file("a.o", file.write())
            .step(&format!("{options} -T x.ld a.o"), "out")
            .facts([links(), described, nothing_else(names), rows_are_true(machine), sound()])
    };
    let collected = "a call over 500 MiB, with --gc-sections";
    vec![
        case("thunks/far-call", "a call over 500 MiB", "", &names),
        case("thunks/far-call-gc", collected, "--gc-sections -e _start", &["_start", "far"])
            .needs("--gc-sections"),
    ]
}
