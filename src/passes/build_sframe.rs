//! Chooses the functions of the SFrame section that the linker makes, which settles its size.
//!
//! Comes when liveness is frozen and the PLTs, which get rows too, have their sizes.

use crate::arch::Target;
use crate::phase::Numbered;
use crate::sframe::collect::Chosen;
use crate::sframe::index;

/// Chooses them.
pub fn run<T: Target>(link: &Numbered<'_, T>) -> Chosen {
    index::choose(link)
}
