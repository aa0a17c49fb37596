//! The phase that knows the needs of relocations and the places of merged pieces.
//!
//! `scan_relocations` and `merge_strings` make it, in parallel: neither reads the results of the other.

use super::{Live, SectionState, builds_on};
use crate::arch::Target;
use crate::decision::site::{DynRelocSite, Reference};
use crate::ids::{RuleId, SectionId, SymbolId};
use crate::input::SectionInfo;
use crate::merge::MergedSections;
use crate::symbols::Needs;
use crate::tables::section::{Kind, SyntheticSection};

/// What the output needs in addition to its inputs: GOT, PLT, dynamic relocations, merged sections.
pub struct Scanned<'a, T: Target> {
    /// The phase before: live sections and records.
    pub live: Live<'a, T>,
    /// Needs of symbols and of the link, and places of dynamic relocations.
    pub reloc_needs: RelocNeeds,
    /// The place of each piece of a mergeable section.
    pub merges: MergedSections<'a>,
    /// The synthetic sections of merged pieces. Their ids follow those of [`super::Synthesized::synthetic`].
    pub merged: Vec<MergedSection<'a>>,
}

builds_on!(['a, T: Target] Scanned<'a, T>, live: Live<'a, T>);

/// The needs of relocations.
#[derive(Default)]
pub struct RelocNeeds {
    /// The needs of each symbol, by [`SymbolId`].
    pub of_symbols: Vec<Needs>,
    /// The places of dynamic relocations, by object. They are ordered by section, then as in the relocation
    /// table.
    pub sites: Vec<Vec<DynRelocSite>>,
    /// The references to symbols of discarded sections, by object, in the same order.
    pub discarded: Vec<Vec<Reference>>,
    /// The needs that concern the link as a whole.
    pub needs: Needs,
    /// Whether some dynamic relocation changes a section that is not writable (`DT_TEXTREL`).
    pub text_relocations: bool,
}

/// A synthetic section of merged pieces.
pub struct MergedSection<'a> {
    /// Its header fields and size.
    pub section: SyntheticSection<'a>,
    /// The rule that took the input sections of these pieces.
    pub rule: Option<RuleId>,
}

impl<'a, T: Target> Scanned<'a, T> {
    /// The needs of a symbol.
    #[inline]
    pub fn symbol_needs(&self, id: SymbolId) -> Needs {
        self.reloc_needs.of_symbols[id.index()]
    }

    /// The number of sections: those of inputs, synthetic and merged ones.
    pub fn section_count(&self) -> usize {
        self.live.section_count() + self.merged.len()
    }

    /// The header fields of a section, which may be an object's, synthetic, or merged.
    pub fn section_info(&self, id: SectionId) -> SectionInfo<'a> {
        match id.index().checked_sub(self.live.section_count()) {
            Some(row) => self.merged[row].section.info(),
            None => self.live.section_info(id),
        }
    }

    /// `file:(section+offset)` for messages.
    pub fn describe_place(&self, id: SectionId, offset: u64) -> String {
        self.describe_place_in(id, || self.section_info(id).name, offset)
    }

    /// The section whose contents stand in the output for the byte at an offset of a section, and the offset
    /// there. Most sections stand for themselves. Folded sections, merged pieces and `.eh_frame` records have
    /// moved. `None` if the piece or record is dropped.
    ///
    /// For a section symbol with an addend, the offset is their sum, because the addend selects the piece.
    /// For any other symbol, it is the symbol's value, and the addend is added to the result.
    #[inline]
    pub fn final_place(&self, id: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        if !self.sections.is(id, SectionState::ABSORBED) {
            return Some((id, offset));
        }
        self.absorbed_place(id, offset)
    }

    /// The section whose contents stand in the output for those of a section, as a whole.
    pub fn final_section(&self, id: SectionId) -> Option<SectionId> {
        if !self.sections.is(id, SectionState::ABSORBED) {
            return Some(id);
        }
        self.merges.section_of(id).or_else(|| Some(self.absorbed_place(id, 0)?.0))
    }

    /// [`Self::final_place`] for folded sections and for merged pieces; `None` for others.
    pub fn joined_place(&self, id: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        match self.folds.leader(id) {
            Some(leader) => Some((leader, offset)),
            None => self.merges.place(id, offset),
        }
    }

    /// [`Self::final_place`] for an absorbed section.
    pub fn absorbed_place(&self, id: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        if let Some(place) = self.joined_place(id, offset) {
            return Some(place);
        }
        let (object, index) = self.locate(id)?;
        let file = object.id.index();
        let kept = self.kept_frames.files.get(file)?;
        let place = kept.output_offset(&self.frames.files[file], index, offset)?;
        let row = self.synthetic.find(Kind::EhFrame)?;
        Some((self.synthetic_id(row), place))
    }
}

#[cfg(test)]
impl<'a, T: Target> Scanned<'a, T> {
    /// For tests of later passes: no relocation asks for anything, and nothing is merged.
    pub fn of(live: Live<'a, T>) -> Self {
        let of_symbols = vec![Needs::empty(); live.symbol_count];
        Scanned {
            reloc_needs: RelocNeeds { of_symbols, ..RelocNeeds::default() },
            merges: MergedSections::new(0),
            merged: Vec::new(),
            live,
        }
    }
}
