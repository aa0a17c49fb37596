//! Common blocks: definitions that have a size but no place yet (gABI, "Symbol Table", `SHN_COMMON`).

use crate::ids::{FileId, SymbolId};

/// A common block that is the prevailing definition of its symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonBlock {
    /// The global that the block defines.
    pub symbol: SymbolId,
    /// Size in bytes: the largest that any object declares, or a shared library's if that is larger.
    pub size: u64,
    /// Alignment in bytes, chosen in the same way.
    pub align: u64,
    /// The object whose declaration counts as the definition.
    pub file: FileId,
}
