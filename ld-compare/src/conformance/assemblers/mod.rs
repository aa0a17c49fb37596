//! The cases for assemblers: call frame information of every kind, as `.cfi` directives.
//!
//! A text asks for frames itself, by `.cfi_sections`, so a command needs no option. Its code is only
//! instructions that do nothing, four bytes at a time: what the assembler makes of the directives is the
//! question.

mod container;
mod rules;
mod source;
mod special;

use super::case::Case;
use crate::machine::Machine;
use sframe_format::Abi;
use source::Place;

/// Every case for assemblers.
pub fn cases() -> Vec<Case> {
    let places = Machine::ALL.map(|machine| Place { machine, abi: super::blob::abi(machine) });
    let big = Place { machine: Machine::Aarch64, abi: Abi::AArch64Big };
    let topics = [container::cases, rules::cases, special::cases];
    topics.iter().flat_map(|topic| places.iter().chain([&big]).flat_map(|place| topic(*place))).collect()
}
