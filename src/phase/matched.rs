//! The rule of the layout plan that takes each section.
//!
//! Made by `match_script`.

use super::{Made, builds_on};
use crate::arch::Target;
use crate::plan::LayoutPlan;

/// What scripts say of sections.
pub struct Matched<'a, T: Target> {
    /// The sections.
    pub made: Made<'a, T>,
    /// The rule of [`Matched::plan`] that takes each section, by [`crate::ids::SectionId`];
    /// [`crate::plan::NO_RULE`] for orphans.
    pub rules: Vec<u32>,
    /// Scripts and options, without the output sections whose condition does not hold.
    pub plan: LayoutPlan,
}

builds_on!(['a, T: Target] Matched<'a, T>, made: Made<'a, T>);
