//! The command `sframe`; called by the name of a linker, the wrapper around that linker. It passes its
//! arguments to the library and returns the exit status.

use commands::{self, Heap};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Heap = Heap;

fn main() -> ExitCode {
    commands::handle_signals("sframe", sframe::UNUSABLE);
    match sframe::wrap::invoked_as(std::env::args_os()) {
        Some(arguments) => sframe::wrap::run(&arguments),
        None => sframe::run(std::env::args_os()),
    }
}
