//! Reports kept SFrame inputs that are corrupt or of an unknown version.
//!
//! The pass runs when liveness and dead symbols are known, but early, so that the reports appear even if the
//! link fails later.

use crate::arch::Target;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::phase::{Scanned, SectionState};
use crate::sframe_output;
use parallel::ParallelSlice;

/// Reports findings. Returns the corrupt inputs, which `sframe_output::concat` must not fix up.
pub fn run<T: Target>(link: &Scanned<'_, T>) -> Vec<SectionId> {
    let corrupt = |object: &ObjectFile<'_, T::E>| -> Vec<SectionId> {
        let kept = object.sframes.iter().copied().filter(|&index| {
            let id = object.section_id(index);
            link.sections.is_alive(id) && !link.sections.is(id, SectionState::ABSORBED)
        });
        kept.filter(|&index| sframe_output::concat::check_section(link, object, index as usize))
            .map(|index| object.section_id(index))
            .collect()
    };
    sframe_output::overlay::report_others(link);
    link.objects.par_iter().flat_map_iter(corrupt).collect()
}
