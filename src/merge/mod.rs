//! Mergeable sections: deduplicates their pieces and maps offsets of inputs to offsets of the
//! output.
//!
//! The flag `SHF_MERGE` promises that only the pieces of a section matter, not their places:
//! strings that end with a zero, or constants of one size. Equal pieces of one group of sections
//! are kept once.
//!
//! A group's sections are cut into *blocks* of about a megabyte; in the end a block holds four bytes for
//! each piece, its offset in the output, and the starts of strings, in a quarter of their own size. Pieces
//! are hashed when they are found. The hash chooses one of a fixed number of [`Shard`]s, each of
//! which is filled by one thread in input order, so no lock is taken and the result depends on
//! the inputs only.

mod block;
mod pieces;
mod shard;

pub use block::{Block, BlockSection};
pub use pieces::{MergeInput, Pieces};
pub use shard::Shard;

use crate::ids::SectionId;
use rayon::prelude::*;
use std::num::NonZeroU32;

/// Shards of a large group. A constant: the output must not depend on the number of threads.
const SHARDS: usize = 32;
/// A group of fewer bytes has one shard.
const SMALL: u64 = 256 << 10;
/// Bytes after which a block is full.
const BLOCK_BYTES: u64 = 1 << 20;

/// Sections whose pieces are merged with each other.
#[derive(Debug)]
pub struct Group<'a> {
    /// Kind of its pieces.
    pub pieces: Pieces,
    /// Pieces of its sections, in input order.
    pub blocks: Vec<Block<'a>>,
    /// The different pieces.
    pub shards: Vec<Shard<'a>>,
    /// Offset of each shard in the merged section, in bytes.
    pub shard_bases: Vec<u64>,
    /// Size of the merged section, in bytes.
    pub size: u64,
    /// Its alignment as a power of two.
    pub align: u8,
    /// The merged section.
    pub section: SectionId,
}

/// The place of an input section's pieces: group, block, and section of the block.
#[derive(Clone, Copy, Debug)]
struct Row {
    group: u32,
    block: u32,
    section: u32,
}

/// All groups of a link.
#[derive(Debug, Default)]
pub struct Merges<'a> {
    groups: Vec<Group<'a>>,
    rows: Vec<Row>,
    /// For each input section, its row, counted from 1. Pages of sections that are not merged are
    /// never touched.
    row_of: Vec<Option<NonZeroU32>>,
}

impl<'a> Group<'a> {
    /// Merges the pieces of these sections. With `tails`, a string that is the end of another has
    /// no place of its own; as any two strings may be such a pair, there is one shard then.
    ///
    /// # Errors
    /// The merged section would be of 4 GiB or more.
    pub fn merge(pieces: Pieces, inputs: &[MergeInput<'a>], tails: bool) -> Result<Group<'a>, TooLarge> {
        let bytes: u64 = inputs.iter().map(|input| input.bytes.len() as u64).sum();
        let tails = tails && matches!(pieces, Pieces::Strings { .. });
        let shard_count = if tails || bytes < SMALL { 1 } else { SHARDS };
        let mut blocks: Vec<Block<'a>> =
            cut(inputs).into_par_iter().map(|inputs| Block::split(pieces, inputs, shard_count)).collect();
        let mut shards: Vec<Shard<'a>> =
            (0..shard_count).into_par_iter().map(|number| Shard::fill(number, pieces, &blocks)).collect();
        if tails {
            shards.iter_mut().for_each(Shard::share_tails);
        }
        shards.par_iter_mut().for_each(Shard::assign_offsets);
        let mut shard_bases = Vec::with_capacity(shard_count);
        let mut size = 0u64;
        for shard in &shards {
            size = size.next_multiple_of(1 << shard.align);
            shard_bases.push(size);
            size += shard.size;
        }
        if size > u64::from(u32::MAX) {
            return Err(TooLarge { size });
        }
        let places: Vec<(&[u32], u64)> =
            shards.iter().zip(&shard_bases).map(|(shard, &base)| (&shard.offsets[..], base)).collect();
        blocks.par_iter_mut().for_each(|block| block.find_offsets(&places));
        let align = shards.iter().map(|shard| shard.align).max().unwrap_or(0);
        Ok(Group { pieces, blocks, shards, shard_bases, size, align, section: SectionId::NONE })
    }

    /// The shards, in the order of their bytes in the merged section, each with the number of bytes up to
    /// the next one's.
    pub fn parts(&self) -> impl Iterator<Item = (&Shard<'a>, u64)> {
        let ends = self.shard_bases.iter().skip(1).chain([&self.size]);
        let bytes = self.shard_bases.iter().zip(ends).map(|(base, end)| end - base);
        self.shards.iter().zip(bytes)
    }
}

/// A merged section that 32-bit offsets cannot address.
#[derive(Clone, Copy, Debug)]
pub struct TooLarge {
    /// Its size in bytes.
    pub size: u64,
}

/// Cuts a group's sections into the runs that become blocks.
fn cut<'i, 'a>(inputs: &'i [MergeInput<'a>]) -> Vec<&'i [MergeInput<'a>]> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (end, input) in inputs.iter().enumerate() {
        bytes += input.bytes.len() as u64;
        if bytes >= BLOCK_BYTES {
            runs.push(&inputs[start..=end]);
            (start, bytes) = (end + 1, 0);
        }
    }
    if start < inputs.len() {
        runs.push(&inputs[start..]);
    }
    runs
}

impl<'a> Merges<'a> {
    /// A table for `sections` input sections, none merged yet.
    pub fn new(sections: usize) -> Self {
        Merges { groups: Vec::new(), rows: Vec::new(), row_of: vec![None; sections] }
    }

    /// Adds a group and the sections that it was made of, in their order.
    pub fn add(&mut self, group: Group<'a>, inputs: &[SectionId]) {
        let number = self.groups.len() as u32;
        let mut inputs = inputs.iter();
        for (block, entry) in (0..).zip(&group.blocks) {
            for (section, input) in (0..entry.sections.len() as u32).zip(&mut inputs) {
                self.rows.push(Row { group: number, block, section });
                self.row_of[input.index()] = NonZeroU32::new(self.rows.len() as u32);
            }
        }
        self.groups.push(group);
    }

    /// The groups; [`crate::tables::section::Kind::Merged`] has their numbers.
    pub fn groups(&self) -> &[Group<'a>] {
        &self.groups
    }

    /// Whether a section's pieces were merged.
    #[inline]
    pub fn contains(&self, section: SectionId) -> bool {
        self.row_of.get(section.index()).is_some_and(Option::is_some)
    }

    /// The merged section and the offset in it that an offset of an input section has become; `None` if the
    /// section's pieces were not merged. An offset behind the last piece keeps its distance to that piece.
    #[inline]
    pub fn place(&self, section: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        let row = (*self.row_of.get(section.index())?)?;
        let row = self.rows[row.get() as usize - 1];
        let group = &self.groups[row.group as usize];
        let (start, target) =
            group.blocks[row.block as usize].find(group.pieces, row.section as usize, offset);
        Some((group.section, u64::from(target).wrapping_add(offset.wrapping_sub(start.into()))))
    }
}

#[cfg(test)]
mod tests;
