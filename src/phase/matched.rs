//! The phase that knows which rule of the scripts takes each section.
//!
//! `match_script` makes it before garbage collection, because `KEEP` makes roots.

use super::{Synthesized, builds_on};
use crate::arch::Target;
use crate::ids::RuleId;
use crate::plan::LayoutPlan;

/// Sections with their rules, and the plan that the rules belong to.
pub struct Matched<'a, T: Target> {
    /// The phase before: sections.
    pub synthesized: Synthesized<'a, T>,
    /// The rule of [`Matched::plan`] that takes each section, by [`crate::ids::SectionId`]; `None` for
    /// orphans.
    pub rules: Vec<Option<RuleId>>,
    /// The layout that scripts and options ask for. Output sections whose constraint (`ONLY_IF_RO`,
    /// `ONLY_IF_RW`) fails are left out.
    pub plan: LayoutPlan,
}

builds_on!(['a, T: Target] Matched<'a, T>, synthesized: Synthesized<'a, T>);

impl<'a, T: Target> Matched<'a, T> {
    /// Replaces the phase before by one that a pass before [`super::Live`] has refined.
    #[must_use]
    pub fn refine(self, change: impl FnOnce(Synthesized<'a, T>) -> Synthesized<'a, T>) -> Self {
        Matched { synthesized: change(self.synthesized), ..self }
    }
}
