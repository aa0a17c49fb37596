//! Dense 32-bit ids.
//!
//! A link may have millions of files, sections and symbols, so each is a row in parallel vectors,
//! named by a `u32`. A newtype for each kind keeps a file from being taken for a section. Counts
//! are checked where ids are made (`index_objects`), so the narrowing happens in one place.

use std::num::NonZeroU32;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl Default for $name {
            fn default() -> Self {
                Self::NONE
            }
        }

        impl $name {
            /// No row. It is the value of fields that get their row only later ([`crate::input::ObjectFile`],
            /// [`crate::input::SharedFile`], [`crate::merge::Group`]), and of "none" in vectors with an entry
            /// for each FDE, each symbol of a library or each folded section, which `Option` would double:
            /// these ids have no niche, because passes compute them from numbers of sections and symbols for
            /// every relocation. Rows of `.symtab` and `.got` without a symbol of the link have it for the
            /// same reason. Elsewhere "none" is an `Option`.
            pub const NONE: $name = $name(u32::MAX);

            /// The row of this id.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Whether this names a row at all.
            #[inline]
            pub fn is_some(self) -> bool {
                self.0 != u32::MAX
            }

            /// The id of row `index`.
            ///
            /// # Panics
            /// If there are more than 2^32 - 1 rows. Loaders reject such inputs before.
            #[inline]
            pub fn from_index(index: usize) -> $name {
                assert!(index < u32::MAX as usize, "too many rows for 32-bit ids");
                $name(index as u32)
            }
        }
    };
}

id! {
    /// An object file that takes part in the link, in link order (command line, archive members
    /// at their extraction). Row of [`crate::phase::Inputs::objects`].
    FileId
}
id! {
    /// A shared library. Row of [`crate::phase::Inputs::shared`].
    SharedId
}
id! {
    /// A section of an object, or one that the linker makes. Row of
    /// [`crate::phase::SectionStates`]: `object.first_section + section header index`; the
    /// linker's own follow those of all objects.
    SectionId
}
id! {
    /// A symbol. The globals (one row for each different name) come first, then the local symbols
    /// of each object. Row of [`crate::phase::Bound::symbols`].
    SymbolId
}
macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// An `Option` of it takes four bytes.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The one of this number, counted from 0.
            ///
            /// # Panics
            /// If the number is 2^32 - 1. There are fewer of them than sections or symbols.
            #[inline]
            pub fn new(number: u32) -> Self {
                $name(NonZeroU32::MIN.checked_add(number).expect("fewer rows than 32 bits count"))
            }

            /// The one of row `index`.
            ///
            /// # Panics
            /// If there are more than 2^32 - 1 rows.
            #[inline]
            pub fn from_index(index: usize) -> Self {
                $name::new(u32::try_from(index).expect("fewer rows than 32 bits count"))
            }

            /// Its number.
            #[inline]
            pub fn number(self) -> u32 {
                self.0.get() - 1
            }

            /// Its row.
            #[inline]
            pub fn index(self) -> usize {
                self.number() as usize
            }
        }
    };
}

number! {
    /// An output section. Row of [`crate::chunks::Layout::chunks`].
    ChunkId
}
impl ChunkId {
    /// Its index in the section header table, where a null header stands before all.
    #[inline]
    pub fn header_index(self) -> u32 {
        self.number() + 1
    }
}
number! {
    /// A word of the GOT, an entry of a PLT or a row of the copies, counted from 0 in its table.
    Slot
}
number! {
    /// An output section of the plan. Row of [`crate::plan::LayoutPlan::outputs`].
    OutputId
}
number! {
    /// A rule of the layout: the sections that it takes stand together. Row of
    /// [`crate::plan::LayoutPlan::rules`].
    RuleId
}
number! {
    /// An input statement of a script. Row of [`crate::plan::LayoutPlan::statements`].
    StatementId
}
number! {
    /// A `MEMORY` region. Row of [`crate::layout::state::LayoutState::regions`].
    RegionId
}
impl Default for RegionId {
    fn default() -> Self {
        RegionId::DEFAULT
    }
}
impl RegionId {
    /// That of sections that fit no declared region.
    pub const DEFAULT: RegionId = RegionId(NonZeroU32::MIN);

    /// The region that a script declares, by its row in [`crate::plan::LayoutPlan::memory`].
    pub fn declared(row: usize) -> RegionId {
        RegionId::from_index(row + 1)
    }

    /// The row of its declaration in [`crate::plan::LayoutPlan::memory`]; none for the default region.
    pub fn declaration(self) -> Option<usize> {
        self.index().checked_sub(1)
    }
}
number! {
    /// A thunk. Row of [`crate::tables::pools::Thunks::all`].
    ThunkId
}
number! {
    /// Row of [`crate::phase::Numbered::rows`].
    DynamicRowId
}
number! {
    /// The offset of an `.eh_frame` record in the output, in bytes from the first record of its file.
    RecordOffset
}
