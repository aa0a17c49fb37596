//! What every integration test is based on: a scratch directory with compilers and the linker under test
//! ([`Work`]), a parsed view of the output ([`Elf`]), tools of other projects that may be missing
//! ([`tools`]), and a small reader of SFrame bytes that shares no code with the product ([`sframe`]).
//!
//! The linker under test is the one that cargo built. With `SFRAME_TEST_LD=/path/ld`, the same tests run with
//! another one; in this way the tests themselves are tested.

pub mod built;
pub mod command;
pub mod eh_frame;
#[macro_use]
pub mod machine;
#[allow(dead_code)] // A vocabulary; not every word is in use.
pub mod elf;
pub mod elf_write;
pub mod kernel_reader;
pub mod sframe;
pub mod tools;
pub mod unwind_runtime;
pub mod work;

pub use elf::Elf;
pub use machine::Machine;
pub use work::{Outcome, Work};

/// The value of an optional tool. If it is missing, the calling test is skipped, by name, and counted.
#[macro_export]
macro_rules! need {
    ($tool:expr) => {
        match $tool {
            Ok(tool) => tool,
            Err(reason) => {
                $crate::support::tools::skip(std::any::type_name_of_val(&|| ()), &reason);
                return;
            }
        }
    };
}
