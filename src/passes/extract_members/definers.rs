//! Which members of archives define a symbol, and which of them are open: one of these symbols became wanted.

use crate::ids::SymbolId;
use memchr::memchr;
use parallel::IntoParallel;
use std::ops::Range;

/// A member that defines a symbol.
#[derive(Clone, Copy)]
struct Definer {
    file: u32,
    /// The number of the definer of the same symbol that was added before; 0 if there is none.
    earlier: u32,
}

/// Number of shards, which threads fill side by side. Each has some of the globals: those whose numbers are
/// equal but for the last bits.
const SHARDS: usize = 32;

/// How many bits these are.
fn bits_in_shard(globals: usize) -> u32 {
    globals.div_ceil(SHARDS).next_power_of_two().trailing_zeros()
}

/// Members and the symbols that they define, by shard.
pub struct Defined {
    /// [`bits_in_shard`].
    bits: u32,
    shards: Vec<Vec<(SymbolId, u32)>>,
}

impl Defined {
    /// An empty list, for so many globals.
    pub fn new(globals: usize) -> Self {
        Defined { bits: bits_in_shard(globals), shards: vec![Vec::new(); SHARDS] }
    }

    /// Adds a member that defines the symbol.
    #[inline]
    pub fn add(&mut self, id: SymbolId, file: u32) {
        self.shards[id.index() >> self.bits].push((id, file));
    }
}

/// The members that define each symbol. Most symbols have one, so a list for each would cost more than all
/// that is in it.
pub struct Definers {
    /// [`bits_in_shard`].
    bits: u32,
    shards: Vec<Shard>,
}

/// The definers of some globals.
struct Shard {
    /// Number 1 is the first.
    rows: Vec<Definer>,
    /// By global, the number of the definer that was added last.
    last: Vec<u32>,
}

impl Shard {
    fn of(number: usize, bits: u32, lists: &[Defined]) -> Self {
        let own = || lists.iter().map(|list| &list.shards[number]);
        let mut shard =
            Shard { rows: Vec::with_capacity(own().map(Vec::len).sum()), last: vec![0; 1 << bits] };
        for &(id, file) in own().flatten() {
            let last = &mut shard.last[id.index() - (number << bits)];
            shard.rows.push(Definer { file, earlier: *last });
            *last = shard.rows.len() as u32;
        }
        shard
    }
}

impl Definers {
    /// Joins the lists, which have the members in order.
    pub fn new(globals: usize, lists: &[Defined]) -> Self {
        let bits = bits_in_shard(globals);
        let shards = (0..SHARDS).into_par_iter().with_max_len(1).map(|number| Shard::of(number, bits, lists));
        Definers { bits, shards: shards.collect() }
    }

    /// The definers of a symbol, the last one first.
    fn of(&self, id: SymbolId) -> impl Iterator<Item = u32> {
        let shard = &self.shards[id.index() >> self.bits];
        let row = |number: u32| shard.rows.get((number as usize).wrapping_sub(1)).copied();
        std::iter::successors(row(shard.last[id.index() & ((1 << self.bits) - 1)]), move |last| {
            row(last.earlier)
        })
        .map(|row| row.file)
    }
}

/// The open members of all archives.
pub struct OpenMembers {
    definers: Definers,
    /// How many of the symbols that became wanted have opened their definers.
    added: usize,
    /// By file: 1 for an open member.
    is_open: Vec<u8>,
}

impl OpenMembers {
    /// No member is open. The first `added` symbols that became wanted need not open any.
    pub fn new(definers: Definers, added: usize, files: usize) -> Self {
        OpenMembers { definers, added, is_open: vec![0; files] }
    }

    /// Opens the members that define a symbol which became wanted since the last call and still is. `asked`
    /// are all symbols that ever became wanted, in order.
    pub fn add(&mut self, asked: &[SymbolId], is_wanted: impl Fn(SymbolId) -> bool) {
        for id in asked[self.added..].iter().copied().filter(|&id| is_wanted(id)) {
            self.definers.of(id).for_each(|file| self.is_open[file as usize] = 1);
        }
        self.added = asked.len();
    }

    /// Closes the first open member of an archive from `next` on, or else the first one before it.
    pub fn close_one(&mut self, archive: &Range<u32>, next: u32) -> Option<u32> {
        let first = |from: u32, to: u32| {
            let found = memchr(1, &self.is_open[from as usize..to as usize])?;
            Some(from + found as u32)
        };
        let file = first(next, archive.end).or_else(|| first(archive.start, next))?;
        self.is_open[file as usize] = 0;
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definers_are_found_in_every_shard() {
        for globals in [1usize, 31, 32, 33, 1000, 4096] {
            // Each symbol has one definer, and every third a second one.
            let mut lists = [Defined::new(globals), Defined::new(globals)];
            let ids = || (0..globals).map(SymbolId::from_index);
            ids().for_each(|id| lists[0].add(id, id.0));
            ids().step_by(3).for_each(|id| lists[1].add(id, id.0 + 1));
            let definers = Definers::new(globals, &lists);
            for id in ids() {
                let expected = if id.0 % 3 == 0 { vec![id.0 + 1, id.0] } else { vec![id.0] };
                assert_eq!(definers.of(id).collect::<Vec<_>>(), expected, "{id:?} of {globals}");
            }
        }
    }

    #[test]
    fn open_members_are_closed_in_rounds() {
        let mut list = Defined::new(4);
        for (id, file) in [(0, 2), (1, 5), (2, 3), (3, 9)] {
            list.add(SymbolId(id), file);
        }
        let mut open = OpenMembers::new(Definers::new(4, &[list]), 0, 10);
        let asked = [0, 1, 2, 3].map(SymbolId);
        open.add(&asked, |id| id.0 != 3);
        let mut next = 3;
        let mut closed = Vec::new();
        while let Some(file) = open.close_one(&(2..6), next) {
            closed.push(file);
            next = file + 1;
        }
        assert_eq!(closed, [3, 5, 2]);
        assert_eq!(open.close_one(&(0..10), 0), None);
    }
}
