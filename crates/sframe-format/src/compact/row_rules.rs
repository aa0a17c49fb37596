//! The rules of rows, as a writer numbers them.

use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::rules::UnwindRules;

/// The number of the rule "there is no row".
pub(super) const NO_ROW: u32 = 0;

/// The rules of a row, and in version 2 the number of their layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowRules {
    pub rules: UnwindRules,
    pub layout: u32,
}

impl RowRules {
    /// Rules of version 1.
    pub fn plain(rules: UnwindRules) -> Self {
        Self { rules, layout: 0 }
    }
}

/// The number of these rules, from 1 on: `NO_ROW` is 0. New rules are appended.
pub(super) fn number(
    rules: &mut Vec<RowRules>,
    numbers: &mut HashMap<RowRules, u32, FixedState>,
    found: RowRules,
) -> u32 {
    let next = rules.len() as u32 + 1;
    let number = *numbers.entry(found).or_insert(next);
    if number == next {
        rules.push(found);
    }
    number
}
