//! The assembler wrapper: passes its arguments to the library and returns the exit status.

use commands::{self, Heap};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Heap = Heap;

fn main() -> ExitCode {
    commands::handle_signals("sframe-as", 1);
    sframe::assembler::run(std::env::args_os().skip(1).collect())
}
