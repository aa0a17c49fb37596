//! `.hash`: the gABI's symbol hash table ("Hash Table").

use super::dynsym::is_hidden_base;
use super::synthesis::{Create, Grow, Size, Synthesis, Write, bytes};
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::phase::Placed;
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, WORD};
use zerocopy::byteorder::{U32, U64};

/// `.hash`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let wanted = link.is_dynamic() && link.config.dynamic.hash_style.sysv;
            let section = || SyntheticSection::new(Kind::Hash, b".hash", elf::SHT_HASH, READ_ONLY, WORD);
            wanted.then(|| section().entries(T::SYSV_HASH_ENTRY)).into()
        }),
        size: Size::Numbered(|link| bytes(size::<T>(link.dynamic.symbols.len() + 1))),
        grow: Grow::Never,
        write: Write::Bytes(|link, _, out| write::<T>(link, out)),
    }
}

/// The gABI's hash of a name. Versions use it, too.
pub fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |hash, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

/// The number of buckets for this many rows of `.dynsym`: one for two rows, and an odd number, so that all
/// bits of the hash count.
fn buckets(rows: usize) -> usize {
    (rows / 2) | 1
}

/// The size in bytes for this many rows of `.dynsym`, including the null one.
fn size<T: Target>(rows: usize) -> u64 {
    (2 + buckets(rows) + rows) as u64 * T::SYSV_HASH_ENTRY
}

/// Writes the table.
fn write<T: Target>(link: &Placed<'_, T>, out: &mut [u8]) {
    let symbols = &link.dynamic.symbols;
    let hashed = |base: bool| {
        let is_wanted = move |id| is_hidden_base(link, id) == base;
        let rows = (1u32..).zip(symbols).filter(move |(_, symbol)| is_wanted(symbol.id));
        rows.map(|(row, symbol)| (row, hash(symbol.name)))
    };
    // Rows that come later are found earlier.
    let words = table(symbols.len() + 1, hashed(false).chain(hashed(true)));
    let entry = T::SYSV_HASH_ENTRY as usize;
    for (place, word) in out.chunks_exact_mut(entry).zip(words) {
        if entry == 8 {
            place.copy_from_slice(&U64::<T::E>::new(word.into()).to_bytes());
        } else {
            place.copy_from_slice(&U32::<T::E>::new(word).to_bytes());
        }
    }
}

/// The words of the table: the numbers of buckets and chains, the first row of each bucket, the next row of
/// each row. Of the rows and their hashes, the last one of a bucket is its first row.
fn table(rows: usize, hashes: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let buckets = buckets(rows);
    let mut words = vec![0u32; 2 + buckets + rows];
    words[0] = buckets as u32;
    words[1] = rows as u32;
    for (row, hash) in hashes {
        let bucket = 2 + hash as usize % buckets;
        words[2 + buckets + row as usize] = words[bucket];
        words[bucket] = row;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_published_values() {
        assert_eq!(hash(b""), 0);
        assert_eq!(hash(b"printf"), 0x077905a6);
        assert_eq!(hash(b"GLIBC_2.2.5"), 0x09691a75);
    }

    #[test]
    fn every_row_is_found() {
        let names: Vec<Vec<u8>> = (0..100).map(|n| format!("symbol_{n}").into_bytes()).collect();
        let words = table(101, (1..).zip(names.iter().map(|name| hash(name))));
        let buckets = words[0] as usize;
        for (row, name) in (1u32..).zip(&names) {
            let mut at = words[2 + hash(name) as usize % buckets];
            while at != row {
                assert_ne!(at, 0, "the chain ends before {row}");
                at = words[2 + buckets + at as usize];
            }
        }
    }
}
