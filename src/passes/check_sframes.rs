//! Looks at the SFrame inputs that are kept: what is corrupt or of a version that nobody knows.
//!
//! Comes when liveness and dead symbols are known, before anything is written, so that everything
//! there is to say is said even if the link fails later.

use crate::arch::Target;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::phase::{Scanned, state};
use crate::sframe;
use rayon::prelude::*;

/// Reports findings. Gives the inputs that are corrupt: nothing in them is mended.
pub fn run<T: Target>(link: &Scanned<'_, T>) -> Vec<SectionId> {
    let corrupt = |object: &ObjectFile<'_, T::E>| -> Vec<SectionId> {
        let kept = object.sframes.iter().copied().filter(|&index| {
            let id = object.section_id(index);
            link.sections.is_alive(id) && !link.sections.is(id, state::ABSORBED)
        });
        kept.filter(|&index| sframe::concat::check_section(link, object, index as usize))
            .map(|index| object.section_id(index))
            .collect()
    };
    link.objects.par_iter().flat_map_iter(corrupt).collect()
}
