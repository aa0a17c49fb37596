//! The state of each section: one byte a section, whose bits passes set from many threads at once.

use crate::ids::SectionId;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bits of [`SectionStates`].
pub mod state {
    /// In the output. Set for every section when sections are indexed, cleared for sections that
    /// are discarded or collected.
    pub const ALIVE: u8 = 1 << 0;
    /// A script's `KEEP`, or another reason to be a root of garbage collection.
    pub const KEEP: u8 = 1 << 1;
    /// Member of a group that lost to another of the same signature.
    pub const DISCARDED_BY_GROUP: u8 = 1 << 2;
    /// Matched by `/DISCARD/`.
    pub const DISCARDED_BY_SCRIPT: u8 = 1 << 3;
    /// Removed by `--gc-sections`.
    pub const COLLECTED: u8 = 1 << 4;
    /// Its contents were taken apart and live on in a section that the linker makes (`.eh_frame`
    /// records, mergeable pieces, properties): it is not laid out itself.
    pub const ABSORBED: u8 = 1 << 5;
    /// Its contents are no part of the program: symbol tables, relocations, groups.
    pub const NOT_CONTENT: u8 = 1 << 6;
    /// Reached by garbage collection.
    pub const MARKED: u8 = 1 << 7;
}

/// Bits of [`state`], by [`SectionId`].
#[derive(Default)]
pub struct SectionStates(Vec<AtomicU8>);

impl SectionStates {
    /// States of the input sections.
    pub fn of_inputs(states: &[u8]) -> Self {
        SectionStates(states.iter().map(|&state| AtomicU8::new(state)).collect())
    }

    /// All bits of a section. Those that the linker makes after scripts are matched are alive.
    #[inline]
    pub fn get(&self, id: SectionId) -> u8 {
        self.0.get(id.index()).map_or(state::ALIVE, |bits| bits.load(Ordering::Relaxed))
    }

    /// Whether all of `bits` are set.
    #[inline]
    pub fn is(&self, id: SectionId, bits: u8) -> bool {
        self.get(id) & bits == bits
    }

    /// Whether the section is in the output.
    #[inline]
    pub fn is_alive(&self, id: SectionId) -> bool {
        self.is(id, state::ALIVE)
    }

    /// Sets bits; gives all bits that were set before.
    #[inline]
    pub fn set(&self, id: SectionId, bits: u8) -> u8 {
        let before = self.get(id);
        if before & bits == bits {
            return before;
        }
        self.0[id.index()].fetch_or(bits, Ordering::Relaxed)
    }

    /// Clears bits.
    #[inline]
    pub fn clear(&self, id: SectionId, bits: u8) {
        self.0[id.index()].fetch_and(!bits, Ordering::Relaxed);
    }

    /// Number of sections.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds so many sections that are alive: the linker's own, which scripts may discard.
    pub fn add_alive(&mut self, count: usize) {
        self.0.extend((0..count).map(|_| AtomicU8::new(state::ALIVE)));
    }
}
