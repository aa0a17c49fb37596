//! The command `sframe`, and by the names of linkers the wrapper around them: arguments in, exit status out.
//! All the work is the library's.

use sframe_ld::input::lost;
use sframe_ld::output::interrupt::remove_temporaries;
use std::process::ExitCode;

/// Tables of large files take many small allocations; `sframe-ld` says why GNU libc's heaps do not suit threads.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lost::end_with_message("sframe", remove_temporaries);
    match sframe_ld::tool::wrap::invoked_as(std::env::args_os()) {
        Some(arguments) => sframe_ld::tool::wrap::run(&arguments),
        None => sframe_ld::tool::run(std::env::args_os()),
    }
}
