//! The command `sframe`, and by the names of linkers the wrapper around them: arguments in, exit status out.
//! All the work is the library's.

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
