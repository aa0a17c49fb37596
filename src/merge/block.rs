//! A block: the pieces of a run of sections, and the look-up of a piece by an offset in its section.
//!
//! Strings differ in length, so an offset alone does not tell which string holds it. A sorted list of starts
//! would need a binary search for each relocation, and every step of it may wait for memory. So a block keeps
//! a bit for each byte of a section, set where a string starts, in words of 64 bits:
//!
//! ```text
//! offset  0 1 2 3 4 5 6 7 8 9 ...
//! byte    o n e 0 t w o 0 t h r e e 0
//! bit     1 0 0 0 1 0 0 0 1 0 0 0 0 0
//! ```
//!
//! Two bits are set up to offset 6, so the second string holds it; the higher of them, 4, is where the string
//! starts. Each word also has the number of strings before it and the start of the last of them. One look at
//! memory answers, however long or short the strings are.

use super::pieces::{MergeInput, Pieces};
use super::used::{UsedOffsets, UsedPieces};
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// What stands for the hash, the number and the offset of a piece that is left out. A hash is made smaller,
/// and no piece starts there, because a merged section ends at this offset at the latest.
const DROPPED: u32 = u32::MAX;

/// Bytes of a section that one [`StartBits`] describes.
const BYTES_PER_WORD: usize = 64;

/// Where strings start in 64 bytes of a section.
#[derive(Clone, Copy, Debug)]
struct StartBits {
    /// A bit for each byte, set if a string starts there. The lowest bit is the first byte's.
    starts: u64,
    /// How many strings of the section start before these bytes.
    before: u32,
    /// Where the last string before these bytes starts, as an offset in the section.
    last_start: u32,
}

/// A section of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockSection<'a> {
    /// Its contents.
    pub bytes: &'a [u8],
    /// Its alignment as a power of two.
    pub align: u8,
    /// The first of its pieces, as a row of the block's pieces.
    pub first: u32,
    /// The row behind the last of them.
    pub end: u32,
    /// The first of its words in [`Block::start_bits`].
    first_word: u32,
}

/// The pieces of a run of sections.
#[derive(Debug)]
pub struct Block<'a> {
    /// The sections, in input order.
    pub sections: Vec<BlockSection<'a>>,
    /// Start of each string in its section, until offsets are known. It is empty for constants, because a
    /// constant's number gives its start.
    starts: Vec<u32>,
    /// Where strings start: one word for every [`BYTES_PER_WORD`] bytes of each section. It is empty for
    /// constants.
    start_bits: Vec<StartBits>,
    /// One cell for each piece. It holds the piece's hash first, then its number in its shard, and in the end
    /// its offset in the merged section. A piece that is left out has [`DROPPED`] throughout.
    targets: Vec<AtomicU32>,
    /// The pieces sorted by shard, then by number, without those that are left out. It is empty if there is
    /// only one shard and no piece can be left out.
    order: Vec<u32>,
    /// End of each shard's run in `order`.
    ends: Vec<u32>,
}

