//! Merged strings and constants: keeps equal pieces once, and maps each offset of an input to its offset in
//! the output.
//!
//! Every object that says `printf("%d\n")` brings the same four bytes. A compiler puts them into a section
//! with the flag `SHF_MERGE`, which promises that nothing depends on where in the section a piece stands. A
//! piece is a string that ends with a zero, or a constant of one size. So the linker keeps each different
//! piece once:
//!
//! ```text
//! a.o     one\0 two\0                   the merged section
//! b.o     two\0 three\0 one\0           one\0 two\0 three\0
//!
//! a relocation of b.o to offset 4, "three", leads to offset 8; one to offset 10, "one", to offset 0
//! ```
//!
//! There are two costs: the linker looks up every string of every object in a hash table, and every
//! relocation into these sections asks where its offset went. One table for all threads would need a lock,
//! and the order of the strings would depend on which thread came first. So the work is divided twice:
//!
//! 1. A group's sections, in input order, are cut into *blocks* of about a megabyte. A block finds and hashes
//!    its pieces, beside all other blocks.
//! 2. A few bits of each hash choose one of a fixed number of *shards*. One thread fills a shard from all
//!    blocks, in input order, and numbers its different pieces. It needs no lock, and the number of a piece
//!    depends on the inputs only.
//! 3. Each shard gives its pieces offsets, and the shards are laid out one behind the other. The blocks then
//!    replace the number of each piece with its offset in the merged section.
//!
//! Under `--gc-sections`, [`UsedOffsets`] says which offsets live sections refer to. A piece without any is
//! left out: its block gives it no hash, so no shard sees it.
//!
//! What stays is small: a block ends with four bytes for each piece, its offset in the output, and with a map
//! of the starts of strings, which takes a quarter of their own size. The contents are never copied before
//! they are written.

mod block;
mod pieces;
mod shard;
mod used;

pub use block::{Block, BlockSection};
pub use pieces::{MergeInput, Pieces};
pub use shard::Shard;
pub use used::{UsedOffsets, UsedPieces};

use crate::ids::SectionId;
use crate::rows::filled;
use parallel::{IntoParallel, ParallelSlice};
use std::num::NonZeroU32;

/// Shards of a large group. The count is a constant, because the output must not depend on the number of
/// threads.
const SHARDS: usize = 32;
/// A group of fewer bytes than this has one shard.
const SMALL: u64 = 256 << 10;
/// Bytes after which a block is full.
const BLOCK_BYTES: u64 = 1 << 20;

/// Sections whose pieces are merged with each other.
#[derive(Debug)]
pub struct Group<'a> {
    /// What its pieces are.
    pub pieces: Pieces,
    /// Pieces of its sections, in input order.
    pub blocks: Vec<Block<'a>>,
    /// The different pieces, divided by their hashes.
    pub shards: Vec<Shard<'a>>,
    /// Offset of each shard in the merged section, in bytes.
    pub shard_bases: Vec<u64>,
    /// Size of the merged section, in bytes.
    pub size: u64,
    /// Its alignment as a power of two.
    pub align: u8,
    /// The merged section.
    pub section: SectionId,
    /// Whether pieces may have been left out.
    is_partial: bool,
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
pub struct MergedSections<'a> {
    groups: Vec<Group<'a>>,
    rows: Vec<Row>,
    /// For each input section, its row, counted from 1. The kernel gives no memory to pages of this vector
    /// whose sections are all unmerged.
    row_of: Vec<Option<NonZeroU32>>,
    /// Whether pieces of any group may have been left out.
    is_partial: bool,
}

impl<'a> Group<'a> {
    /// Merges the pieces of these sections; of sections that `used` has, only the pieces that it names. With
    /// `tails`, a string that is the end of another takes no room of its own. Such a pair may have any two
    /// hashes, so there is only one shard then.
    ///
    /// # Errors
    /// The merged section would have 4 GiB or more.
    pub fn merge(
        pieces: Pieces,
        inputs: &[MergeInput<'a>],
        used: &UsedOffsets,
        tails: bool,
    ) -> Result<Group<'a>, TooLarge> {
        let bytes: u64 = inputs.iter().map(|input| input.bytes.len() as u64).sum();
        let tails = tails && matches!(pieces, Pieces::Strings { .. });
        let shard_count = if tails || bytes < SMALL { 1 } else { SHARDS };
        let mut blocks: Vec<Block<'a>> = cut(inputs)
            .into_par_iter()
            .map(|inputs| Block::split(pieces, inputs, used, shard_count))
            .collect();
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
        let is_partial = inputs.iter().any(|input| used.contains(input.section));
        Ok(Group { pieces, blocks, shards, shard_bases, size, align, section: SectionId::NONE, is_partial })
    }

    /// The shards in the order of the merged section, each with the number of bytes from its start to the
    /// next one's.
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

impl<'a> MergedSections<'a> {
    /// A table for `sections` input sections, none of them merged yet.
    pub fn new(sections: usize) -> Self {
        MergedSections { row_of: filled(None, sections), ..Self::default() }
    }

    /// Adds a group. `inputs` are the sections that it was made of, in the same order.
    pub fn add(&mut self, group: Group<'a>, inputs: &[SectionId]) {
        let number = self.groups.len() as u32;
        let mut inputs = inputs.iter();
        for (block, entry) in (0..).zip(&group.blocks) {
            for (section, input) in (0..entry.sections.len() as u32).zip(&mut inputs) {
                self.rows.push(Row { group: number, block, section });
                self.row_of[input.index()] = NonZeroU32::new(self.rows.len() as u32);
            }
        }
        self.is_partial |= group.is_partial;
        self.groups.push(group);
    }

    /// The groups. [`crate::tables::section::Kind::Merged`] holds a row of this slice.
    pub fn groups(&self) -> &[Group<'a>] {
        &self.groups
    }

    /// Whether a section's pieces were merged.
    #[inline]
    pub fn contains(&self, section: SectionId) -> bool {
        self.row_of.get(section.index()).is_some_and(Option::is_some)
    }

    #[inline]
    fn row(&self, section: SectionId) -> Option<Row> {
        let row = (*self.row_of.get(section.index())?)?;
        Some(self.rows[row.get() as usize - 1])
    }

    /// The merged section that an input section's pieces went to; `None` if they were not merged.
    pub fn section_of(&self, section: SectionId) -> Option<SectionId> {
        Some(self.groups[self.row(section)?.group as usize].section)
    }

    /// Whether pieces of any group may have been left out.
    #[inline]
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Whether an offset of an input section is in a piece that was left out because nothing live refers to
    /// it. Strings of debug information, to which most references lead, need no search for that.
    #[inline]
    pub fn leaves_out(&self, section: SectionId, offset: u64) -> bool {
        let is_partial = |row: Row| self.groups[row.group as usize].is_partial;
        self.is_partial && self.row(section).is_some_and(is_partial) && self.place(section, offset).is_none()
    }

    /// Where an offset of an input section went: the merged section, and the offset there. `None` if the
    /// section's pieces were not merged, or if this piece was left out. An offset behind the last piece keeps
    /// its distance to that piece.
    #[inline]
    pub fn place(&self, section: SectionId, offset: u64) -> Option<(SectionId, u64)> {
        let row = self.row(section)?;
        let group = &self.groups[row.group as usize];
        let (start, target) =
            group.blocks[row.block as usize].find(group.pieces, row.section as usize, offset)?;
        Some((group.section, u64::from(target).wrapping_add(offset.wrapping_sub(start.into()))))
    }
}

#[cfg(test)]
mod tests;
