//! Name interning: the hash table that gives each different global name its number.
//!
//! Every name of every object, library and archive member passes through this table, so it is one of the
//! larger costs of a link. Two things make it fast.
//!
//! **No locks.** Some bits of a name's hash choose one of a fixed number of shards. The files' names are
//! first sorted into a list for each shard; then one thread fills each shard, from the lists in file order.
//! No two threads write to one shard, and a name's number depends on the inputs only. With one table for all
//! threads, they would wait for each other, and the numbers would depend on which came first.
//!
//! **Fewer waits for memory.** A look-up waits for memory three times: for the slot, for the place of the
//! name that the slot leads to, and for that name's bytes, which lie in some other file. One look-up cannot
//! begin a wait before the one before it ends, but different look-ups can wait at the same time. So a shard
//! takes its names in windows of 16: it reads the memory that all names of a window need before it looks up
//! the first one.

use crate::ids::SymbolId;
use crate::rows::joined;
use parallel::{IntoParallel, ParallelSlice};
use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of shards. It is a constant, because ids must not depend on the number of threads.
pub const SHARDS: usize = 32;

/// A name with its hash.
#[derive(Clone, Copy, Debug)]
pub struct HashedName<'a> {
    /// Its bytes.
    pub name: &'a [u8],
    /// The [`hash`] of these bytes.
    pub hash: u64,
}

impl<'a> HashedName<'a> {
    /// Hashes a name.
    #[inline]
    pub fn new(name: &'a [u8]) -> Self {
        HashedName { name, hash: hash(name) }
    }
}

/// The hash of a name. It is the same in every run.
#[inline]
pub fn hash(name: &[u8]) -> u64 {
    foldhash::fast::FixedState::with_seed(0x5f72_616d_6521).hash_one(name)
}

/// The shard of a hash. The bits from 40 up choose it, because the shard's table uses the low half.
#[inline]
fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// Names of one or several files, split by shard. The slot of a name is its position in the list of ids that
/// [`Interner::build`] gives for the batch.
#[derive(Default)]
pub struct Batch<'a> {
    shards: Vec<Vec<Pushed<'a>>>,
    slots: u32,
}

/// A name of a batch. A large link has millions of them, so each is kept to 24 bytes.
#[derive(Clone, Copy)]
struct Pushed<'a> {
    name: &'a [u8],
    /// The low half of its hash, which the shard's table uses.
    hash: u32,
    slot: u32,
}

impl<'a> Batch<'a> {
    /// A batch with room for `names` names whose hashes spread evenly.
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
        let HashedName { name, hash } = name;
        self.shards[shard_of(hash)].push(Pushed { name, hash: hash as u32, slot });
        self.slots += 1;
        slot
    }

    /// How many names were pushed.
    pub fn len(&self) -> usize {
        self.slots as usize
    }

    /// Whether no name was pushed.
    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }
}

/// Smallest page size of the three machines, in bytes.
const PAGE: usize = 4096;

/// A hash table with open addressing. It holds the numbers of names; the names themselves are elsewhere.
#[derive(Default)]
struct Slots {
    /// The slots; their count is a power of two. The upper 32 bits of a slot are the low half of a name's
    /// hash, the lower 32 bits are the name's number plus one. A free slot is 0.
    words: Vec<u64>,
    used: usize,
}

impl Slots {
    /// A table that holds `names` names before it grows.
    fn with_capacity(names: usize) -> Slots {
        let mut words = vec![0; (2 * names).next_power_of_two().max(16)];
        // Writes every page once. If the first access to a fresh page is a read, the kernel maps the page of
        // zeros that all processes share, and the first write must then change the mapping on all processors.
        // `black_box` keeps the compiler from leaving the writes out.
        words.iter_mut().step_by(PAGE / size_of::<u64>()).for_each(|word| *word = black_box(0));
        Slots { words, used: 0 }
    }

    #[inline]
    fn start(&self, hash: u32) -> usize {
        hash as usize & (self.words.len() - 1)
    }

    /// The number of the name that has this hash and for which `same` holds.
    ///
    /// # Errors
    /// If there is no such name: the free slot where the search ended, for [`Self::add`].
    #[inline]
    fn find(&self, hash: u32, same: impl Fn(u32) -> bool) -> Result<u32, usize> {
        if self.words.is_empty() {
            return Err(0);
        }
        let mut at = self.start(hash);
        loop {
            let word = self.words[at];
            if word == 0 {
                return Err(at);
            }
            if (word >> 32) as u32 == hash && same(word as u32 - 1) {
                return Ok(word as u32 - 1);
            }
            at = (at + 1) & (self.words.len() - 1);
        }
    }

