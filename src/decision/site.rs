//! Places that relocations leave to the dynamic linker, and references that are reported.

use super::decide::DynamicKind;
use crate::ids::{SectionId, SymbolId};

/// A place that the dynamic linker writes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynRelocSite {
    /// Section of an object.
    pub section: SectionId,
    /// Offset in that section, in bytes.
    pub offset: u64,
    /// The symbol of the relocation, global or local.
    pub symbol: SymbolId,
    /// The relocation's addend.
    pub addend: i64,
    /// The computation of the dynamic relocation.
    pub kind: DynamicKind,
}

/// A reference, kept small because there can be very many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reference {
    /// Section that refers.
    pub section: SectionId,
    /// Offset in it, in bytes.
    pub offset: u64,
    /// The symbol that it refers to.
    pub symbol: SymbolId,
}
