//! `.gnu.hash`: the hash table that dynamic linkers prefer to `.hash`.
//!
//! A program with fifty libraries asks each of them for each symbol that it imports, and nearly always the
//! answer is no. So the table begins with a Bloom filter, which tells most absent names by one memory access.
//! After a header of four words (number of buckets, first hashed row, words in the filter, shift) come the
//! filter, the first row of each bucket, and the hash of each hashed row. The low bit of a hash is set at the
//! end of its bucket. The rows of a bucket are neighbours in `.dynsym`, so [`super::dynsym`] sorts by
//! [`GnuHashShape::bucket`].
//!
//! An empty table says that row 1 is the first hashed one, as GNU ld's did until 2.44. Newer linkers give the
//! number of symbols there, and UPX, which subtracts the number from the empty bucket, takes the table for
//! one that is cut off.

use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::tables::dynamic_tables::{DynamicTables, GnuHashShape};
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, WORD};
use zerocopy::byteorder::{U32, U64};

/// `.gnu.hash`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let wanted = link.is_dynamic() && link.config.dynamic.hash_style.gnu;
            let (name, sh_type) = (b".gnu.hash", elf::SHT_GNU_HASH);
            wanted.then(|| SyntheticSection::new(Kind::GnuHash, name, sh_type, READ_ONLY, WORD)).into()
        }),
        size: Size::Numbered(|link| bytes(link.dynamic.gnu_hash.size())),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write::<T>(&link.dynamic, out)),
    }
}

/// The hash of a name (Bernstein's, 32 bits).
pub fn hash(name: &[u8]) -> u32 {
    name.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

/// The hash shifted by so many bits chooses the second bit of a name in the filter.
const SHIFT: u32 = 26;

/// Writes the table. `out` has [`GnuHashShape::size`] bytes.
fn write<T: Target>(tables: &DynamicTables<'_>, out: &mut [u8]) {
    let shape = tables.gnu_hash;
    let hashed = tables.symbols.get(tables.first_hashed..).unwrap_or_default();
    let first_row = if hashed.is_empty() { 1 } else { tables.first_hashed as u32 + 1 };
    let hashes: Vec<u32> = hashed.iter().map(|symbol| symbol.gnu_hash).collect();
    let word = |value: u32| U32::<T::E>::new(value).to_bytes();
    let mut position = 0;
    let mut push = |bytes: &[u8]| {
        if let Some(place) = out.get_mut(position..position + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        position += bytes.len();
    };
    for value in [shape.buckets, first_row, shape.filter, SHIFT] {
        push(&word(value));
    }
    for value in filter(shape, &hashes) {
        push(&U64::<T::E>::new(value).to_bytes());
    }
    for value in first_rows(shape, &hashes, first_row) {
        push(&word(value));
    }
    for value in chains(shape, &hashes) {
        push(&word(value));
    }
}

fn filter(shape: GnuHashShape, hashes: &[u32]) -> Vec<u64> {
    let mut words = vec![0u64; shape.filter as usize];
    for &hash in hashes {
        let row = (hash / 64) as usize & (words.len() - 1);
        words[row] |= 1 << (hash % 64) | 1 << ((hash >> SHIFT) % 64);
    }
    words
}

fn first_rows(shape: GnuHashShape, hashes: &[u32], first_row: u32) -> Vec<u32> {
    let mut rows = vec![0u32; shape.buckets as usize];
    for (row, &hash) in (first_row..).zip(hashes) {
        let bucket = &mut rows[shape.bucket(hash) as usize];
        if *bucket == 0 {
            *bucket = row;
        }
    }
    rows
}

fn chains(shape: GnuHashShape, hashes: &[u32]) -> impl Iterator<Item = u32> + '_ {
    hashes.iter().enumerate().map(move |(index, &hash)| {
        let next = hashes.get(index + 1).map(|&next| shape.bucket(next));
        let ends = next != Some(shape.bucket(hash));
        hash & !1 | u32::from(ends)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_published_values() {
        assert_eq!(hash(b""), 0x1505);
        assert_eq!(hash(b"printf"), 0x156b2bb8);
        assert_eq!(hash(b"exit"), 0x7c967e3f);
    }

    #[test]
    fn an_empty_table_has_a_bucket_and_a_filter() {
        assert_eq!(GnuHashShape::new(0), GnuHashShape { buckets: 1, filter: 1, hashed: 0 });
        assert_eq!(GnuHashShape::new(0).size(), 28);
        assert_eq!(GnuHashShape::new(100), GnuHashShape { buckets: 25, filter: 32, hashed: 100 });
    }

    #[test]
    fn every_name_is_found() {
        let mut hashes: Vec<u32> = (0..200).map(|n| hash(format!("symbol_{n}").as_bytes())).collect();
        let shape = GnuHashShape::new(hashes.len());
        hashes.sort_by_key(|&hash| shape.bucket(hash));
        let (filter, first, chains) = (
            filter(shape, &hashes),
            first_rows(shape, &hashes, 7),
            chains(shape, &hashes).collect::<Vec<_>>(),
        );
        for (row, &hash) in (7u32..).zip(&hashes) {
            let word = filter[(hash / 64) as usize & (filter.len() - 1)];
            assert!(word >> (hash % 64) & 1 == 1 && word >> ((hash >> SHIFT) % 64) & 1 == 1);
            let mut at = first[shape.bucket(hash) as usize];
            while at != row {
                assert_eq!(chains[at as usize - 7] & 1, 0, "the bucket ends before {row}");
                at += 1;
            }
            assert_eq!(chains[at as usize - 7] | 1, hash | 1);
        }
    }
}
