//! The shapes of FDEs by what their rows depend on ([`CfiSource`]).
//!
//! Half of the FDEs of a program are like one before them: size, instructions and CIE. So their rows are not
//! read, and their shape is known.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use sframe_format::compact::ShapeId;
use sframe_format::derive::{CfiCommon, CfiSource};
use std::hash::BuildHasher;

/// What the rows of FDEs depend on, and their shapes.
#[derive(Default)]
pub struct Sources<'a> {
    table: HashTable<Known<'a>>,
    /// The parts of CIEs, and the last one: FDEs of one CIE follow each other.
    commons: HashMap<CfiCommon<'a>, u32, FixedState>,
    last: Option<(CfiCommon<'a>, u32)>,
}

/// A source, with its CIE by number. All that is compared first is in one place, as it is seldom in a cache.
struct Known<'a> {
    instructions: &'a [u8],
    common: u32,
    size: u32,
    hash: u32,
    /// The shapes of its functions without and with language-specific data. [`NONE`]: none is known.
    shapes: [ShapeId; 2],
}

const NONE: ShapeId = ShapeId(u32::MAX);

/// What is known of a source.
#[derive(Clone, Copy)]
pub struct Found {
    hash: u32,
    common: u32,
    shapes: Option<[ShapeId; 2]>,
}

impl Found {
    /// Whether the source was met before.
    pub fn is_known(self) -> bool {
        self.shapes.is_some()
    }

    /// The shape of its functions with or without language-specific data.
    pub fn shape(self, has_lsda: bool) -> Option<ShapeId> {
        let shape = self.shapes?[usize::from(has_lsda)];
        Some(shape).filter(|&shape| shape != NONE)
    }
}

/// The table takes a bucket from the low bits and a tag from the high bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Known<'_> {
    fn is(&self, hash: u32, common: u32, source: &CfiSource<'_, '_>) -> bool {
        (self.hash, self.common, u64::from(self.size)) == (hash, common, source.size)
            && self.instructions == source.instructions
    }
}

impl<'a> Sources<'a> {
    /// Looks for a source.
    pub fn find(&mut self, source: &CfiSource<'_, 'a>) -> Found {
        let common = self.number(source.common);
        let hash = FixedState::with_seed(0).hash_one((source.size, source.instructions)) as u32;
        let known = self.table.find(spread(hash), |known| known.is(hash, common, source));
        Found { hash, common, shapes: known.map(|known| known.shapes) }
    }

    fn number(&mut self, common: &CfiCommon<'a>) -> u32 {
        if let Some((last, number)) = &self.last
            && last == common
        {
            return *number;
        }
        let next = self.commons.len() as u32;
        let number = *self.commons.entry(*common).or_insert(next);
        self.last = Some((*common, number));
        number
    }

    /// Learns a shape of a source, of which this was found. It has less than 4 GiB of code.
    pub fn learn(&mut self, found: Found, source: &CfiSource<'_, 'a>, has_lsda: bool, shape: ShapeId) {
        let Found { hash, common, .. } = found;
        let entry = self.table.entry(
            spread(hash),
            |known| known.is(hash, common, source),
            |known| spread(known.hash),
        );
        let (instructions, size) = (source.instructions, source.size as u32);
        let mut known =
            entry.or_insert_with(|| Known { instructions, common, size, hash, shapes: [NONE; 2] });
        known.get_mut().shapes[usize::from(has_lsda)] = shape;
    }
}
