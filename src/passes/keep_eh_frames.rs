//! Decides which `.eh_frame` records are in the output, and gives them offsets.
//!
//! The pass runs once liveness is frozen, and before relocations are scanned, so that only relocations of
//! kept records count.

use crate::arch::Target;
use crate::frames::{KeptFrames, eh_merge};
use crate::phase::{Bound, Folds, Live, SectionStates};
use crate::tables::section::Kind;

/// Gives the kept records their offsets in the output's `.eh_frame`.
pub fn run<'a, T: Target>(bound: Bound<'a, T>, sections: SectionStates, folds: Folds) -> Live<'a, T> {
    let kept_frames = if makes_eh_frame(&bound, &sections) {
        eh_merge::assign_offsets(&bound, &sections, &bound.frames)
    } else {
        KeptFrames::default()
    };
    Live { bound, sections, folds, kept_frames }
}

/// Whether the linker makes an `.eh_frame` from the records. A script that discards that section discards all
/// records.
fn makes_eh_frame<T: Target>(link: &Bound<'_, T>, sections: &SectionStates) -> bool {
    let row = link.synthetic.find(Kind::EhFrame);
    !link.config.is_relocatable() && row.is_some_and(|row| sections.is_alive(link.synthetic_id(row)))
}
