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
