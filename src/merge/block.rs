//! A block: the pieces of a run of sections, found by offset.

use super::pieces::{MergeInput, Pieces};
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a section for which there is one hint.
const HINT_BYTES: usize = 256;

/// A section of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockSection<'a> {
    /// Contents.
    pub bytes: &'a [u8],
    /// Alignment as a power of two.
    pub align: u8,
    /// First of its pieces in the block.
    pub first: u32,
    /// End of its pieces.
    pub end: u32,
    /// First of its hints in the block.
    first_hint: u32,
}

/// The pieces of a run of sections.
#[derive(Debug)]
pub struct Block<'a> {
    /// The sections, in input order.
    pub sections: Vec<BlockSection<'a>>,
    /// Start of each piece in its section; empty for constants, whose number gives their start.
    starts: Vec<u32>,
    /// For every [`HINT_BYTES`] of a section of strings, and for its end: how many pieces of the
    /// section start before. A search then looks at a few pieces only.
    hints: Vec<u32>,
    /// One cell for each piece, which holds in turn its hash, its number in its shard, and its
    /// offset in the merged section.
    targets: Vec<AtomicU32>,
    /// Pieces by shard, then by number; empty if there is one shard.
    order: Vec<u32>,
    /// End of each shard's run in `order`.
    ends: Vec<u32>,
}

