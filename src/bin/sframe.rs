//! The command `sframe`, and by the names of linkers the wrapper around them: arguments in, exit status out.
//! All the work is the library's.

use sframe_ld::command::{self, Heap};
use sframe_ld::tool;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Heap = Heap;

fn main() -> ExitCode {
    command::handle_signals("sframe", tool::UNUSABLE);
    match tool::wrap::invoked_as(std::env::args_os()) {
        Some(arguments) => tool::wrap::run(&arguments),
        None => tool::run(std::env::args_os()),
    }
}
