//! What relocations ask for, and where the pieces of mergeable sections went.
//!
//! Made by `scan_relocations` and `merge_strings`, which run beside each other.

use super::{Live, SectionInfo, builds_on, state};
use crate::arch::Target;
use crate::ids::SectionId;
use crate::merge::Merges;
use crate::relocs::site::{DynRelocSite, Reference};
use crate::synth::section::{Kind, SyntheticSection};

/// What the link needs besides its inputs.
pub struct Scanned<'a, T: Target> {
    /// What is in the output.
    pub live: Live<'a, T>,
    /// What relocations ask for; what they ask of symbols stands in [`super::Bound::symbols`].
    pub asked: Asked,
    /// Pieces of mergeable sections.
    pub merges: Merges<'a>,
    /// The sections made of them. Their numbers follow those of [`super::Made::synthetic`].
    pub merged: Vec<MergedSection<'a>>,
}

builds_on!(['a, T: Target] Scanned<'a, T>, live: Live<'a, T>);

/// What relocations of the inputs ask of the whole link.
#[derive(Default)]
pub struct Asked {
    /// By object: places for the dynamic linker, in order of section, then of the relocation
    /// table.
    pub sites: Vec<Vec<DynRelocSite>>,
    /// By object: references to symbols of discarded sections, in the same order.
    pub discarded: Vec<Vec<Reference>>,
    /// Bits of [`crate::relocs::decide::need`].
    pub needs: u32,
    /// Some dynamic relocation is for a place that is not writable (`DT_TEXTREL`).
    pub text_relocations: bool,
}

/// A section made of pieces.
pub struct MergedSection<'a> {
    /// The section.
    pub section: SyntheticSection<'a>,
    /// The rule that took those that it is made of.
    pub rule: u32,
}

impl<'a, T: Target> Scanned<'a, T> {
    /// Number of sections that are known so far.
    pub fn section_count(&self) -> usize {
        self.live.section_count() + self.merged.len()
    }

    /// What the header of a section says.
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

    /// Where an offset of a section is in the end: the section that is laid out, and the offset in
    /// it. The same for most; another for mergeable pieces and `.eh_frame` records. `None` if it
    /// is in no section any more.
    ///
    /// For a section symbol with an addend, the offset is their sum: the addend says which piece
    /// is meant. For any other symbol it is the symbol's value, and the addend is added to the
    /// result.
    #[inline]
    pub fn final_place(&self, id: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        if !self.sections.is(id, state::ABSORBED) {
            return Some((id, offset));
        }
        self.absorbed_place(id, offset)
    }

    /// The same for an absorbed section.
    pub fn absorbed_place(&self, id: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        if let Some(place) = self.merges.place(id, offset) {
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
        Scanned { asked: Asked::default(), merges: Merges::new(0), merged: Vec::new(), live }
    }
}
