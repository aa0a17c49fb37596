//! What the linker read of frames, and the sections that it may fill.
//!
//! `create_synthetics` makes it of what `split_eh_frames` and the reading of SFrame inputs found.

use super::{Resolved, SectionInfo, builds_on, info_of};
use crate::arch::Target;
use crate::frames::Frames;
use crate::frames::eh_frame::fde_edges;
use crate::ids::{SectionId, SymbolId};
use crate::sframe::collect;
use crate::synth::section::SyntheticSections;

/// All sections that scripts can match.
pub struct Made<'a, T: Target> {
    /// Definitions and versions.
    pub resolved: Resolved<'a, T>,
    /// Records of `.eh_frame` sections.
    pub frames: Frames<'a, T::E>,
    /// Functions of SFrame inputs and those that are derived.
    pub described: collect::Inputs,
    /// Sections that the linker makes whatever becomes of the inputs' own. Sizes are those that are
    /// known: of notes, the interpreter's path and common blocks.
    pub synthetic: SyntheticSections<'a>,
    /// The machine's feature bits (IBT, SHSTK; BTI, PAC) that hold for the whole output.
    pub features: u32,
    /// Where each common block is allocated, by its row; empty where they stay common.
    pub common_places: Vec<CommonPlace>,
}

builds_on!(['a, T: Target] Made<'a, T>, resolved: Resolved<'a, T>);

/// Where a common block is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonPlace {
    /// The section that the linker makes for an object's blocks.
    pub section: SectionId,
    /// Offset in it, in bytes.
    pub offset: u64,
}

impl<'a, T: Target> Made<'a, T> {
    /// Number of sections that scripts can match: all have numbers below it.
    pub fn section_count(&self) -> usize {
        self.first_internal() as usize + self.synthetic.rows.len()
    }

    /// What the header of a section says.
    pub fn section_info(&self, id: SectionId) -> SectionInfo<'a> {
        match self.locate(id) {
            Some((object, index)) => info_of(object, index as usize, self.config.is_relocatable()),
            None => self.synthetic.section(id.0 - self.first_internal()).info(),
        }
    }

    /// `file:(section+offset)` for messages.
    pub fn describe_place(&self, id: SectionId, offset: u64) -> String {
        self.describe_place_in(id, || self.section_info(id).name, offset)
    }

    /// Where the common block that defines a symbol is allocated, if it is.
    pub fn common_place(&self, id: SymbolId) -> Option<CommonPlace> {
        self.common_places.get(self.common_row(id)?).copied()
    }

    /// The symbols that the FDEs of a function's section refer to besides the function: what a
    /// live function keeps alive through its frame records.
    pub fn frame_edges(&self, function: SectionId) -> impl Iterator<Item = SymbolId> {
        let object = self.locate(function).map(|(object, _)| object);
        let symbol = move |symbol| object.map_or(SymbolId::NONE, |object| object.symbol_id(symbol));
        let frames = self.frames.files.get(self.section_file(function).index());
        fde_edges(frames, function).map(move |relocation| symbol(relocation.symbol()))
    }
}

#[cfg(test)]
impl<'a, T: Target> Made<'a, T> {
    /// For tests of later passes: nothing is made yet.
    pub fn of(resolved: Resolved<'a, T>, frames: Frames<'a, T::E>) -> Self {
        Made {
            resolved,
            frames,
            described: collect::Inputs::default(),
            synthetic: SyntheticSections::default(),
            features: 0,
            common_places: Vec::new(),
        }
    }
}
