//! Common blocks: data that objects declare and none initialises (gABI, `SHN_COMMON`).

use crate::ids::{FileId, SectionId, SymbolId};

/// One common block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonBlock {
    /// The symbol.
    pub symbol: SymbolId,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// The object whose declaration is the definition.
    pub file: FileId,
    /// The synthetic section that it is allocated in; none under `-r`.
    pub section: SectionId,
    /// Offset in that section, in bytes.
    pub offset: u64,
}
