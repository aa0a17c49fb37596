//! The command line: arguments in, [`Config`] and an ordered list of [`InputSpec`]s out.
//!
//! One table describes every option (`spec`, `table`, and `z` for the words of `-z`). [`parse()`] walks the
//! arguments, `state` holds the options that were read so far, and `resolve` settles values that depend on
//! several options. The caller passes the environment and the file system in: nothing here reads a global.

mod config;
mod help;
mod identity;
mod inputs;
mod parse;
mod resolve;
pub mod response;
mod spec;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod values;
mod z;

pub use config::*;
pub use identity::{GNU_VERSION_NUMBER, VERSION};
pub use inputs::{InputFormat, InputSource, InputSpec, InputState};
pub use parse::{Environment, Invocation, WrittenOption, parse, written_option};
pub use spec::Reach;
pub use state::FileReader;
pub use values::{TARGETS, is_32_bit, is_32_bit_architecture};
