//! Remembers what became of FDEs, by all that their rows depend on.
//!
//! Half of a program's functions have the instructions and the size of another one: instances of templates,
//! and functions that are too short to differ. Such an FDE is found here by its bytes, and nothing of it is
//! read again.

use alloc::vec::Vec;

use hashbrown::HashTable;

use super::segments::{hash, is_equal, spread};

/// The FDEs that were read since points were forgotten last.
#[derive(Default)]
pub(super) struct KnownFdes<'data> {
    /// Hashes, and places in `known`.
    table: HashTable<(u32, u32)>,
    known: Vec<(Key<'data>, u32)>,
}

/// What an FDE's rows depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'data> {
    pub instructions: &'data [u8],
    /// The point where its instructions begin.
    pub point: u32,
    pub size: u32,
    /// The kind of its function, and whether it has language-specific data.
    pub kind: u8,
}

impl Key<'_> {
    fn is_same(&self, other: &Self) -> bool {
        let rest = |key: &Self| (key.point, key.size, key.kind);
        rest(self) == rest(other) && is_equal(self.instructions, other.instructions)
    }
}

/// An FDE of which nothing is known.
#[derive(Clone, Copy, Debug)]
pub struct UnknownFde<'data> {
    key: Key<'data>,
    hash: u32,
}

impl<'data> KnownFdes<'data> {
    /// Makes room for so many more.
    pub fn reserve(&mut self, fdes: usize) {
        self.table.reserve(fdes, |&(hash, _)| spread(hash));
        self.known.reserve(fdes);
    }

    /// The number that was remembered for an equal FDE, or what [`KnownFdes::add`] asks for.
    #[inline]
    pub fn find(&self, key: Key<'data>) -> Result<u32, UnknownFde<'data>> {
        let Key { instructions, point, size, kind } = key;
        // Points and kinds are few.
        let begin = u64::from(size) << 32 | u64::from(point << 3 ^ u32::from(kind));
        let hash = hash(begin, instructions);
        let known = |place: u32| &self.known[place as usize];
        let is_same = |&(other, place): &(u32, u32)| other == hash && known(place).0.is_same(&key);
        let found = self.table.find(spread(hash), is_same);
        found.map(|&(_, place)| known(place).1).ok_or(UnknownFde { key, hash })
    }

    /// Remembers a number for an FDE that was not found.
    pub fn add(&mut self, UnknownFde { key, hash }: UnknownFde<'data>, number: u32) {
        let place = self.known.len() as u32;
        self.known.push((key, number));
        self.table.insert_unique(spread(hash), (hash, place), |&(hash, _)| spread(hash));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }
}
