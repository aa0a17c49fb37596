//! What the linker knows about a section of its own, all in one place.
//!
//! A section of the linker's own appears in four passes. `create_synthetics` makes it, so that scripts can
//! match its name; `size_tables` gives it a size; a round of the layout lets it grow, if its size depends on
//! addresses; `write_output` writes it. If each pass listed the sections, a new one would need a line in all
//! of them, and a forgotten line would leave a section empty without a word. So each kind of section is one
//! value of [`Synthesis`], in the file that is about it, and the passes only walk over the kinds.
//! [`super::kinds`] maps a kind to its value. If a kind has no value, or a value lacks a part, the linker
//! does not compile.

use crate::arch::Target;
use crate::arch::target::PltShape;
use crate::debug_index::debug_names::NameIndex;
use crate::debug_index::joined::DebugIndex;
use crate::frames::Frames;
use crate::ids::SectionId;
use crate::phase::{
    CommonPlace, Extent, Geometry, Located, Numbered, Placed, Resolved, SectionStates, builds_on,
};
use crate::plan::LayoutPlan;
use crate::region::Region;
use crate::relocs::dynamic::Counts;
use crate::sframe::collect::{self, Chosen};
use crate::tables::dynamic_tables::DynamicTables;
use crate::tables::section::SyntheticSection;

/// How the linker makes, sizes and writes the sections of one kind.
pub struct Synthesis<T: Target> {
    /// How they are made.
    pub create: Create<T>,
    /// When their size is known.
    pub size: Size<T>,
    /// Whether they need more room once addresses are known.
    pub grow: Grow<T>,
    /// Who writes their bytes.
    pub write: Write<T>,
}

impl<T: Target> Synthesis<T> {
    /// An early section whose contents are final when it is made.
    pub fn fixed(create: Creator<T>) -> Self {
        let (size, grow, write) = (Size::AtCreation, Grow::Never, Write::Fixed);
        Synthesis { create: Create::Early(create), size, grow, write }
    }

    /// Sections that a later pass makes, with their sizes.
    pub fn later(write: Write<T>) -> Self {
        Synthesis { create: Create::Later, size: Size::AtCreation, grow: Grow::Never, write }
    }
}

/// Makes the sections of a kind, if this link may need them.
pub type Creator<T> = for<'l, 'a> fn(&Ingredients<'l, 'a, T>) -> Created<'a>;

/// How the sections of a kind are made.
pub enum Create<T: Target> {
    /// Before scripts are matched. Sections that turn out empty are dropped.
    Early(Creator<T>),
    /// By a later pass, which knows how many there are.
    Later,
}

/// When the size of a kind's sections is known.
pub enum Size<T: Target> {
    /// When they are made.
    AtCreation,
    /// When slots, entries and tables for the dynamic linker are numbered.
    Numbered(fn(&Sizing<'_, '_, T>) -> Extent),
    /// At the same time. In addition, no other section could hold the contents: if they are not empty, the
    /// link must have made the section.
    Needed(fn(&Sizing<'_, '_, T>) -> Extent),
    /// When the output's sections and symbols are counted, for the tables about the file itself.
    File,
}

/// Whether sections need more room once addresses are known. The functions return the size in bytes that the
/// section needs at the addresses of the present round. A section never shrinks, because otherwise the rounds
/// might not end.
pub enum Grow<T: Target> {
    /// Their size does not depend on addresses.
    Never,
    /// It depends on the addresses of sections.
    Sections(fn(&Geometry<'_, T>) -> Option<u64>),
    /// It depends on the addresses of symbols.
    Symbols(fn(&Located<'_, T>) -> Option<u64>),
    /// It depends on the functions of the SFrame table. The last argument tells how many of them are new:
    /// they describe thunks.
    Functions(fn(&Geometry<'_, T>, &mut Chosen, usize) -> Option<u64>),
}

/// Who writes the bytes of a kind's sections.
pub enum Write<T: Target> {
    /// The contents were fixed when the section was made.
    Fixed,
    /// Nobody: it takes room in memory only.
    Nothing,
    /// A function, in one job.
    Bytes(fn(&Placed<'_, T>, Written, &mut [u8])),
    /// A function, in several jobs: the section is large.
    Jobs(fn(&Placed<'_, T>, Written, Region<'_>)),
    /// `write_output`, together with other sections or after them.
    Together,
}

/// The section that a function is to write.
#[derive(Clone, Copy)]
pub struct Written {
    /// The section.
    pub id: SectionId,
    /// Its number among the sections of its kind ([`crate::tables::section::Kind::number`]).
    pub number: u32,
}

/// What sections are made from before scripts are matched.
pub struct Ingredients<'l, 'a, T: Target> {
    /// The phase before.
    pub resolved: &'l Resolved<'a, T>,
    /// Which sections are alive.
    pub sections: &'l SectionStates,
    /// The layout that scripts and options ask for.
    pub plan: &'l LayoutPlan,
    /// CIEs and FDEs of all `.eh_frame` inputs.
    pub frames: &'l Frames<'a, T::E>,
    /// Functions from SFrame inputs, and functions derived from `.eh_frame`.
    pub described: &'l collect::Inputs,
    /// What all objects say together about the machine's features.
    pub properties: &'l MergedProperties,
    /// The form of PLT entries.
    pub plt_shape: PltShape,
    /// The number that the first section gets.
    pub first: SectionId,
}

builds_on!(['l, 'a, T: Target] Ingredients<'l, 'a, T>, resolved: &'l Resolved<'a, T>);

/// What the property notes and build attributes of all objects say together ([`super::property_note`]).
pub struct MergedProperties {
    /// The contents of the note; empty if no property holds.
    pub note: Vec<u8>,
    /// The machine's feature bits that hold for the whole output ([`crate::phase::Synthesized::features`]).
    pub features: u32,
    /// The contents of the section with build attributes; empty if no object has one.
    pub attributes: Vec<u8>,
    /// The input sections that said it.
    pub absorbed: Vec<SectionId>,
}

/// Sections that were made.
#[derive(Default)]
pub struct Created<'a> {
    /// The sections: none if the link does not need any.
    pub sections: Vec<SyntheticSection<'a>>,
    /// Input sections whose contents live on in them.
    pub absorbed: Vec<SectionId>,
    /// The place of each common block in these sections, by the block's row. Only [`super::common`] fills
    /// this.
    pub common_places: Vec<Option<CommonPlace>>,
}

impl<'a> From<Option<SyntheticSection<'a>>> for Created<'a> {
    fn from(section: Option<SyntheticSection<'a>>) -> Self {
        Created { sections: section.into_iter().collect(), ..Created::default() }
    }
}

/// What sizes are computed from.
pub struct Sizing<'l, 'a, T: Target> {
    /// The phase before: slots, entries and copies of symbols.
    pub numbered: &'l Numbered<'a, T>,
    /// The functions of the SFrame table.
    pub chosen: &'l Chosen,
    /// The contents of `.gdb_index`.
    pub debug_index: &'l DebugIndex<'a>,
    /// The contents of `.debug_names`.
    pub name_index: &'l NameIndex<'a>,
    /// Numbers of dynamic relocations.
    pub counts: Counts,
    /// The tables for the dynamic linker, as far as they are filled.
    pub dynamic: DynamicTables<'a>,
}

builds_on!(['l, 'a, T: Target] Sizing<'l, 'a, T>, numbered: &'l Numbered<'a, T>);

/// A size without a demand on the alignment.
pub fn bytes(size: u64) -> Extent {
    Extent { size, align: 1 }
}
