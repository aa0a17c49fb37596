//! The command `sframe`: looks at, checks and looks up SFrame sections in finished files.
//!
//! Every subcommand is a module with a function `run` that prints its result and returns a
//! `report::Outcome`. Files come in through `open`, which gives sections of relocatable objects
//! addresses, so that no subcommand needs to know whether a file was linked.

mod addends;
pub mod args;
pub mod assembler;
mod attach;
mod compact;
mod derive;
mod derived;
pub mod destination;
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
mod rules;
pub mod split;
mod stack_output;
mod stacks;
mod stat;
mod unwind;
pub mod verify;
pub mod wrap;

pub use args::Arguments;
pub use open::{Input, Kind, Problem, SFrameSection, for_each_input};
pub use places::Places;

use args::Command;
use report::Outcome;
use std::ffi::OsString;
use std::process::ExitCode;

/// The exit status when an input cannot be used or an output not be written.
pub const UNUSABLE: i32 = Outcome::Unusable as i32;

/// Carries a command line out, whose first word is the command's name. Results, help and the version go to
/// standard output, complaints to standard error. Exit status 0 is fine, 1 means findings, 2 wrong words, an
/// input that could not be used or an output that could not be written.
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
        Command::Stacks(arguments) => stacks::run(arguments),
        Command::Record(arguments) => return record::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
    };
    outcome.exit_code()
}
