//! The phase that knows the contents of `.dynsym`, `.dynstr` and `.dynamic`, except for addresses.
//!
//! `size_tables` makes it before the layout, which needs the sizes.

use super::{Numbered, builds_on};
use crate::arch::Target;
use crate::debug_index::debug_names::NameIndex;
use crate::debug_index::joined::DebugIndex;
use crate::ids::SectionId;
use crate::tables::dynamic_tables::DynamicTables;

/// The tables for the dynamic linker.
pub struct Tables<'a, T: Target> {
    /// The phase before: slots, entries and copies of symbols.
    pub numbered: Numbered<'a, T>,
    /// `.dynsym`, `.dynstr`, hash tables, versions and `.dynamic`.
    pub dynamic: DynamicTables<'a>,
    /// Number of `R_*_RELATIVE` entries at the head of `.rela.dyn` (`DT_RELACOUNT`).
    pub relative_count: u64,
    /// The index of debug information, for `.gdb_index`.
    pub debug_index: DebugIndex<'a>,
    /// The joined name indexes of objects, for `.debug_names`.
    pub name_index: NameIndex<'a>,
    /// Corrupt SFrame inputs, in link order. They are copied unchanged.
    pub corrupt_sframes: Vec<SectionId>,
}

builds_on!(['a, T: Target] Tables<'a, T>, numbered: Numbered<'a, T>);
