//! Which members of archives define a symbol, and which of them are open: one of these symbols became wanted.

use crate::ids::SymbolId;
use memchr::memchr;
use std::ops::Range;

/// A member that defines a symbol.
#[derive(Clone, Copy)]
struct Definer {
    file: u32,
    /// The number of the definer of the same symbol that was added before; 0 if there is none.
    earlier: u32,
}

/// The members that define each symbol. Most symbols have one, so a list for each would cost more than all
/// that is in it.
pub struct Definers {
    /// Number 1 is the first.
    rows: Vec<Definer>,
    /// By global, the number of the definer that was added last.
    last: Vec<u32>,
}

impl Definers {
    /// A table for so many globals, with room for so many definers.
    pub fn new(globals: usize, definers: usize) -> Self {
        Definers { rows: Vec::with_capacity(definers), last: vec![0; globals] }
    }

    /// Adds a member that defines the symbol.
    pub fn add(&mut self, id: SymbolId, file: u32) {
        self.rows.push(Definer { file, earlier: self.last[id.index()] });
        self.last[id.index()] = self.rows.len() as u32;
    }

    /// The definers of a symbol, the last one first.
    fn of(&self, id: SymbolId) -> impl Iterator<Item = u32> {
        let row = |number: u32| self.rows.get((number as usize).wrapping_sub(1)).copied();
        std::iter::successors(row(self.last[id.index()]), move |last| row(last.earlier)).map(|row| row.file)
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
