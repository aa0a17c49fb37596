//! Numbers lists of words. Equal lists have the same number.

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Lists of words, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    words: Vec<u32>,
    ends: Vec<u32>,
}

impl Words {
    /// Makes room for so many more lists of `words` words in all.
    pub fn reserve(&mut self, lists: usize, words: usize) {
        self.words.reserve(words);
        self.ends.reserve(lists);
    }

    /// Appends a list.
    pub fn push(&mut self, list: impl IntoIterator<Item = u32>) {
        self.words.extend(list);
        self.ends.push(self.words.len() as u32);
    }

    /// The same, of words that lie behind one another.
    pub fn push_slice(&mut self, list: &[u32]) {
        self.words.extend_from_slice(list);
        self.ends.push(self.words.len() as u32);
    }

    /// The list with a number.
    pub fn get(&self, number: u32) -> &[u32] {
        &self.words[self.range(number as usize)]
    }

    fn range(&self, number: usize) -> Range<usize> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] as usize };
        start..self.ends[number] as usize
    }

    /// How many lists there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// All lists in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|number| &self.words[self.range(number)])
    }

    /// How many words all lists have.
    pub fn total(&self) -> usize {
        self.words.len()
    }
}

/// A list's hash. Few bits are enough, because lists are compared, too.
pub(crate) fn hash(list: &[u32]) -> u32 {
    FixedState::with_seed(0).hash_one(list) as u32
}

/// A number of a list, and the list's hash. The hash is stored, because hashing all lists again whenever the
/// table grows would take longer than all other work.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    number: u32,
}

/// Finds numbers of lists, which lie elsewhere, by what the lists hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(HashTable<Entry>);

impl Numbers {
    /// The table takes a bucket from the low bits and a tag from the high bits.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, count: usize) {
        self.0.reserve(count, |old| Self::spread(old.hash));
    }

    /// The number with this hash for which `is_same` says so.
    pub fn find(&self, hash: u32, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.0.find(Self::spread(hash), |old| old.hash == hash && is_same(old.number));
        found.map(|found| found.number)
    }

    /// Adds a number that was not found.
    pub fn add(&mut self, hash: u32, number: u32) {
        self.0.insert_unique(Self::spread(hash), Entry { hash, number }, |old| Self::spread(old.hash));
    }
}

/// Lists of words, each stored once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    lists: Words,
    numbers: Numbers,
}

impl Lists {
    /// Makes room for so many more lists of `words` words each.
    pub fn reserve(&mut self, lists: usize, words: usize) {
        self.lists.reserve(lists, lists.saturating_mul(words));
        self.numbers.reserve(lists);
    }

    /// The number of a list, and whether it is new.
    pub fn intern(&mut self, list: &[u32]) -> (u32, bool) {
        let hash = hash(list);
        if let Some(known) = self.numbers.find(hash, |number| self.lists.get(number) == list) {
            return (known, false);
        }
        let number = self.lists.len() as u32;
        self.lists.push_slice(list);
        self.numbers.add(hash, number);
        (number, true)
    }

    /// The lists by number.
    pub fn words(&self) -> &Words {
        &self.lists
    }

    /// The same, when no other will be added.
    pub fn into_words(self) -> Words {
        self.lists
    }
}
