//! The command line: arguments in, [`Config`] and an ordered list of [`InputSpec`]s out.

mod config;
mod inputs;

pub use config::*;
pub use inputs::{InputFormat, InputSource, InputSpec, InputState};
