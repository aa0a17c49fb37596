//! The assembler wrapper: arguments in, exit status out. All the work is the library's.

use commands::{self, Heap};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Heap = Heap;

fn main() -> ExitCode {
    commands::handle_signals("sframe-as", 1);
    sframe::assembler::run(std::env::args_os().skip(1).collect())
}
