//! Decides which `.eh_frame` records are in the output, and gives them offsets. With `--unwind-table`, it
//! also decides which of them a table stands for ([`crate::frames::unwind_table`]).
//!
//! The pass runs once liveness is frozen, and before relocations are scanned, so that only relocations of
//! kept records count.

use crate::arch::Target;
use crate::cli::UnwindTableMode;
use crate::frames::{KeptFrames, eh_merge, unwind_table};
use crate::phase::{Bound, Folds, Live, SectionStates, TaggedGlobals};
use crate::tables::section::Kind;

/// Gives the kept records their offsets in the output's `.eh_frame`.
pub fn run<'a, T: Target>(bound: Bound<'a, T>, sections: SectionStates, folds: Folds) -> Live<'a, T> {
    let tagged = TaggedGlobals::default();
    if !makes_eh_frame(&bound, &sections) {
        let kept_frames = KeptFrames::default();
        return Live { bound, sections, folds, kept_frames, unwind_table: None, tagged };
    }
    let mode = bound.config.unwind.table.filter(|_| is_made(&bound, &sections, Kind::UnwindTable));
    let unwind_table = mode.and_then(|mode| {
        unwind_table::choose(&bound, &sections, &bound.frames, mode == UnwindTableMode::Replace)
    });
    let kept_frames = eh_merge::assign_offsets(&bound, &sections, &bound.frames, unwind_table.as_ref());
    Live { bound, sections, folds, kept_frames, unwind_table, tagged }
}

/// Whether the linker makes an `.eh_frame` from the records. A script that discards that section discards all
/// records.
fn makes_eh_frame<T: Target>(link: &Bound<'_, T>, sections: &SectionStates) -> bool {
    !link.config.is_relocatable() && is_made(link, sections, Kind::EhFrame)
}

fn is_made<T: Target>(link: &Bound<'_, T>, sections: &SectionStates, kind: Kind) -> bool {
    link.synthetic.find(kind).is_some_and(|row| sections.is_alive(link.synthetic_id(row)))
}
