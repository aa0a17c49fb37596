//! The jumps to drop, by section.

use crate::arch::target::ConditionalTail;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use zerocopy::byteorder::ByteOrder;

/// A jump to drop.
#[derive(Clone, Copy)]
pub struct Jump {
    /// The section that ends with it.
    pub section: SectionId,
    /// The offset of the jump: the section's new size.
    pub size: u64,
    /// The conditional branch before it, if that one leads to what follows. It then goes where the jump went,
    /// under the opposite condition.
    pub flipped: Option<ConditionalTail>,
}

/// The jumps to drop, by section.
pub struct Jumps {
    /// All of them.
    pub list: Vec<Jump>,
    /// By input section: its new size, or [`WHOLE`].
    sizes: Vec<u64>,
}

/// The size of a section that stays as it is.
const WHOLE: u64 = u64::MAX;

impl Jumps {
    /// Those of a list that is sorted by section, in a link with so many input sections.
    pub fn new(list: Vec<Jump>, sections: usize) -> Self {
        let mut sizes = vec![WHOLE; sections];
        list.iter().for_each(|jump| sizes[jump.section.index()] = jump.size);
        Jumps { list, sizes }
    }

    /// The new size of a section that ends with a jump to drop.
    #[inline]
    pub fn size(&self, section: SectionId) -> Option<u64> {
        self.sizes.get(section.index()).copied().filter(|&size| size != WHOLE)
    }

    /// Whether the condition before the dropped jump of a section is turned around.
    pub fn is_flipped(&self, section: SectionId) -> bool {
        let place = || self.list.binary_search_by_key(&section, |jump| jump.section);
        self.size(section).is_some() && place().is_ok_and(|place| self.list[place].flipped.is_some())
    }

    /// Those of an object.
    pub fn of<E: ByteOrder>(&self, object: &ObjectFile<'_, E>) -> &[Jump] {
        let first = object.first_section;
        let end = first + object.headers.len() as u32;
        let before = |id: u32| self.list.partition_point(|jump| jump.section.0 < id);
        &self.list[before(first)..before(end)]
    }

    /// Leaves these sections whole.
    pub fn spare(&mut self, sections: impl IntoIterator<Item = SectionId>) {
        sections.into_iter().for_each(|id| self.sizes[id.index()] = WHOLE);
        let sizes = &self.sizes;
        self.list.retain(|jump| sizes[jump.section.index()] != WHOLE);
    }
}
