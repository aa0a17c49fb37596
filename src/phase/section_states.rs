//! The state of each section, in one byte.
//!
//! The table belongs to no phase until [`super::Live`] takes it over: passes before that get it beside their
//! phase, `&mut` if they change states. Afterwards `merge_strings` alone marks sections as absorbed. A pass
//! that decides in parallel either gives each job the states of one object ([`SectionStates::by_object`]), or
//! gathers decisions and applies them serially: no state changes behind a shared reference.

use crate::ids::SectionId;
use crate::input::ObjectFile;
use bitflags::bitflags;
use zerocopy::byteorder::ByteOrder;

/// The state of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SectionState(u8);

bitflags! {
    impl SectionState: u8 {
        /// In the output. `index_objects` sets it for sections with contents that the kind of output does not
        /// leave out (`SHF_EXCLUDE`); [`SectionState::discard`] clears it.
        const ALIVE = 1 << 0;
        /// A script's `KEEP`, or another reason to be a root of garbage collection.
        const KEEP = 1 << 1;
        /// Member of a group that lost to another of the same signature.
        const DISCARDED_BY_GROUP = 1 << 2;
        /// Matched by `/DISCARD/`.
        const DISCARDED_BY_SCRIPT = 1 << 3;
        /// Removed by `--gc-sections`.
        const COLLECTED = 1 << 4;
        /// Its contents live on in another section: `.eh_frame` records, mergeable pieces, properties and
        /// SFrame functions in a synthetic one, a folded section in its leader. It is not laid out itself.
        const ABSORBED = 1 << 5;
        /// Its contents are no part of the program: symbol tables, relocations, groups.
        const NOT_CONTENT = 1 << 6;
        /// With `ALIVE`: `--icf` folded it into its leader. Without: SFrame data about folded sections, which
        /// went with them.
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
    /// States of the input sections.
    pub fn of_inputs(states: &[SectionState]) -> Self {
        SectionStates(states.to_vec())
    }

    /// The state of a section. Sections that the linker adds after scripts are matched have no row here and
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

    /// Whether the section is in the output and not folded: only then frames may describe it.
    #[inline]
    pub fn stands(&self, id: SectionId) -> bool {
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
