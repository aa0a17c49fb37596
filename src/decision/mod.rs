//! What a relocation needs and stores: a function of its type, its site and facts about its symbol.
//!
//! The scan asks to learn which entries and dynamic relocations must exist, [`crate::relocs`] asks
//! again when it writes. Since one pure function answers both, they cannot disagree.

pub mod decide;
pub mod site;
