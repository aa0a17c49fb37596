//! The cases for readers: programs that print `.sframe`.
//!
//! A reader gets a finished file with code and one `.sframe`, written by this program, so that every address
//! is known. `dump` reads what it prints.

mod common;
mod dump;
mod files;
mod headers;
mod rows;
mod walks;

use super::case::Case;
use crate::machine::Machine;
use files::Place;
use sframe_format::Abi;

/// Every case for readers.
pub fn cases() -> Vec<Case> {
    let targets = Machine::ALL.map(|machine| Place { machine, abi: super::blob::abi(machine) });
    let big = Place { machine: Machine::Aarch64, abi: Abi::AArch64Big };
    let places: Vec<Place> = targets.into_iter().chain([big]).collect();
    let topics = [rows::cases, headers::cases, walks::cases];
    topics.iter().flat_map(|topic| places.iter().flat_map(|place| topic(*place))).collect()
}
