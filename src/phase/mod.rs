//! The phases of a link, as types.
//!
//! A pass that asks whether a section is alive must run after garbage collection, and one that asks for an
//! address must run after the layout. If all facts were fields of one struct, nothing would stop a pass from
//! reading a field that nobody has filled yet.
//!
//! So each phase is a struct of its own. Some passes fill it and give it away by value, and from then on it
//! is only read. Each phase owns the one before it and derefs to it. The type in a pass's signature then says
//! how much of the link the pass may see, and a pass that asks too early does not compile:
//!
//! [`Session`] → [`Directives`] → [`Inputs`] → [`Resolved`] → [`Synthesized`] → [`Matched`] → [`Bound`] →
//! [`Live`] → [`Scanned`] → [`Numbered`] → [`Tables`] → [`Contents`] → [`Geometry`] → [`Located`] →
//! [`Arranged`] → [`Placed`] → [`Image`]
//!
//! `pipeline.rs` lists the passes that lead from one phase to the next.

mod arranged;
mod bound;
mod builds_on;
mod contents;
mod directives;
pub mod facts;
mod folds;
mod geometry;
mod image;
mod inputs;
mod live;
mod located;
mod matched;
mod numbered;
mod placed;
mod resolved;
mod scanned;
mod section_states;
mod session;
mod synthesized;
mod tables;
mod tagged_globals;

pub use arranged::{Arranged, OutputGroup, OutputRelocations};
pub use bound::{Bound, split_locals};
pub(crate) use builds_on::builds_on;
pub use contents::Contents;
pub use directives::{Directives, Lists};
pub use folds::Folds;
pub use geometry::{Addresses, Geometry};
pub use image::{FilePlan, FileSection, Image};
pub use inputs::Inputs;
pub use live::Live;
pub use located::Located;
pub use matched::Matched;
pub use numbered::{Copies, Copy, DynamicRow, Extent, Numbered, Slots};
pub use placed::Placed;
pub use resolved::{IdentifierSections, Resolved};
pub use scanned::{MergedSection, RelocNeeds, Scanned};
pub use section_states::{SectionState, SectionStates};
pub use session::Session;
pub use synthesized::{CommonPlace, Synthesized};
pub use tables::Tables;
pub use tagged_globals::{TaggedGlobal, TaggedGlobals};
