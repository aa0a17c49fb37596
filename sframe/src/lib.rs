//! The command `sframe`: prints, checks and searches SFrame sections of finished files, and changes them.
//!
//! Every subcommand is a module with a function `run`. It prints the result and returns a `report::Outcome`.
//! The module `open` reads input files. It also gives addresses to the sections of relocatable objects, so
//! that no subcommand needs to know whether a file was linked.

mod addends;
pub mod args;
pub mod assembler;
mod attach;
mod compact;
mod derive;
mod derived;
pub mod destination;
mod diff;
mod dump;
mod edit;
pub mod exercise;
#[cfg(test)]
mod fixtures;
mod functions;
mod generate;
mod index;
mod inputs;
mod lookup;
mod open;
mod places;
mod ranges;
mod readelf_text;
mod record;
mod registers;
mod report;
mod rewritten;
mod rotate;
mod rotation;
mod rules;
mod samples;
mod sampling;
mod segments;
pub mod split;
mod stack_output;
mod stacks;
mod stat;
mod table_section;
mod top;
mod unwind;
mod unwind_table;
pub mod verify;
mod whole;
pub mod wrap;

pub use args::Arguments;
pub use open::{Input, Kind, Problem, SFrameSection, for_each_input};
pub use places::Places;

use args::Command;
use report::Outcome;
use std::ffi::OsString;
use std::process::ExitCode;

/// The exit status if an input cannot be used or an output cannot be written.
pub const UNUSABLE: i32 = Outcome::Unusable as i32;

/// Runs a command line; its first word is the command's name. Results, help and the version go to standard
/// output, complaints to standard error. Exit status 0 means that all is well and 1 that there are findings.
/// 2 means that the command line was wrong, an input could not be used, or an output could not be written.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    match commands::parse::<Arguments>(words) {
        Ok(arguments) => carry_out(&arguments),
        Err(answer) if answer.use_stderr() => answer.exit(),
        Err(help) => Outcome::of(report::write(|_| help.print())).exit_code(),
    }
}

fn carry_out(arguments: &Arguments) -> ExitCode {
    let outcome = match &arguments.command {
        Command::Dump(arguments) => dump::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Split(arguments) => split::run(arguments),
        Command::Derive(arguments) => derive::run(arguments),
        Command::Index(arguments) => index::run(arguments),
        Command::Table(arguments) => compact::run(arguments),
        Command::Attach(arguments) => attach::run(arguments),
        Command::WrapLd(arguments) => return wrap::run(arguments),
        Command::Stat(arguments) => stat::run(arguments),
        Command::Lookup(arguments) => lookup::run(arguments),
        Command::Unwind(arguments) => unwind::run(arguments),
        Command::UnwindTable(arguments) => unwind_table::run(arguments),
        Command::Stacks(arguments) => stacks::run(arguments),
        Command::Top(arguments) => return top::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Record(arguments) => return record::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
    };
    outcome.exit_code()
}
