//! The sections that the linker makes itself, as rows, and the contents of their tables as values.
//!
//! Passes fill these tables, and [`crate::synth`] writes them. Only [`pools`] holds addresses.

pub mod dynamic_tables;
pub mod dynstr;
pub mod local_names;
pub mod pools;
pub mod section;
pub mod section_names;
pub mod symtab_plan;
