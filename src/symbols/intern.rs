//! The hash table from names to global symbols.
//!
//! Every name is hashed once. The top bits of the hash choose one of a fixed number of shards;
//! each shard is filled by one thread, from lists that are in file order, so that ids depend on
//! the inputs only and no lock is taken. The stored hash is compared before the bytes.

use crate::ids::SymbolId;
use hashbrown::HashTable;
use rayon::prelude::*;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of shards. A constant: ids must not depend on the number of threads.
pub const SHARDS: usize = 32;

/// A name with its hash.
#[derive(Clone, Copy, Debug)]
pub struct HashedName<'a> {
    /// The bytes.
    pub name: &'a [u8],
    /// [`hash`] of them.
    pub hash: u64,
}

impl<'a> HashedName<'a> {
    /// Hashes a name.
    #[inline]
    pub fn new(name: &'a [u8]) -> Self {
        HashedName { name, hash: hash(name) }
    }
}

/// The hash of a name: the same in every run.
#[inline]
pub fn hash(name: &[u8]) -> u64 {
    foldhash::fast::FixedState::with_seed(0x5f72_616d_6521).hash_one(name)
}

#[inline]
fn shard_of(hash: u64) -> usize {
    // hashbrown takes its bucket from the low bits and its tags from the top seven.
    (hash >> 40) as usize % SHARDS
}

/// One file's or batch's names, split by shard; slots are positions in the batch's output.
#[derive(Default)]
pub struct Batch<'a> {
    shards: Vec<Vec<(HashedName<'a>, u32)>>,
    slots: u32,
}

impl<'a> Batch<'a> {
    /// A batch with room for so many names, if their hashes spread evenly.
    pub fn with_capacity(names: usize) -> Self {
        let room = names / SHARDS + names / (8 * SHARDS);
        Batch { shards: (0..SHARDS).map(|_| Vec::with_capacity(room)).collect(), slots: 0 }
    }

    /// Adds a name and returns its slot in the batch.
    #[inline]
    pub fn push(&mut self, name: HashedName<'a>) -> u32 {
        if self.shards.is_empty() {
            self.shards = (0..SHARDS).map(|_| Vec::new()).collect();
        }
        let slot = self.slots;
        self.shards[shard_of(name.hash)].push((name, slot));
        self.slots += 1;
        slot
    }

    /// Number of names pushed.
    pub fn len(&self) -> usize {
        self.slots as usize
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }
}

#[derive(Default)]
struct Shard<'a> {
    table: HashTable<(HashedName<'a>, u32)>,
    names: Vec<&'a [u8]>,
}

/// The map from names to globals.
#[derive(Default)]
pub struct Interner<'a> {
    shards: Vec<Shard<'a>>,
    /// First id of each shard.
    bases: Vec<u32>,
    /// Names that were added one by one, after the shards were frozen.
    late: HashTable<(HashedName<'a>, u32)>,
    count: u32,
}

impl<'a> Interner<'a> {
    /// Makes the map of all names of all batches. Gives back the globals of each batch's slots and
    /// the name of each global.
    pub fn build(batches: &[Batch<'a>]) -> (Self, Vec<Vec<SymbolId>>, Vec<&'a [u8]>) {
        // Every slot is in the list of one shard, which stores its id.
        let slots: Vec<Vec<AtomicU32>> =
            batches.par_iter().map(|batch| (0..batch.len()).map(|_| AtomicU32::new(0)).collect()).collect();
        let mut shards: Vec<Shard<'a>> =
            (0..SHARDS).into_par_iter().map(|number| fill_shard(number, batches, &slots)).collect();
        let mut bases = Vec::with_capacity(SHARDS);
        let mut count = 0u32;
        for shard in &shards {
            bases.push(count);
            count = u32::try_from(shard.names.len())
                .ok()
                .and_then(|names| count.checked_add(names))
                .expect("fewer than 2^32 global names");
        }
        let ids = batches
            .par_iter()
            .zip(slots)
            .map(|(batch, slots)| {
                let mut ids: Vec<SymbolId> =
                    slots.into_iter().map(|slot| SymbolId(slot.into_inner())).collect();
                for (number, list) in batch.shards.iter().enumerate() {
                    for &(_, slot) in list {
                        ids[slot as usize].0 += bases[number];
                    }
                }
                ids
            })
            .collect();
        let mut names = Vec::with_capacity(count as usize);
        for shard in &mut shards {
            names.append(&mut shard.names);
        }
        (Interner { shards, bases, late: HashTable::new(), count }, ids, names)
    }

    /// The global of a name.
    pub fn get(&self, name: &[u8]) -> Option<SymbolId> {
        let hash = hash(name);
        let same = |entry: &(HashedName<'a>, u32)| entry.0.hash == hash && entry.0.name == name;
        let number = shard_of(hash);
        if let Some(shard) = self.shards.get(number)
            && let Some(&(_, id)) = shard.table.find(hash, same)
        {
            return Some(SymbolId(self.bases[number] + id));
        }
        self.late.find(hash, same).map(|&(_, id)| SymbolId(id))
    }

    /// The global of a name, made if there is none. A made one has the next free row; the caller
    /// extends the table's vectors.
    pub fn get_or_add(&mut self, name: &'a [u8]) -> (SymbolId, bool) {
        if let Some(id) = self.get(name) {
            return (id, false);
        }
        let hashed = HashedName::new(name);
        let id = self.count;
        self.count += 1;
        self.late.insert_unique(hashed.hash, (hashed, id), |entry| entry.0.hash);
        (SymbolId(id), true)
    }
}

fn fill_shard<'a>(number: usize, batches: &[Batch<'a>], slots: &[Vec<AtomicU32>]) -> Shard<'a> {
    let mut shard = Shard::default();
    for (batch, slots) in batches.iter().zip(slots) {
        let Some(list) = batch.shards.get(number) else { continue };
        for &(name, slot) in list {
            let same = |entry: &(HashedName<'a>, u32)| entry.0.hash == name.hash && entry.0.name == name.name;
            let entry = shard.table.entry(name.hash, same, |entry| entry.0.hash);
            let id = match entry {
                hashbrown::hash_table::Entry::Occupied(entry) => entry.get().1,
                hashbrown::hash_table::Entry::Vacant(entry) => {
                    let id = shard.names.len() as u32;
                    shard.names.push(name.name);
                    entry.insert((name, id));
                    id
                }
            };
            slots[slot as usize].store(id, Ordering::Relaxed);
        }
    }
    shard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_share_an_id_across_batches() {
        let mut first = Batch::default();
        let mut second = Batch::default();
        for name in [&b"main"[..], b"printf", b"main"] {
            first.push(HashedName::new(name));
        }
        for name in [&b"exit"[..], b"printf"] {
            second.push(HashedName::new(name));
        }
        let (mut interner, ids, names) = Interner::build(&[first, second]);
        assert_eq!(ids[0][0], ids[0][2]);
        assert_eq!(ids[0][1], ids[1][1]);
        assert_eq!(names.len(), 3);
        for (id, name) in names.iter().enumerate() {
            assert_eq!(interner.get(name), Some(SymbolId(id as u32)));
        }
        assert_eq!(interner.get(b"nothing"), None);
        assert_eq!(interner.get_or_add(b"late"), (SymbolId(3), true));
        assert_eq!(interner.get_or_add(b"late"), (SymbolId(3), false));
    }
}
