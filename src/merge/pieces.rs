//! What merging starts from: the kind of pieces, and the sections that hold them.

use crate::ids::SectionId;

/// The kind and size of the pieces of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pieces {
    /// Strings of units of 1, 2 or 4 bytes, each with a zero unit at its end.
    Strings {
        /// Bytes in a unit.
        unit: u32,
    },
    /// Constants without a terminator.
    Constants {
        /// Bytes in a constant.
        size: u32,
    },
}

/// An input section of a [`Group`](super::Group).
#[derive(Clone, Copy, Debug)]
pub struct MergeInput<'a> {
    /// The section as the link numbers it.
    pub section: SectionId,
    /// Its contents: whole pieces.
    pub bytes: &'a [u8],
    /// Alignment as a power of two.
    pub align: u8,
}
