//! The phase that knows which symbols are imported and which are exported.
//!
//! `bind_symbols` makes it before garbage collection, because an exported symbol is a root.

use super::{Matched, builds_on};
use crate::arch::Target;
use crate::ids::SymbolId;
use crate::input::ObjectFile;
use crate::symbols::SymbolFlags;
use zerocopy::byteorder::ByteOrder;

/// The matched sections, with flags for each symbol: imported, exported, alive.
pub struct Bound<'a, T: Target> {
    /// The phase before: sections and their rules.
    pub matched: Matched<'a, T>,
    /// The flags of each symbol, by [`SymbolId`]. `collect_garbage` adds those that depend on liveness.
    pub symbols: Vec<SymbolFlags>,
}

builds_on!(['a, T: Target] Bound<'a, T>, matched: Matched<'a, T>);

impl<'a, T: Target> Bound<'a, T> {
    /// Replaces the phase before by one that a pass before [`super::Live`] has refined.
    #[must_use]
    pub fn refine(self, change: impl FnOnce(Matched<'a, T>) -> Matched<'a, T>) -> Self {
        Bound { matched: change(self.matched), ..self }
    }

    /// The flags of a symbol.
    #[inline]
    pub fn symbol_flags(&self, id: SymbolId) -> SymbolFlags {
        self.symbols[id.index()]
    }

    /// Whether a live section refers to a global that no object defines in a section. Without
    /// `--gc-sections`, every reference counts as live.
    pub fn is_name_used(&self, id: SymbolId) -> bool {
        !self.config.gc.enabled || self.symbol_flags(id).contains(SymbolFlags::LIVE)
    }
}

/// The flags of each object's local symbols, by index in its symbol table.
pub fn split_locals<'s, E: ByteOrder>(
    mut locals: &'s mut [SymbolFlags],
    objects: &[ObjectFile<'_, E>],
) -> Vec<&'s mut [SymbolFlags]> {
    let own = |object: &ObjectFile<'_, E>| locals.split_off_mut(..object.local_rows()).unwrap_or_default();
    objects.iter().map(own).collect()
}

#[cfg(test)]
impl<'a, T: Target> Bound<'a, T> {
    /// For tests of later passes: symbols without flags, and sections with the given rules.
    pub fn of(synthesized: super::Synthesized<'a, T>, rules: Vec<Option<crate::ids::RuleId>>) -> Self {
        let symbols = vec![SymbolFlags::empty(); synthesized.symbol_count];
        Bound { matched: Matched { synthesized, rules, plan: Default::default() }, symbols }
    }
}
