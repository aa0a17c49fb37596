//! Common blocks: definitions without a place of their own (gABI, "Symbol Table", `SHN_COMMON`).

use crate::ids::{FileId, SymbolId};

/// A common block that prevails over the definitions in other objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonBlock {
    /// The global that the block defines.
    pub symbol: SymbolId,
    /// Size in bytes: the largest that an object declares.
    pub size: u64,
    /// Alignment in bytes, likewise.
    pub align: u64,
    /// The object whose declaration is the definition.
    pub file: FileId,
}
