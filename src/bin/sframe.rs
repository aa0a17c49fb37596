//! The command `sframe`: arguments in, exit status out. All the work is the library's.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    sframe_ld::tool::run(&sframe_ld::tool::Arguments::parse())
}
