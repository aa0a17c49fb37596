//! The needs of a relocation: a decision of its type, its site and facts about its symbol alone.
//!
//! The scan asks to learn which entries and dynamic relocations must exist, [`crate::relocs`] asks
//! again when it writes; since one pure function answers both, they cannot disagree.

pub mod decide;
pub mod site;
