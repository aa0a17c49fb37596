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
    /// Hashes and places in `known`. A table grows by moving all that it holds, so it holds little.
    table: HashTable<(u32, u32)>,
    /// All sources, in blocks of [`BLOCK`], which never move.
    known: Vec<Vec<Known<'a>>>,
    /// The parts of CIEs, and the last one: FDEs of one CIE follow each other.
    commons: HashMap<CfiCommon<'a>, u32, FixedState>,
    last: Option<(CfiCommon<'a>, u32)>,
}

/// How many sources a block holds.
const BLOCK: usize = 1 << 10;

/// A source, with its CIE by number.
struct Known<'a> {
    instructions: &'a [u8],
    common: u32,
    size: u32,
    /// The shapes of its functions without and with language-specific data. [`NONE`]: none is known.
    shapes: [ShapeId; 2],
}

const NONE: ShapeId = ShapeId(u32::MAX);

/// What is known of a source.
#[derive(Clone, Copy)]
pub struct Found {
    hash: u32,
    common: u32,
    /// Its place, if it was met before, and the shapes of its functions.
    known: Option<(u32, [ShapeId; 2])>,
}

impl Found {
    /// Whether the source was met before.
    pub fn is_known(self) -> bool {
        self.known.is_some()
    }

    /// The shape of its functions with or without language-specific data.
    pub fn shape(self, has_lsda: bool) -> Option<ShapeId> {
        let shape = self.known?.1[usize::from(has_lsda)];
        Some(shape).filter(|&shape| shape != NONE)
    }
}

/// The table takes a bucket from the low bits and a tag from the high bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Known<'_> {
    fn is(&self, common: u32, source: &CfiSource<'_, '_>) -> bool {
        (self.common, u64::from(self.size)) == (common, source.size)
            && self.instructions == source.instructions
    }
}

impl<'a> Sources<'a> {
    /// Looks for a source.
    pub fn find(&mut self, source: &CfiSource<'_, 'a>) -> Found {
        let common = self.number(source.common);
        let hash = FixedState::with_seed(0).hash_one((source.size, source.instructions)) as u32;
        let is_same =
            |&(other, place): &(u32, u32)| other == hash && at(&self.known, place).is(common, source);
        let place = self.table.find(spread(hash), is_same).map(|&(_, place)| place);
        let known = place.map(|place| (place, at(&self.known, place).shapes));
        Found { hash, common, known }
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
        let Found { hash, common, known } = found;
        if let Some((place, _)) = known {
            let known = &mut self.known[place as usize / BLOCK][place as usize % BLOCK];
            known.shapes[usize::from(has_lsda)] = shape;
            return;
        }
        let mut shapes = [NONE; 2];
        shapes[usize::from(has_lsda)] = shape;
        let place = self.table.len() as u32;
        if (place as usize).is_multiple_of(BLOCK) {
            self.known.push(Vec::with_capacity(BLOCK));
        }
        let (instructions, size) = (source.instructions, source.size as u32);
        self.known[place as usize / BLOCK].push(Known { instructions, common, size, shapes });
        self.table.insert_unique(spread(hash), (hash, place), |&(hash, _)| spread(hash));
    }
}

/// The source at a place.
fn at<'k, 'a>(known: &'k [Vec<Known<'a>>], place: u32) -> &'k Known<'a> {
    &known[place as usize / BLOCK][place as usize % BLOCK]
}
