//! The SFrame data of the output: one table (an index or a merged blob), or the inputs' sections as they are.
//!
//! [`crate::sframe`] collects the functions that inputs describe, before anything has an address. The modules
//! here build on that. [`table`] orders and writes the collection, and [`compact`] writes it in a form of our
//! own. [`mod@concat`] fixes sections up in place, and [`overlay`] puts an index before them. [`plt`] and
//! [`thunks`] add the linker's own code, and [`report`] counts it all.

pub mod absorb;
pub mod compact;
pub mod concat;
pub mod derived;
pub mod discard;
pub mod overlay;
pub mod plt;
#[cfg(test)]
mod plt_tests;
pub mod report;
pub mod table;
pub mod thunks;

use crate::arch::Target;
use crate::phase::Geometry;
use crate::sframe::collect::{Chosen, Table};
use crate::tables::pools::Thunks;
use crate::tables::section::Kind;

/// The sizes in bytes that the linker's table and an overlay need at these addresses. Each new thunk gets its
/// function in the table first.
pub fn needed_sizes<T: Target>(
    link: &Geometry<'_, T>,
    thunks: &Thunks,
    chosen: &mut Chosen,
) -> impl Iterator<Item = (Kind, u64)> + use<T> {
    let added = thunks::describe(link, thunks, chosen);
    let table = match &chosen.compact {
        Some(_) => compact::needed_size(link, chosen),
        None => chosen.table.as_ref().filter(|_| added > 0).map(Table::size),
    };
    let overlay = overlay::size_with(link, added);
    let table = table.map(|size| (Kind::SFrame, size));
    table.into_iter().chain(overlay.map(|size| (Kind::SFrameOverlay, size)))
}
