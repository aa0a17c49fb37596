//! The phase that knows everything that the layout places, with its size, but no address yet.
//!
//! `size_tables` makes it. If addresses decide a size, a round of the layout makes it anew: the round adds
//! pools of thunks, and lets tables of packed relocations and the SFrame table grow.

use super::{Tables, builds_on};
use crate::arch::Target;
use crate::ids::SectionId;
use crate::input::SectionInfo;
use crate::tables::section::SyntheticSections;

/// All sections of the inputs and of the linker, with their sizes.
pub struct Contents<'a, T: Target> {
    /// The phase before: tables for the dynamic linker.
    pub tables: Tables<'a, T>,
    /// The linker's own sections: those of [`super::Synthesized::synthetic`], the merged ones, pools of
    /// thunks, and the relocation and group sections of `-r`.
    pub synthetics: SyntheticSections<'a>,
}

builds_on!(['a, T: Target] Contents<'a, T>, tables: Tables<'a, T>);

impl<'a, T: Target> Contents<'a, T> {
    /// The number of sections: those of inputs, synthetic and merged ones, and those added during the layout.
    pub fn section_count(&self) -> usize {
        self.first_internal() as usize + self.synthetics.rows.len()
    }

    /// Size of a section in memory, in bytes.
    #[inline]
    pub fn section_size(&self, id: SectionId) -> u64 {
        match self.locate(id) {
            Some((object, index)) => object.headers[index as usize].sh_size.get(),
            None => self.synthetics.section(id.0 - self.first_internal()).size,
        }
    }

    /// The header fields of a section, which may be an object's, synthetic, or merged.
    pub fn section_info(&self, id: SectionId) -> SectionInfo<'a> {
        match self.locate(id) {
            Some((object, index)) => SectionInfo::of(object, index as usize, self.config.is_relocatable()),
            None => self.synthetics.section(id.0 - self.first_internal()).info(),
        }
    }

    /// `file:(section+offset)` for messages.
    pub fn describe_place(&self, id: SectionId, offset: u64) -> String {
        self.describe_place_in(id, || self.section_info(id).name, offset)
    }
}