impl<'a> Block<'a> {
    /// Finds and hashes the pieces of these sections, and sorts them by shard. In a section that `used` has,
    /// only the pieces that it names count.
    pub fn split(pieces: Pieces, inputs: &[MergeInput<'a>], used: &UsedOffsets, shards: usize) -> Self {
        let mut block = Block {
            sections: Vec::with_capacity(inputs.len()),
            starts: Vec::new(),
            start_bits: Vec::new(),
            targets: Vec::new(),
            order: Vec::new(),
            ends: Vec::new(),
        };
        match pieces {
            Pieces::Strings { unit } => block.add_strings(unit, inputs, used),
            Pieces::Constants { size } => block.add_constants(size as usize, inputs, used),
        }
        if shards > 1 || inputs.iter().any(|input| used.contains(input.section)) {
            block.order_by_shard(shards);
        }
        block
    }

    fn add_constants(&mut self, size: usize, inputs: &[MergeInput<'a>], used: &UsedOffsets) {
        self.targets.reserve_exact(inputs.iter().map(|input| input.bytes.len() / size).sum());
        for &MergeInput { section, bytes, align } in inputs {
            let first = self.targets.len() as u32;
            let used = used.of(section);
            let starts = (0..bytes.len()).step_by(size);
            self.targets.extend(starts.map(|start| cell(bytes, start..start + size, used)));
            let end = self.targets.len() as u32;
            self.sections.push(BlockSection { bytes, align, first, end, first_word: 0 });
        }
    }

    fn add_strings(&mut self, unit: u32, inputs: &[MergeInput<'a>], used: &UsedOffsets) {
        let words = inputs.iter().map(|input| input.bytes.len().div_ceil(BYTES_PER_WORD));
        self.start_bits.reserve_exact(words.sum());
        let mut end = 0;
        for &MergeInput { bytes, align, .. } in inputs {
            let (first, first_word) = (end, self.start_bits.len() as u32);
            end += self.add_start_bits(unit, bytes);
            self.sections.push(BlockSection { bytes, align, first, end, first_word });
        }
        self.starts.reserve_exact(end as usize);
        self.targets.reserve_exact(end as usize);
        self.hash_strings(inputs, used);
    }

    fn hash_strings(&mut self, inputs: &[MergeInput<'a>], used: &UsedOffsets) {
        let mut words = self.start_bits.iter();
        for &MergeInput { section, bytes, .. } in inputs {
            let used = used.of(section);
            let mut last_start = 0;
            for (base, word) in (0..bytes.len()).step_by(BYTES_PER_WORD).zip(&mut words) {
                for bit in bits(word.starts) {
                    let start = base + bit;
                    self.starts.push(start as u32);
                    // The first string of a section has no string before it, whose bytes would end here.
                    if start > 0 {
                        self.targets.push(cell(bytes, last_start..start, used));
                    }
                    last_start = start;
                }
            }
            if !bytes.is_empty() {
                self.targets.push(cell(bytes, last_start..bytes.len(), used));
            }
        }
    }

    /// Adds the words of a section, and returns the number of strings that start in it.
    fn add_start_bits(&mut self, unit: u32, bytes: &[u8]) -> u32 {
        let (mut before, mut last_start) = (0, 0);
        // A string starts at the first byte, and at each byte behind the end of another string.
        let mut carried = 1;
        for (number, bytes) in bytes.chunks(BYTES_PER_WORD).enumerate() {
            let ends = ends_of_strings(unit, bytes);
            let inside = u64::MAX >> (BYTES_PER_WORD - bytes.len());
            let starts = (ends << 1 | carried) & inside;
            carried = ends >> 63;
            self.start_bits.push(StartBits { starts, before, last_start });
            before += starts.count_ones();
            if starts != 0 {
                last_start = (number * BYTES_PER_WORD) as u32 + starts.ilog2();
            }
        }
        before
    }

    /// Sorts the pieces by shard. It is a counting sort, so pieces of one shard stay in input order.
    fn order_by_shard(&mut self, shards: usize) {
        let mut next = vec![0u32; shards];
        let hashes = self.targets.iter().map(|target| target.load(Ordering::Relaxed));
        let kept = (0..).zip(hashes).filter(|&(_, hash)| hash != DROPPED);
        for (_, hash) in kept.clone() {
            next[shard_of(hash, shards)] += 1;
        }
        let mut sum = 0;
        for count in &mut next {
            sum += std::mem::replace(count, sum);
        }
        self.order = vec![0; sum as usize];
        for (piece, hash) in kept {
            let slot = &mut next[shard_of(hash, shards)];
            self.order[*slot as usize] = piece;
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

    /// Calls `visit` with each piece of a shard: the cell that holds its hash, its bytes, and its alignment
    /// as a power of two.
    pub fn for_each_in_shard(
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

    /// Replaces the number of each piece with its offset in the merged section. `shards` has for each shard
    /// the offsets of its pieces in the shard, and the offset of the shard in the merged section.
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
        self.starts = Vec::new();
    }

    /// The piece that holds an offset of the block's section number `section`. Returns the start of the piece
    /// in that section, and its offset in the merged section; `None` if the piece is left out.
    #[inline]
    pub fn find(&self, pieces: Pieces, section: usize, offset: u64) -> Option<(u32, u32)> {
        let section = &self.sections[section];
        let last = section.bytes.len().saturating_sub(1);
        let offset = usize::try_from(offset).map_or(last, |offset| offset.min(last));
        let (piece, start) = match pieces {
            Pieces::Constants { size } => {
                let number = offset / size as usize;
                (section.first as usize + number, (number * size as usize) as u32)
            }
            Pieces::Strings { .. } => {
                let word = &self.start_bits[section.first_word as usize + offset / BYTES_PER_WORD];
                let starts = word.starts & u64::MAX >> (63 - offset % BYTES_PER_WORD);
                let start = match starts {
                    0 => word.last_start,
                    starts => (offset - offset % BYTES_PER_WORD) as u32 + starts.ilog2(),
                };
                (section.first as usize + (word.before + starts.count_ones()) as usize - 1, start)
            }
        };
        let target = self.targets[piece].load(Ordering::Relaxed);
        (target != DROPPED).then_some((start, target))
    }
}

/// The first content of a piece's cell.
fn cell(bytes: &[u8], piece: Range<usize>, used: Option<UsedPieces<'_>>) -> AtomicU32 {
    let is_kept = used.is_none_or(|used| used.any(piece.clone()));
    AtomicU32::new(if is_kept { hash(&bytes[piece]) } else { DROPPED })
}

/// The shard that a hash belongs to. Its top bits choose, because the tables use the low ones.
fn shard_of(hash: u32, shards: usize) -> usize {
    (hash >> 24) as usize % shards
}

fn hash(piece: &[u8]) -> u32 {
    let mut hasher = foldhash::quality::FixedState::with_seed(0x6d65_7267).build_hasher();
    hasher.write(piece);
    (hasher.finish() as u32).min(DROPPED - 1)
}

/// A bit for each of these bytes, set if a string ends with it; the lowest bit is the first byte's. There are
/// at most 64 bytes, and they start with a whole unit.
fn ends_of_strings(unit: u32, bytes: &[u8]) -> u64 {
    let mut padded = [u8::MAX; BYTES_PER_WORD];
    let bytes = bytes.try_into().unwrap_or_else(|_| {
        padded[..bytes.len()].copy_from_slice(bytes);
        &padded
    });
    let zeros = zero_bytes(bytes);
    match unit {
        1 => zeros,
        2 => zeros & zeros << 1 & 0xaaaa_aaaa_aaaa_aaaa,
        _ => zeros & zeros << 1 & zeros << 2 & zeros << 3 & 0x8888_8888_8888_8888,
    }
}

/// The numbers of the bits that are set, from the lowest up.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let rest = word & word.checked_sub(1)?;
        Some(std::mem::replace(&mut word, rest).trailing_zeros() as usize)
    })
}

/// A bit for each byte, set if the byte is zero; the lowest bit is the first byte's.
fn zero_bytes(bytes: &[u8; BYTES_PER_WORD]) -> u64 {
    /// In each byte, all bits but the highest.
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    /// Moves bit 0 of byte n to bit n of the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    bytes.as_chunks::<8>().0.iter().rev().fold(0, |found, &word| {
        let word = u64::from_le_bytes(word);
        // The sum sets a byte's highest bit if any of the lower ones is set, and carries no further.
        let zeros = !((word & LOW).wrapping_add(LOW) | word | LOW) >> 7;
        found << 8 | zeros.wrapping_mul(GATHER) >> 56
    })
}
