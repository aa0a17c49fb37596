//! Call frame information: the records of `.eh_frame` inputs, the functions they describe, and their place in
//! the output.
//!
//! A call frame description belongs in the output if and only if its function does. An `.eh_frame` section
//! describes many functions, so the linker splits it into records, ties each record to the section of its
//! function, and writes the live ones ([`crate::synth::eh_frame`]).

pub mod codes;
pub mod eh_frame;
pub mod eh_merge;
pub(crate) mod reader;
pub mod terminators;
mod unwind_check;
pub mod unwind_table;

pub use eh_frame::{Cie, Fde, FileFrames, FrameSection, Frames};
pub use eh_merge::{KeptFile, KeptFrames, KeptRecord};
pub use unwind_table::UnwindTable;

#[cfg(test)]
mod tests;
