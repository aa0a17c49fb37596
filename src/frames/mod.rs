//! Call frame information: the records of `.eh_frame` inputs, their functions, and their place in
//! the output.
//!
//! A call frame description belongs to the function it describes: it is in the output if the
//! function is. So `.eh_frame` sections are taken apart into records, each tied to the section of
//! its function, and put together again in the output ([`crate::synth::eh_frame`]).

pub mod eh_frame;
pub mod eh_merge;
pub(crate) mod reader;
pub mod terminators;

pub use eh_frame::{Cie, Fde, FileFrames, FrameSection, Frames};
pub use eh_merge::{KeptFile, KeptFrames, KeptRecord};

#[cfg(test)]
mod tests;
