//! A shard: the different pieces among those whose hashes have the same top bits. One thread fills it.

use super::block::Block;
use super::pieces::Pieces;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parallel::ParallelSort;
use std::sync::atomic::Ordering;

/// The different pieces of a shard, in the order of their first occurrence.
#[derive(Debug, Default)]
pub struct Shard<'a> {
    /// Their bytes.
    pieces: Vec<&'a [u8]>,
    /// Alignment of each, as a power of two: the largest that any occurrence had.
    aligns: Vec<u8>,
    /// Pieces that share the end of another piece: (the piece, the other piece). If the other piece itself
    /// shares a third one's end, its own pair comes earlier, so its offset is known by then.
    shared: Vec<(u32, u32)>,
    /// Offset of each piece in the shard, in bytes.
    pub offsets: Vec<u32>,
    /// Size of all pieces in bytes, with the gaps that alignment needs.
    pub size: u64,
    /// Largest alignment of a piece, as a power of two.
    pub align: u8,
}

impl<'a> Shard<'a> {
    /// Takes the pieces of this shard from all blocks. It leaves the number of each piece in the block's
    /// cell.
    pub fn fill(number: usize, pieces: Pieces, blocks: &[Block<'a>]) -> Self {
        let mut shard = Shard::default();
        let mut table: HashTable<(u32, u32)> = HashTable::new();
        for block in blocks {
            block.for_each_in_shard(pieces, number, |cell, bytes, align| {
                let hash = cell.load(Ordering::Relaxed);
                let same = |&(other, row): &(u32, u32)| other == hash && shard.pieces[row as usize] == bytes;
                let row = match table.entry(spread(hash), same, |&(hash, _)| spread(hash)) {
                    Entry::Occupied(entry) => entry.get().1,
                    Entry::Vacant(entry) => {
                        let row = shard.pieces.len() as u32;
                        entry.insert((hash, row));
                        shard.pieces.push(bytes);
                        shard.aligns.push(align);
                        row
                    }
                };
                let known = &mut shard.aligns[row as usize];
                *known = align.max(*known);
                cell.store(row, Ordering::Relaxed);
            });
        }
        shard
    }

    /// Finds the strings that are the end of another one, as `able` is of `table`. The strings are sorted by
    /// their bytes read backwards. A string that is the end of any others then stands directly before one of
    /// them, so only neighbours are compared.
    pub fn share_tails(&mut self) {
        let mut order: Vec<u32> = (0..self.pieces.len() as u32).collect();
        let backwards = |row: &u32| self.pieces[*row as usize].iter().rev();
        order.par_sort_unstable_by(|a, b| backwards(a).cmp(backwards(b)));
        for pair in order.windows(2).rev() {
            let (piece, other) = (pair[0] as usize, pair[1] as usize);
            let (own, longer) = (self.pieces[piece], self.pieces[other]);
            let align = self.aligns[piece];
            let distance = (longer.len() - own.len().min(longer.len())) as u64;
            // The other piece may go to any address that its own alignment allows, and this piece must be
            // aligned there.
            let aligned = align <= self.aligns[other] && distance.is_multiple_of(1 << align.min(63));
            if aligned && longer.ends_with(own) {
                self.shared.push((pair[0], pair[1]));
            }
        }
    }

    /// Gives each piece its offset. Pieces of larger alignment come first; pieces of one alignment keep the
    /// order of their first occurrence. An offset that 32 bits cannot hold is cut; the size, which has 64
    /// bits, shows that.
    pub fn assign_offsets(&mut self) {
        let mut present = 0u64;
        for &align in &self.aligns {
            present |= 1 << align.min(63);
        }
        const SHARED: u8 = u8::MAX;
        for &(piece, _) in &self.shared {
            self.aligns[piece as usize] = SHARED;
        }
        self.offsets = vec![0; self.pieces.len()];
        self.align = 63u32.saturating_sub(present.leading_zeros()) as u8;
        let mut size = 0u64;
        for class in (0..64).rev().filter(|class| present >> class & 1 != 0) {
            for ((piece, align), offset) in self.pieces.iter().zip(&self.aligns).zip(&mut self.offsets) {
                if *align == class {
                    size = size.next_multiple_of(1 << class);
                    *offset = size as u32;
                    size += piece.len() as u64;
                }
            }
        }
        for &(piece, other) in &self.shared {
            let distance = self.pieces[other as usize].len() - self.pieces[piece as usize].len();
            self.offsets[piece as usize] = self.offsets[other as usize].wrapping_add(distance as u32);
        }
        self.size = size;
        self.aligns = Vec::new();
    }

    /// Writes all pieces, with zeros between them.
    pub fn write(&self, out: &mut [u8]) {
        if self.align > 0 {
            out.fill(0);
        }
        for (piece, &offset) in self.pieces.iter().zip(&self.offsets) {
            out[offset as usize..][..piece.len()].copy_from_slice(piece);
        }
    }
}

/// Spreads a hash over 64 bits, because the table takes bits from both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
