//! The phase that knows the contents of `.dynsym`, `.dynstr` and `.dynamic` up to addresses, and
//! the size of every synthetic section.
//!
//! `size_tables` makes it before the layout, which needs the sizes.

use super::{Numbered, builds_on};
use crate::arch::Target;
use crate::debug_index::debug_names::NameIndex;
use crate::debug_index::joined::DebugIndex;
use crate::ids::SectionId;
use crate::sframe::collect::Chosen;
use crate::tables::dynamic_tables::DynamicTables;
use crate::tables::section::SyntheticSections;

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
    /// Corrupt SFrame inputs, in link order; they are copied unchanged.
    pub corrupt_sframes: Vec<SectionId>,
}

builds_on!(['a, T: Target] Tables<'a, T>, numbered: Numbered<'a, T>);

/// The parts that the layout takes over and changes: it adds pools of thunks, and `.relr.dyn` and the
/// SFrame table may grow.
pub struct Growing<'a> {
    /// The synthetic sections of [`super::Made::synthetic`] with their sizes, then the merged ones.
    pub synthetics: SyntheticSections<'a>,
    /// The functions of the SFrame table.
    pub chosen: Chosen,
}
