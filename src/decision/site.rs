//! Places that relocations leave to the dynamic linker, and references for messages.

use super::decide::DynamicKind;
use crate::ids::{SectionId, SymbolId};

/// A place that the dynamic linker writes to. A large program has hundreds of thousands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynRelocSite {
    /// Section of an object.
    pub section: SectionId,
    /// The symbol of the relocation, global or local.
    pub symbol: SymbolId,
    /// The relocation's addend.
    pub addend: i64,
    /// The offset in the section. The topmost byte holds the index of the kind in [`KINDS`].
    place: u64,
}

impl DynRelocSite {
    const KIND_SHIFT: u32 = 56;

    /// Makes a place at `offset` bytes of a section. No file is larger than 2^56 bytes, so the topmost byte
    /// of an offset is free.
    #[inline]
    pub fn new(section: SectionId, offset: u64, symbol: SymbolId, addend: i64, kind: DynamicKind) -> Self {
        debug_assert_eq!(offset >> Self::KIND_SHIFT, 0);
        let number = KINDS.iter().position(|&other| other == kind).unwrap_or_default();
        DynRelocSite { section, symbol, addend, place: offset | (number as u64) << Self::KIND_SHIFT }
    }

    /// Offset in the section, in bytes.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.place & ((1 << Self::KIND_SHIFT) - 1)
    }

    /// The value that the dynamic relocation computes.
    #[inline]
    pub fn kind(&self) -> DynamicKind {
        KINDS[(self.place >> Self::KIND_SHIFT) as usize]
    }
}

/// All kinds, by number. [`DynRelocSite`] stores the number.
const KINDS: [DynamicKind; 10] = [
    DynamicKind::Relative,
    DynamicKind::Symbolic,
    DynamicKind::Resolved,
    DynamicKind::TpSlot,
    DynamicKind::TpOffset,
    DynamicKind::DtpOffset,
    DynamicKind::SignedRelative,
    DynamicKind::SignedSymbolic,
    DynamicKind::Size { wide: false },
    DynamicKind::Size { wide: true },
];

/// A relocation that a message is about. It is small because there can be very many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reference {
    /// The section that refers.
    pub section: SectionId,
    /// Offset in it, in bytes.
    pub offset: u64,
    /// The symbol that it refers to.
    pub symbol: SymbolId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_keep_offset_and_kind() {
        for kind in KINDS {
            for offset in [0, 8, (1 << 56) - 1] {
                let site = DynRelocSite::new(SectionId(3), offset, SymbolId(5), -7, kind);
                assert_eq!((site.offset(), site.kind()), (offset, kind));
            }
        }
        assert_eq!(size_of::<DynRelocSite>(), 24);
    }
}
