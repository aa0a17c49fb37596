//! Relocations: what they need, the values that they store, and those that the linker leaves to the dynamic
//! linker.
//!
//! [`decide`](crate::decision::decide) decides about one relocation. `passes::scan_relocations` asks it about
//! every relocation of live loaded sections, and keeps the needs in [`crate::phase::RelocNeeds`] and in the
//! flags of symbols. [`apply`] asks again when it writes the output. [`undefined`] and [`discarded`] report
//! references to undefined symbols and to discarded sections, and [`explain`] gives a full account of the
//! latter.

pub mod address;
pub mod apply;
pub mod branches;
pub mod discarded;
pub mod dynamic;
pub mod emit;
pub mod explain;
pub mod shortcuts;
pub mod slots;
pub mod undefined;
pub mod walk;
