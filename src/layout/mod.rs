//! Output sections, segments and addresses: the one layout engine.
//!
//! A layout is always made from a script: the built-in one of the kind of output, or the one that
//! `-T` names. [`crate::plan`] turns scripts and options into a
//! [`LayoutPlan`](crate::plan::LayoutPlan), a list of commands whose input patterns have dense rule
//! numbers. `passes::match_script` gives each section its rule before garbage collection;
//! `passes::lay_out` lists the live sections of each rule, finds places for orphans, and carries
//! the commands out until no address changes:
//!
//! - [`place`], [`sort`], [`priority`], [`link_order`]: the sections of each rule, and their order;
//! - [`orphan`]: a rule for each section that no rule took;
//! - [`output`]: type and flags of output sections;
//! - [`size`]: offsets inside an output section;
//! - [`dot`]: the location counter, with [`scope`] for the names in expressions, `circular` for symbols that
//!   need their own value, and `regions` for `MEMORY`;
//! - [`segments`]: program headers, from `PHDRS` or derived;
//! - [`converge`]: the only fixpoint loop;
//! - [`file_offsets`]: offsets in the file, once sizes are final.
//!
//! Relocatable output goes through the same code: its addresses are 0 and it has no segments.

pub mod check;
mod circular;
pub mod converge;
pub mod dot;
pub mod file_offsets;
pub mod finish;
pub mod kept;
pub mod link_order;
pub mod machine;
pub mod names;
pub mod orphan;
pub mod output;
pub mod place;
pub mod priority;
mod regions;
pub mod scope;
pub mod segments;
pub mod shuffle;
pub mod size;
pub mod sort;
pub mod spill;
pub mod split;
#[cfg(test)]
mod tests;
