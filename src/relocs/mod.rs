//! Relocations: their needs, the values that they store, the relocations left to the dynamic
//! linker.
//!
//! [`decide`](crate::decision::decide) answers for one relocation. `passes::scan_relocations` asks
//! it for every live loaded section and keeps the needs in [`crate::phase::Asked`] and the flags of
//! symbols; [`apply`] asks again when the output is written. [`undefined`] and [`discarded`] report
//! references to undefined symbols and to discarded sections; [`explain`] gives a full account of
//! the latter.

pub mod address;
pub mod apply;
pub mod branches;
pub mod discarded;
pub mod dynamic;
pub mod emit;
pub mod explain;
pub mod slots;
pub mod undefined;
pub mod walk;
