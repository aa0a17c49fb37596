//! The tables for the dynamic linker and the sizes of the linker's own sections.
//!
//! Made by `size_tables`, before the layout.

use super::{Numbered, builds_on};
use crate::arch::Target;
use crate::ids::SectionId;
use crate::sframe::collect::Chosen;
use crate::synth::dynamic_tables::DynamicTables;
use crate::synth::section::SyntheticSections;

/// Which tables the output has.
pub struct Tables<'a, T: Target> {
    /// What symbols have in the tables.
    pub numbered: Numbered<'a, T>,
    /// What the dynamic linker reads besides slots, entries and relocations.
    pub dynamic: DynamicTables<'a>,
    /// `R_*_RELATIVE` at the head of `.rela.dyn` (`DT_RELACOUNT`).
    pub relative_count: u64,
    /// SFrame inputs that are corrupt and pass as they are, in link order.
    pub corrupt_sframes: Vec<SectionId>,
}

builds_on!(['a, T: Target] Tables<'a, T>, numbered: Numbered<'a, T>);

/// The linker's own sections with their sizes, which the layout takes over: pools of thunks come to
/// them, `.relr.dyn` and the SFrame table may grow.
pub struct Growing<'a> {
    /// Those of [`super::Made::synthetic`], then the merged ones.
    pub synthetics: SyntheticSections<'a>,
    /// The functions of the SFrame table.
    pub chosen: Chosen,
}
