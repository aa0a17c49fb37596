//! Numbers lists of words. Equal lists have the same number.

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Lists of words, each stored once.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    words: Vec<u32>,
    ends: Vec<u32>,
    table: HashTable<Entry>,
}

/// A list's number and hash. The hash is stored, because hashing all lists again whenever the table grows
/// would take longer than all other work.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    number: u32,
}

impl Entry {
    /// The table takes a bucket from the low bits and a tag from the high bits.
    fn spread(self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

fn range(ends: &[u32], number: usize) -> Range<usize> {
    let start = if number == 0 { 0 } else { ends[number - 1] as usize };
    start..ends[number] as usize
}

impl Lists {
    /// Makes room for so many more lists of `words` words each.
    pub fn reserve(&mut self, lists: usize, words: usize) {
        self.words.reserve(lists.saturating_mul(words));
        self.ends.reserve(lists);
        self.table.reserve(lists, |old| old.spread());
    }

    /// The number of a list, and whether it is new.
    pub fn intern(&mut self, list: &[u32]) -> (u32, bool) {
        let Self { words, ends, table } = self;
        let number = ends.len() as u32;
        let new = Entry { hash: FixedState::with_seed(0).hash_one(list) as u32, number };
        let is_same = |old: &Entry| old.hash == new.hash && &words[range(ends, old.number as usize)] == list;
        if let Some(old) = table.find(new.spread(), is_same) {
            return (old.number, false);
        }
        words.extend_from_slice(list);
        ends.push(words.len() as u32);
        table.insert_unique(new.spread(), new, |old| old.spread());
        (number, true)
    }

    /// The list with a number that was handed out.
    pub fn get(&self, number: u32) -> &[u32] {
        &self.words[range(&self.ends, number as usize)]
    }

    /// How many lists there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// All lists in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|number| &self.words[range(&self.ends, number)])
    }
}
