//! What is known of a link, phase by phase.
//!
//! A phase is a struct that some passes fill and give away by value; from then on it is only read.
//! Each phase owns the one before it and derefs to it, so that the type in a pass's signature says
//! how much of the link the pass may see, and a pass that asks too early does not compile:
//!
//! [`Session`] → [`Directives`] → [`Inputs`] → [`Resolved`] → …
//!
//! `pipeline.rs` lists the passes that lead from one to the next.

mod directives;
mod inputs;
mod resolved;
mod section_states;
mod session;

pub use directives::{Directives, Lists};
pub use inputs::{Inputs, SectionInfo, info_of};
pub use resolved::{IdentifierSections, Resolved};
pub use section_states::{SectionStates, state};
pub use session::Session;

/// Makes a phase show what the phases before it know.
macro_rules! builds_on {
    ([$($generics:tt)*] $phase:ty, $field:ident: $before:ty) => {
        impl<$($generics)*> std::ops::Deref for $phase {
            type Target = $before;

            #[inline]
            fn deref(&self) -> &$before {
                &self.$field
            }
        }
    };
}
pub(crate) use builds_on;
