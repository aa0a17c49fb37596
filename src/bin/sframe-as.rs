//! The assembler wrapper: arguments in, exit status out. All the work is the library's.

use std::process::ExitCode;

fn main() -> ExitCode {
    sframe_ld::tool::assembler::run(std::env::args_os().skip(1).collect())
}
