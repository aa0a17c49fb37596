//! Numbers for lists of words: equal lists have the same.

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Lists of words, each kept once.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    words: Vec<u32>,
    ends: Vec<u32>,
    table: HashTable<u32>,
}

fn hash(words: &[u32]) -> u64 {
    FixedState::with_seed(0).hash_one(words)
}

fn range(ends: &[u32], number: usize) -> Range<usize> {
    let start = if number == 0 { 0 } else { ends[number - 1] as usize };
    start..ends[number] as usize
}

impl Lists {
    /// The number of a list, and whether it is new.
    pub fn intern(&mut self, list: &[u32]) -> (u32, bool) {
        let Self { words, ends, table } = self;
        let of = |number: u32| &words[range(ends, number as usize)];
        let hashed = hash(list);
        if let Some(&number) = table.find(hashed, |&number| of(number) == list) {
            return (number, false);
        }
        let number = ends.len() as u32;
        words.extend_from_slice(list);
        ends.push(words.len() as u32);
        let of = |number: u32| &words[range(ends, number as usize)];
        table.insert_unique(hashed, number, |&number| hash(of(number)));
        (number, true)
    }

    /// The list of a number that was handed out.
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
