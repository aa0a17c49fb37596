//! The phase that knows which sections and `.eh_frame` records are in the output.
//!
//! `collect_garbage` marks live sections, and `fold_sections` folds equal sections into a leader. Then
//! `keep_eh_frames` keeps the records of live functions that are not folded. No later pass changes liveness.

use super::{Bound, Folds, SectionStates, TaggedGlobals, builds_on};
use crate::arch::Target;
use crate::frames::{KeptFrames, UnwindTable};

/// Which sections and records are in the output.
pub struct Live<'a, T: Target> {
    /// The phase before: imports and exports.
    pub bound: Bound<'a, T>,
    /// The state of each section.
    pub sections: SectionStates,
    /// The folded sections and their leaders.
    pub folds: Folds,
    /// The `.eh_frame` records in the output, and their offsets there.
    pub kept_frames: KeptFrames,
    /// What becomes a table of version 2 (`--unwind-table`).
    pub unwind_table: Option<UnwindTable>,
    /// The variables whose memory the dynamic linker tags. `find_tagged_globals` fills it in.
    pub tagged: TaggedGlobals,
}

builds_on!(['a, T: Target] Live<'a, T>, bound: Bound<'a, T>);
