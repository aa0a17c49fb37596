//! What each symbol is for the dynamic linker.
//!
//! Made by `settle_symbols`.

use super::{Matched, builds_on};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::symbols::{SymbolFlags, flag};

/// What is imported and exported.
pub struct Bound<'a, T: Target> {
    /// The sections and their rules.
    pub matched: Matched<'a, T>,
    /// What symbols are, and from the scan on what they need.
    pub symbols: SymbolFlags,
}

builds_on!(['a, T: Target] Bound<'a, T>, matched: Matched<'a, T>);

impl<T: Target> Bound<'_, T> {
    /// Whether something that is in the output refers to an undefined symbol.
    pub fn is_name_used(&self, id: SymbolId) -> bool {
        !self.config.gc.enabled || self.symbols.flags(id) & flag::LIVE != 0
    }
}

#[cfg(test)]
impl<'a, T: Target> Bound<'a, T> {
    /// For tests of later passes: symbols of which nothing is known, and sections whose rules are
    /// given.
    pub fn of(made: super::Made<'a, T>, rules: Vec<u32>) -> Self {
        let symbols = SymbolFlags::new(made.symbol_count);
        Bound { matched: Matched { made, rules, plan: Default::default() }, symbols }
    }
}
