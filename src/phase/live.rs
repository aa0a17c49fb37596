//! What is in the output.
//!
//! Made by `collect_garbage` and `keep_eh_frames`.

use super::{Bound, builds_on};
use crate::arch::Target;
use crate::frames::KeptFrames;

/// Which sections and records are in the output.
pub struct Live<'a, T: Target> {
    /// What is imported and exported.
    pub bound: Bound<'a, T>,
    /// Which `.eh_frame` records are in the output, and where.
    pub kept_frames: KeptFrames,
}

builds_on!(['a, T: Target] Live<'a, T>, bound: Bound<'a, T>);