impl<'a> Block<'a> {
    /// Finds and hashes the pieces.
    pub fn split(pieces: Pieces, inputs: &[MergeInput<'a>], shards: usize) -> Self {
        let mut block = Block {
            sections: Vec::with_capacity(inputs.len()),
            starts: Vec::new(),
            hints: Vec::new(),
            targets: Vec::new(),
            order: Vec::new(),
            ends: Vec::new(),
        };
        let count: usize = inputs.iter().map(|input| count(pieces, input.bytes)).sum();
        block.targets.reserve_exact(count);
        if let Pieces::Strings { .. } = pieces {
            block.starts.reserve_exact(count);
        }
        for input in inputs {
            block.add(pieces, input);
        }
        if shards > 1 {
            block.order_by_shard(shards);
        }
        block
    }

    fn add(&mut self, pieces: Pieces, input: &MergeInput<'a>) {
        let bytes = input.bytes;
        let first = self.targets.len() as u32;
        let first_hint = self.hints.len() as u32;
        match pieces {
            Pieces::Constants { size } => {
                let hashes = bytes.chunks_exact(size as usize).map(|piece| AtomicU32::new(hash(piece)));
                self.targets.extend(hashes);
            }
            Pieces::Strings { unit } => {
                let mut start = 0;
                each_end(bytes, unit, |end| {
                    self.starts.push(start as u32);
                    self.targets.push(AtomicU32::new(hash(&bytes[start..end])));
                    start = end;
                });
                self.add_hints(first as usize, bytes.len());
            }
        }
        let end = self.targets.len() as u32;
        self.sections.push(BlockSection { bytes, align: input.align, first, end, first_hint });
    }

    fn add_hints(&mut self, first: usize, size: usize) {
        let starts = &self.starts[first..];
        let mut piece = 0;
        for boundary in (0..size).step_by(HINT_BYTES) {
            while starts.get(piece).is_some_and(|&start| (start as usize) < boundary) {
                piece += 1;
            }
            self.hints.push(piece as u32);
        }
        self.hints.push(starts.len() as u32);
    }

    /// A counting sort.
    fn order_by_shard(&mut self, shards: usize) {
        let mut next = vec![0u32; shards];
        for target in &mut self.targets {
            next[shard_of(*target.get_mut(), shards)] += 1;
        }
        let mut sum = 0;
        for count in &mut next {
            sum += std::mem::replace(count, sum);
        }
        self.order = vec![0; self.targets.len()];
        for (piece, target) in self.targets.iter_mut().enumerate() {
            let slot = &mut next[shard_of(*target.get_mut(), shards)];
            self.order[*slot as usize] = piece as u32;
            *slot += 1;
        }
        self.ends = next;
    }

    fn run(&self, shard: usize) -> Range<usize> {
        if self.ends.is_empty() {
            return 0..self.targets.len();
        }
        let start = shard.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[shard] as usize
    }

    /// Calls `visit` with each piece of a shard: the cell that holds its hash, its bytes, its
    /// alignment as a power of two.
    pub fn each_of_shard(
        &self,
        pieces: Pieces,
        shard: usize,
        mut visit: impl FnMut(&AtomicU32, &'a [u8], u8),
    ) {
        let mut sections = self.sections.iter();
        let Some(mut section) = sections.next() else { return };
        for position in self.run(shard) {
            let piece = self.order.get(position).map_or(position, |&piece| piece as usize);
            while piece >= section.end as usize {
                let Some(next) = sections.next() else { return };
                section = next;
            }
            let range = self.range(pieces, section, piece);
            let align = match range.start {
                0 => section.align,
                start => section.align.min(start.trailing_zeros() as u8),
            };
            visit(&self.targets[piece], &section.bytes[range], align);
        }
    }

    fn range(&self, pieces: Pieces, section: &BlockSection<'a>, piece: usize) -> Range<usize> {
        match pieces {
            Pieces::Constants { size } => {
                let start = (piece - section.first as usize) * size as usize;
                start..start + size as usize
            }
            Pieces::Strings { .. } => {
                let is_last = piece + 1 == section.end as usize;
                let end = if is_last { section.bytes.len() } else { self.starts[piece + 1] as usize };
                self.starts[piece] as usize..end
            }
        }
    }

    /// Turns numbers in shards into offsets in the merged section. Of each shard: the offsets of
    /// its pieces in it, and its own in the section.
    pub fn find_offsets(&mut self, shards: &[(&[u32], u64)]) {
        for (number, (offsets, base)) in shards.iter().enumerate() {
            for position in self.run(number) {
                let piece = self.order.get(position).map_or(position, |&piece| piece as usize);
                let target = self.targets[piece].get_mut();
                *target = (base + u64::from(offsets[*target as usize])) as u32;
            }
        }
        self.order = Vec::new();
        self.ends = Vec::new();
    }

    /// The piece that holds an offset of a section: where it starts, and its offset in the merged
    /// section.
    #[inline]
    pub fn find(&self, pieces: Pieces, section: usize, offset: u64) -> (u32, u32) {
        let section = &self.sections[section];
        let last = section.bytes.len().saturating_sub(1);
        let offset = usize::try_from(offset).map_or(last, |offset| offset.min(last));
        let (piece, start) = match pieces {
            Pieces::Constants { size } => {
                let number = offset / size as usize;
                (section.first as usize + number, (number * size as usize) as u32)
            }
            Pieces::Strings { .. } => {
                let hint = section.first_hint as usize + offset / HINT_BYTES;
                let first = section.first as usize;
                let from = first + self.hints[hint] as usize;
                let to = first + self.hints[hint + 1] as usize;
                let ahead = self.starts[from..to].partition_point(|&start| start as usize <= offset);
                // If no piece starts in this stretch up to the offset, the piece before it holds
                // the offset.
                let piece = from + ahead - 1;
                (piece, self.starts[piece])
            }
        };
        (start, self.targets[piece].load(Ordering::Relaxed))
    }
}

/// Which shard a hash belongs to: its top bits, since tables use the low ones.
fn shard_of(hash: u32, shards: usize) -> usize {
    (hash >> 24) as usize % shards
}

fn hash(piece: &[u8]) -> u32 {
    let mut hasher = foldhash::quality::FixedState::with_seed(0x6d65_7267).build_hasher();
    hasher.write(piece);
    hasher.finish() as u32
}

/// Number of pieces of a section.
fn count(pieces: Pieces, bytes: &[u8]) -> usize {
    match pieces {
        Pieces::Constants { size } => bytes.len() / size as usize,
        Pieces::Strings { unit: 1 } => memchr::memchr_iter(0, bytes).count(),
        Pieces::Strings { unit } => {
            let mut count = 0;
            each_end(bytes, unit, |_| count += 1);
            count
        }
    }
}

/// Calls `visit` with the end of each string, its zero unit included.
fn each_end(bytes: &[u8], unit: u32, mut visit: impl FnMut(usize)) {
    if unit == 1 {
        memchr::memchr_iter(0, bytes).for_each(|nul| visit(nul + 1));
        return;
    }
    let unit = unit as usize;
    for (number, value) in bytes.chunks_exact(unit).enumerate() {
        if value.iter().all(|&byte| byte == 0) {
            visit((number + 1) * unit);
        }
    }
}
