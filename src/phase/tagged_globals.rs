//! The variables whose memory the dynamic linker tags (Memtag ABI Extension to ELF for the Arm 64-bit
//! Architecture).

use crate::ids::SymbolId;

/// A tagged variable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TaggedGlobal {
    /// Its symbol, global or local.
    pub symbol: SymbolId,
    /// Its size in bytes.
    pub size: u64,
}

/// All of them, sorted by symbol. Empty in links that ask for no memory tagging.
#[derive(Default, Debug)]
pub struct TaggedGlobals(Vec<TaggedGlobal>);

impl TaggedGlobals {
    /// The table of these variables, which are sorted by symbol.
    pub fn new(sorted: Vec<TaggedGlobal>) -> Self {
        debug_assert!(sorted.is_sorted_by_key(|global| global.symbol));
        TaggedGlobals(sorted)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn all(&self) -> &[TaggedGlobal] {
        &self.0
    }

    /// Whether a symbol is tagged.
    #[inline]
    pub fn has(&self, id: SymbolId) -> bool {
        !self.0.is_empty() && self.size(id).is_some()
    }

    /// The size of a tagged variable in bytes; `None` if the symbol is not tagged.
    pub fn size(&self, id: SymbolId) -> Option<u64> {
        let row = self.0.binary_search_by_key(&id, |global| global.symbol).ok()?;
        Some(self.0[row].size)
    }
}
