//! The layout engine: turns sections into output sections, segments and addresses.
//!
//! A linker could place sections by built-in rules, and carry out a script in another way if the user gives
//! one. Then there would be two engines, and each feature would have to work in both. This linker has one
//! engine. A layout is always made from a script: the built-in one for the kind of output, or the one that
//! `-T` names. [`crate::plan`] turns scripts and options into a [`LayoutPlan`](crate::plan::LayoutPlan), a
//! list of commands whose input patterns have dense rule numbers. `passes::match_script` gives each section
//! its rule before garbage collection. `passes::lay_out` then takes the steps of a layout:
//!
//! 1. [`lists`]: the sections of each rule, in order ([`place`], [`sort`], [`priority`], [`link_order`]), and
//!    a rule for each section that no rule took ([`orphan`]); `padding` moves some of them at random;
//! 2. [`rounds`]: a [`Geometry`](crate::phase::Geometry) in which every section has the size that it needs. A
//!    round carries the commands out until no address changes ([`converge`]), and moves sections that do not
//!    fit their region ([`spill`]). Then it enlarges sections that are too small at these addresses, and adds
//!    [`thunks`], for the next round;
//! 3. [`values`]: the addresses of symbols;
//! 4. [`relocatable`]: output sections for relocations and groups.
//!
//! One run of the commands is the work of several modules: [`dot`] is the location counter, with [`scope`]
//! for the names in expressions, `circular` for symbols that need their own value, and `regions` for
//! `MEMORY`; [`size`] computes offsets inside an output section, and [`output`] its type and flags;
//! [`segments`] makes program headers, from `PHDRS` or derived. [`finish`] makes the geometry from the
//! result. [`file_offsets`] gives places in the file, once `make_image` knows all sizes.
//!
//! Relocatable output goes through the same code: its addresses are 0, and it has no segments.

pub mod check;
mod circular;
pub mod converge;
pub mod dot;
pub mod file_offsets;
pub mod finish;
pub mod kept;
pub mod link_order;
pub mod lists;
pub mod names;
pub mod orphan;
pub mod output;
mod overflow;
mod padding;
pub mod place;
pub mod priority;
mod regions;
pub mod relocatable;
pub mod rounds;
pub mod scope;
pub mod segments;
pub mod settings;
pub mod shuffle;
pub mod size;
pub mod sort;
pub mod spill;
pub mod split;
pub mod state;
#[cfg(test)]
mod tests;
pub mod thunks;
pub mod values;
