//! The phase that knows which symbols are imported and which are exported.
//!
//! `settle_symbols` makes it before garbage collection, because an exported symbol is a root.

use super::{Matched, builds_on};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::symbols::{SymbolFlags, flag};

/// The matched sections, with flags for each symbol: imported, exported, alive.
pub struct Bound<'a, T: Target> {
    /// The phase before: sections and their rules.
    pub matched: Matched<'a, T>,
    /// Flags of symbols; `scan_relocations` adds the `NEEDS_*` bits, `number_rows` reads them.
    pub symbols: SymbolFlags,
}

builds_on!(['a, T: Target] Bound<'a, T>, matched: Matched<'a, T>);

impl<T: Target> Bound<'_, T> {
    /// Whether a live section refers to an undefined symbol. Without `--gc-sections` every
    /// reference counts as live.
    pub fn is_name_used(&self, id: SymbolId) -> bool {
        !self.config.gc.enabled || self.symbols.flags(id) & flag::LIVE != 0
    }
}

#[cfg(test)]
impl<'a, T: Target> Bound<'a, T> {
    /// For tests of later passes: symbols without flags, and sections with the given rules.
    pub fn of(made: super::Made<'a, T>, rules: Vec<u32>) -> Self {
        let symbols = SymbolFlags::new(made.symbol_count);
        Bound { matched: Matched { made, rules, plan: Default::default() }, symbols }
    }
}
