//! The phase that knows frame records, the functions of SFrame inputs, and the synthetic sections that
//! scripts can place.
//!
//! `create_synthetics` makes it from the results of `split_eh_frames` and `sframe_output::absorb`. This comes
//! before scripts are matched, because patterns match synthetic sections, too.

use super::{Resolved, builds_on};
use crate::arch::Target;
use crate::arch::target::PltShape;
use crate::frames::Frames;
use crate::frames::eh_frame::fde_edges;
use crate::ids::{SectionId, SymbolId};
use crate::input::SectionInfo;
use crate::sframe::collect;
use crate::tables::section::SyntheticSections;

/// All input sections, and the synthetic ones that exist before scripts are matched.
pub struct Synthesized<'a, T: Target> {
    /// The phase before: definitions and versions.
    pub resolved: Resolved<'a, T>,
    /// CIEs and FDEs of all `.eh_frame` inputs.
    pub frames: Frames<'a, T::E>,
    /// Functions from SFrame inputs, and functions derived from `.eh_frame`.
    pub described: collect::Inputs,
    /// Synthetic sections, also those that may turn out empty. Notes, the interpreter's path and common
    /// blocks have their sizes. The others get theirs in `size_tables`.
    pub synthetic: SyntheticSections<'a>,
    /// The machine's feature bits (IBT, SHSTK; BTI, PAC) that hold for the whole output.
    pub features: u32,
    /// The form of PLT entries, which depends on the feature bits and on options.
    pub plt_shape: PltShape,
    /// The place of each common block, by its row; `None` for a block that garbage collection drops. Empty if
    /// blocks stay common, as under `-r`.
    pub common_places: Vec<Option<CommonPlace>>,
}

builds_on!(['a, T: Target] Synthesized<'a, T>, resolved: Resolved<'a, T>);

/// The place of a common block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonPlace {
    /// The synthetic `COMMON` section for the blocks of one object.
    pub section: SectionId,
    /// Offset in that section, in bytes.
    pub offset: u64,
}

impl<'a, T: Target> Synthesized<'a, T> {
    /// Replaces the phase before by one that a pass before [`super::Live`] has refined.
    #[must_use]
    pub fn refine(self, change: impl FnOnce(Resolved<'a, T>) -> Resolved<'a, T>) -> Self {
        Synthesized { resolved: change(self.resolved), ..self }
    }

    /// The number of input sections and synthetic sections together.
    pub fn section_count(&self) -> usize {
        self.first_internal() as usize + self.synthetic.rows.len()
    }

    /// Header fields of an input or synthetic section.
    pub fn section_info(&self, id: SectionId) -> SectionInfo<'a> {
        match self.locate(id) {
            Some((object, index)) => SectionInfo::of(object, index as usize, self.config.is_relocatable()),
            None => self.synthetic.section(id.0 - self.first_internal()).info(),
        }
    }

    /// `file:(section+offset)` for messages.
    pub fn describe_place(&self, id: SectionId, offset: u64) -> String {
        self.describe_place_in(id, || self.section_info(id).name, offset)
    }

    /// The place of the common block that defines a symbol; `None` if no block does, or if it stays common.
    pub fn common_place(&self, id: SymbolId) -> Option<CommonPlace> {
        *self.common_places.get(self.common_row(id)?)?
    }

    /// The symbols (LSDAs, personality routines) to which the FDEs and CIEs of a section's functions refer. A
    /// live function keeps them alive through its frame records.
    pub fn frame_edges(&self, function: SectionId) -> impl Iterator<Item = SymbolId> {
        let object = self.locate(function).map(|(object, _)| object);
        let frames = object.and_then(|object| self.frames.files.get(object.id.index()));
        let edges = fde_edges(frames, function);
        edges.filter_map(move |relocation| Some(object?.symbol_id(relocation.symbol())))
    }
}

#[cfg(test)]
impl<'a, T: Target> Synthesized<'a, T> {
    /// For tests of later passes: no synthetic sections.
    pub fn of(resolved: Resolved<'a, T>, frames: Frames<'a, T::E>) -> Self {
        Synthesized {
            resolved,
            frames,
            described: collect::Inputs::default(),
            synthetic: SyntheticSections::default(),
            features: 0,
            plt_shape: PltShape::default(),
            common_places: Vec::new(),
        }
    }
}
