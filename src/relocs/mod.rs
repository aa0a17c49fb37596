//! Relocations: what they ask for, what the dynamic linker is left with, what is written.
//!
//! [`decide`] answers for one relocation. `passes::scan_relocations` asks it for every live
//! loaded section and keeps what it learns in [`crate::phase::Asked`] and the flags of symbols;
//! [`apply`] asks again when the output is written. [`undefined`] and [`discarded`] report the references that lead nowhere;
//! [`explain`] tells the whole story of the latter.

pub mod address;
pub mod apply;
pub mod branches;
pub mod decide;
pub mod discarded;
pub mod dynamic;
pub mod emit;
pub mod explain;
pub mod facts;
pub mod site;
pub mod slots;
pub mod undefined;
