//! Inputs and facts that cases of several topics share.

use super::super::blob::{Edition, abi};
use super::super::case::{Case, Fact, Kind, Source};
use super::super::program::{File, Frames};
use crate::machine::Machine;

/// A link for a machine.
pub(super) fn link(machine: Machine, family: &str, about: &str) -> Case {
    Case::new(Kind::Linker, machine, family, about)
}

/// The rule that versions before the present one pass through linkers, too.
pub(super) const MIXED: Source = Source::Proposal("linkers need not know a version to keep its frames");

/// The same facts, demanded by a proposal if the inputs are of an older version.
pub(super) fn of_edition(edition: Edition, facts: Vec<Fact>) -> Vec<Fact> {
    facts.into_iter().map(|fact| if edition == Edition::V3 { fact } else { fact.by(MIXED) }).collect()
}

/// The first object of most cases: `_start` calls `first`, and one `.sframe` describes both.
pub(super) fn a(machine: Machine, frames: impl Fn(Frames) -> Frames) -> Vec<u8> {
    File::new(machine)
        .function("_start")
        .function("first")
        .call("_start", "first")
        .frames(frames(Frames::of(&["_start", "first"])))
        .write()
}

/// The second object of most cases: `second` and `third` in one text section, and one `.sframe`.
pub(super) fn b(machine: Machine, frames: impl Fn(Frames) -> Frames) -> Vec<u8> {
    File::new(machine)
        .function_in(".text.b", "second")
        .function_in(".text.b", "third")
        .frames(frames(Frames::of(&["second", "third"])))
        .write()
}

/// All functions of both.
pub(super) const ALL: &[&str] = &["_start", "first", "second", "third"];

/// The facts of a sound final link of functions.
pub(super) fn right(machine: Machine, names: &[&str]) -> Vec<Fact> {
    super::super::linked::right(abi(machine), names)
}
