//! Looks at the SFrame inputs that are kept: what is corrupt or of a version that nobody knows.
//!
//! Comes when liveness and dead symbols are known, before anything is written, so that everything
//! there is to say is said even if the link fails later.

use crate::arch::Target;
use crate::link::{Link, state};
use crate::sframe;
use rayon::prelude::*;

/// Reports findings; changes nothing.
pub fn run<T: Target>(link: &Link<'_, T>) {
    link.objects.par_iter().for_each(|object| {
        for index in 1..object.headers.len() {
            let id = object.section_id(index as u32);
            let absorbed = link.sections.is(id, state::ABSORBED);
            if sframe::is_input(object, index) && link.sections.is_alive(id) && !absorbed {
                sframe::concat::check_section(link, object, index);
            }
        }
    });
}