    /// Adds a name that [`Self::find`] did not find, into the free slot that `find` returned.
    fn add(&mut self, slot: usize, hash: u32, number: u32) {
        let word = u64::from(hash) << 32 | u64::from(number + 1);
        self.used += 1;
        if 2 * self.used <= self.words.len() {
            self.words[slot] = word;
            return;
        }
        let grown = Slots::with_capacity(2 * self.used);
        let old = std::mem::replace(&mut self.words, grown.words);
        for word in old.into_iter().filter(|word| *word != 0).chain([word]) {
            let mut at = self.start((word >> 32) as u32);
            while self.words[at] != 0 {
                at = (at + 1) & (self.words.len() - 1);
            }
            self.words[at] = word;
        }
    }

    /// The number of the name that a search would most likely compare first.
    #[inline]
    fn candidate(&self, hash: u32) -> Option<u32> {
        let word = self.words[self.start(hash)];
        ((word >> 32) as u32 == hash && word != 0).then(|| word as u32 - 1)
    }
}

/// The map from names to the numbers of globals.
#[derive(Default)]
pub struct Interner {
    shards: Vec<Slots>,
    /// First id of each shard.
    bases: Vec<u32>,
    /// Names that were added one by one after the shards were filled.
    late: Slots,
}

impl Interner {
    /// Makes the map of all names of all batches. Also returns, for each batch, the global of each of its
    /// slots, and for each global its name.
    pub fn build<'a>(batches: &[Batch<'a>]) -> (Self, Vec<Vec<SymbolId>>, Names<'a>) {
        // Each slot is in the list of exactly one shard, and that shard's thread stores the slot's id.
        let slots: Vec<Vec<AtomicU32>> =
            batches.par_iter().map(|batch| (0..batch.len()).map(|_| AtomicU32::new(0)).collect()).collect();
        let filled: Vec<(Slots, Names<'a>)> = (0..SHARDS)
            .into_par_iter()
            .with_max_len(1)
            .map(|number| fill_shard(number, batches, &slots))
            .collect();
        let mut bases = Vec::with_capacity(SHARDS);
        let mut count = 0u32;
        for (_, names) in &filled {
            bases.push(count);
            count = u32::try_from(names.all.len())
                .ok()
                .and_then(|names| count.checked_add(names))
                .expect("fewer than 2^32 global names");
        }
        let ids = batches
            .par_iter()
            .zip(slots)
            .with_max_len(1)
            .map(|(batch, slots)| {
                let mut ids: Vec<SymbolId> =
                    slots.into_iter().map(|slot| SymbolId(slot.into_inner())).collect();
                for (number, list) in batch.shards.iter().enumerate() {
                    for pushed in list {
                        ids[pushed.slot as usize].0 += bases[number];
                    }
                }
                ids
            })
            .collect();
        // Leaves room for names that the linker adds itself.
        const MORE: usize = 4096;
        let (shards, names): (Vec<Slots>, Vec<Names<'a>>) = filled.into_iter().unzip();
        let all: Vec<&[&[u8]]> = names.iter().map(|own| &own.all[..]).collect();
        let first_mentions: Vec<&[u32]> = names.iter().map(|own| &own.first_mentions[..]).collect();
        let names = Names { all: joined(&all, MORE, &[]), first_mentions: joined(&first_mentions, MORE, 0) };
        (Interner { shards, bases, late: Slots::default() }, ids, names)
    }

    /// The global of a name. `names` are the names of all globals.
    pub fn get(&self, name: &[u8], names: &[&[u8]]) -> Option<SymbolId> {
        self.find(HashedName::new(name), names)
    }

    /// As [`Self::get`], for a name whose hash is known.
    pub fn find(&self, name: HashedName<'_>, names: &[&[u8]]) -> Option<SymbolId> {
        let HashedName { name, hash } = name;
        let number = shard_of(hash);
        if let (Some(shard), Some(base)) = (self.shards.get(number), self.bases.get(number))
            && let Ok(id) = shard.find(hash as u32, |id| names[(base + id) as usize] == name)
        {
            return Some(SymbolId(base + id));
        }
        self.late.find(hash as u32, |id| names[id as usize] == name).ok().map(SymbolId)
    }

    /// Makes the last one of `names` a global. It must not be one yet.
    pub fn add_last(&mut self, names: &[&[u8]]) -> SymbolId {
        let id = names.len() as u32 - 1;
        let hash = hash(names[id as usize]) as u32;
        if let Err(slot) = self.late.find(hash, |_| false) {
            self.late.add(slot, hash, id);
        }
        SymbolId(id)
    }
}

/// The names of globals.
pub struct Names<'a> {
    /// By global: its name.
    pub all: Vec<&'a [u8]>,
    /// By global: how many names the files mention before they first mention this one.
    pub first_mentions: Vec<u32>,
}

