//! The state of each section, in one byte.
//!
//! The table belongs to no phase until [`super::Live`] takes it over. Passes before that get it in addition
//! to their phase, as `&mut` if they change states. Afterwards, only `merge_strings` marks sections as
//! absorbed. No state changes behind a shared reference. A pass that decides in parallel either gives each
//! job the states of one object ([`SectionStates::by_object`]), or gathers decisions and applies them
//! serially.

use crate::ids::SectionId;
use crate::input::ObjectFile;
use bitflags::bitflags;
use zerocopy::byteorder::ByteOrder;

/// The state of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SectionState(u8);

bitflags! {
    impl SectionState: u8 {
        /// The section is in the output. `index_objects` sets the bit for sections with contents that this
        /// kind of output does not leave out (`SHF_EXCLUDE`). [`SectionState::discard`] clears it.
        const ALIVE = 1 << 0;
        /// The section is a root of garbage collection, because of a script's `KEEP` or for another reason.
        const KEEP = 1 << 1;
        /// The section is a member of a group, and another group of the same signature prevails.
        const DISCARDED_BY_GROUP = 1 << 2;
        /// `/DISCARD/` takes the section.
        const DISCARDED_BY_SCRIPT = 1 << 3;
        /// `--gc-sections` removed the section.
        const COLLECTED = 1 << 4;
        /// The section's contents live on in another section, and it is not laid out itself. `.eh_frame`
        /// records, mergeable pieces, properties and SFrame functions live on in a synthetic section, and a
        /// folded section lives on in its leader.
        const ABSORBED = 1 << 5;
        /// The section's contents are no part of the program: symbol tables, relocations, groups.
        const NOT_CONTENT = 1 << 6;
        /// Together with `ALIVE`, `--icf` folded the section into its leader. Without `ALIVE`, it is SFrame
        /// data about folded sections, which was dropped with them.
        const FOLDED = 1 << 7;
    }
}

impl SectionState {
    /// Takes the section out of the output, for the reason `why`.
    #[inline]
    pub fn discard(&mut self, why: SectionState) {
        *self = self.difference(SectionState::ALIVE).union(why);
    }
}

/// The state of each section, by [`SectionId`].
#[derive(Default)]
pub struct SectionStates(Vec<SectionState>);

impl SectionStates {
    /// The states of the input sections.
    pub fn of_inputs(states: &[SectionState]) -> Self {
        SectionStates(states.to_vec())
    }

    /// The state of a section. Sections that the linker adds after scripts are matched have no row here, and
    /// are alive.
    #[inline]
    pub fn get(&self, id: SectionId) -> SectionState {
        self.0.get(id.index()).copied().unwrap_or(SectionState::ALIVE)
    }

    /// Whether all of `bits` are set.
    #[inline]
    pub fn is(&self, id: SectionId, bits: SectionState) -> bool {
        self.get(id).contains(bits)
    }

    /// Whether the section is in the output.
    #[inline]
    pub fn is_alive(&self, id: SectionId) -> bool {
        self.is(id, SectionState::ALIVE)
    }

    /// Whether the section is in the output and not folded. Only then frames may describe it.
    #[inline]
    pub fn is_in_output(&self, id: SectionId) -> bool {
        self.get(id) & (SectionState::ALIVE | SectionState::FOLDED) == SectionState::ALIVE
    }

    /// Marks sections as folded into their leaders.
    pub fn fold(&mut self, ids: impl IntoIterator<Item = SectionId>) {
        for id in ids {
            self.0[id.index()].insert(SectionState::ABSORBED | SectionState::FOLDED);
        }
    }

    /// Marks sections whose contents live on in sections of the linker.
    pub fn absorb(&mut self, ids: impl IntoIterator<Item = SectionId>) {
        for id in ids {
            self.0[id.index()].insert(SectionState::ABSORBED);
        }
    }

    /// Marks sections that `KEEP` of a script matches, which makes them roots of garbage collection.
    pub fn keep(&mut self, ids: impl IntoIterator<Item = SectionId>) {
        for id in ids {
            self.0[id.index()].insert(SectionState::KEEP);
        }
    }

    /// Takes a section out of the output, for the reason `why`.
    #[inline]
    pub fn discard(&mut self, id: SectionId, why: SectionState) {
        self.0[id.index()].discard(why);
    }

    /// All states.
    pub fn all(&self) -> &[SectionState] {
        &self.0
    }

    /// All states, mutable.
    pub fn all_mut(&mut self) -> &mut [SectionState] {
        &mut self.0
    }

    /// The states of each object's sections, by section header index.
    pub fn by_object<E: ByteOrder>(&mut self, objects: &[ObjectFile<'_, E>]) -> Vec<&mut [SectionState]> {
        let mut rest = &mut self.0[..];
        let own = |object: &ObjectFile<'_, E>| rest.split_off_mut(..object.headers.len()).unwrap_or_default();
        objects.iter().map(own).collect()
    }

    /// Adds `count` rows that are alive, for the synthetic sections that scripts may discard.
    pub fn add_alive(&mut self, count: usize) {
        self.0.resize(self.0.len() + count, SectionState::ALIVE);
    }
}
