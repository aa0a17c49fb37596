//! The C interface of `stacks`, which `include/sframe-stacks.h` declares and describes: a tracker of
//! processes and their files, which makes stacks of samples.
//!
//! | module | contents |
//! |---|---|
//! | `values` | pointers and sized structures of C as values |
//! | [`tracker`] | trackers; processes and what they map |
//! | [`samples`] | frames of samples |
//! | [`names`] | names of frames; files |
//! | [`live`] | recordings of programs that run |
//! | [`machines`] | registers by machine |
//!
//! A tracker is borrowed between callbacks, never during one, so a callback may use it.
#![warn(missing_docs)]

pub mod live;
pub mod machines;
pub mod names;
pub mod samples;
pub mod tracker;
mod values;