impl Names<'_> {
    fn with_capacity(count: usize) -> Self {
        Names { all: Vec::with_capacity(count), first_mentions: Vec::with_capacity(count) }
    }
}

/// How many names are looked up together.
const WINDOW: usize = 16;

fn fill_shard<'a>(number: usize, batches: &[Batch<'a>], slots: &[Vec<AtomicU32>]) -> (Slots, Names<'a>) {
    let total: usize = batches.iter().filter_map(|batch| batch.shards.get(number)).map(Vec::len).sum();
    // Most names are mentioned by several objects, so half of the mentions is room enough; the table grows if
    // not.
    let mut table = Slots::with_capacity(total / 2);
    // Reserves the most there can be: unused room costs nothing, but growing copies.
    let Names { all: mut names, mut first_mentions } = Names::with_capacity(total);
    let mut before = 0u32;
    for (batch, slots) in batches.iter().zip(slots) {
        let Some(list) = batch.shards.get(number) else { continue };
        for window in list.chunks(WINDOW) {
            touch(window, &table, &names);
            for &Pushed { name, hash, slot } in window {
                let id = table.find(hash, |id| names[id as usize] == name).unwrap_or_else(|free| {
                    let id = names.len() as u32;
                    table.add(free, hash, id);
                    names.push(name);
                    first_mentions.push(before.saturating_add(slot));
                    id
                });
                slots[slot as usize].store(id, Ordering::Relaxed);
            }
        }
        before = before.saturating_add(batch.len() as u32);
    }
    (table, Names { all: names, first_mentions })
}

/// Reads the memory that the look-ups of these names will read. These reads do not depend on each other, so
/// the processor waits once for all names, and not once for each.
#[inline]
fn touch(window: &[Pushed<'_>], table: &Slots, names: &[&[u8]]) {
    let mut candidates = [None; WINDOW];
    for (pushed, candidate) in window.iter().zip(&mut candidates) {
        *candidate = table.candidate(pushed.hash);
    }
    let candidates = candidates.into_iter().flatten().map(|number| names[number as usize]);
    let firsts = window.iter().map(|pushed| pushed.name).chain(candidates).filter_map(|name| name.first());
    black_box(firsts.fold(0, |all, first| all ^ first));
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
        let (mut interner, ids, Names { all: mut names, first_mentions }) = Interner::build(&[first, second]);
        let mentions = |batch: usize, slot: usize| first_mentions[ids[batch][slot].index()];
        assert_eq!([mentions(0, 0), mentions(0, 1), mentions(1, 0)], [0, 1, 3]);
        assert_eq!(ids[0][0], ids[0][2]);
        assert_eq!(ids[0][1], ids[1][1]);
        assert_eq!(names.len(), 3);
        for (id, name) in names.iter().enumerate() {
            assert_eq!(interner.get(name, &names), Some(SymbolId(id as u32)));
        }
        assert_eq!(interner.get(b"late", &names), None);
        names.push(b"late");
        assert_eq!(interner.add_last(&names), SymbolId(3));
        assert_eq!(interner.get(b"late", &names), Some(SymbolId(3)));
    }

    #[test]
    fn a_table_that_grows_keeps_its_names() {
        let all: Vec<Vec<u8>> = (0..5000u32).map(|number| format!("name{number}").into_bytes()).collect();
        let mut batch = Batch::default();
        for name in &all[..4000] {
            batch.push(HashedName::new(name));
        }
        let (mut interner, _, Names { all: mut names, .. }) = Interner::build(&[batch]);
        for name in &all[4000..] {
            names.push(name);
            interner.add_last(&names);
        }
        for name in &all {
            let id = interner.get(name, &names).unwrap();
            assert_eq!(names[id.index()], name);
        }
        assert_eq!(interner.get(b"name5000", &names), None);
    }

    #[test]
    fn names_of_one_hash_stay_apart() {
        let mut table = Slots::with_capacity(1);
        for number in 0..40 {
            let free = table.find(7, |_| false).unwrap_err();
            table.add(free, 7, number);
        }
        for number in 0..40 {
            assert_eq!(table.find(7, |other| other == number), Ok(number));
        }
    }
}
