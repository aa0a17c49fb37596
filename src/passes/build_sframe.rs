//! Chooses the functions of the SFrame section that the linker makes, which settles its size.
//!
//! Comes when liveness is frozen and the PLTs, which get rows too, have their sizes.

use crate::arch::Target;
use crate::link::Link;
use crate::sframe::index;

/// Fills the table of [`Link::sframe`].
pub fn run<T: Target>(link: &mut Link<'_, T>) {
    index::build(link);
}
