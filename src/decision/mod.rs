//! What a relocation needs and stores: a function of its type, its site and facts about its symbol.
//!
//! The scan asks which entries and dynamic relocations must exist, and [`crate::relocs`] asks again when it
//! writes. One pure function answers both, so they cannot disagree.

pub mod decide;
pub mod site;
