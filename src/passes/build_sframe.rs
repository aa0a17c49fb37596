//! Chooses the functions of the linker's own SFrame section, which determines its size.
//!
//! Comes once liveness is frozen and the PLTs, which get rows too, have their sizes.

use crate::arch::Target;
use crate::phase::Numbered;
use crate::sframe::collect::Chosen;
use crate::sframe::index;

/// Chooses the functions; none if the linker makes no SFrame section.
pub fn run<T: Target>(link: &Numbered<'_, T>) -> Chosen {
    index::choose(link)
}
