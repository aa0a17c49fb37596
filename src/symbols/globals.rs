//! The names of the global symbols and their numbers, which index all tables of symbols.

use super::Interner;
use super::intern::{HashedName, Names};
use crate::ids::SymbolId;

/// Maps names to numbers and back. Rows `0..len` of all tables of symbols are the globals, in an order that
/// depends only on the inputs. The local symbols of each object follow: symbol `index` of an object has the
/// row `object.first_local + index`.
#[derive(Default)]
pub struct Globals<'a> {
    /// Finds globals by name.
    interner: Interner,
    /// Name of each global. A symbol with a version that is not the default one has a name of its own,
    /// `name@VERSION`.
    pub names: Vec<&'a [u8]>,
    /// How many names the files mention before they first mention each of these. Names that the linker adds
    /// have none.
    first_mentions: Vec<u32>,
}

impl<'a> Globals<'a> {
    /// Globals with these names. `interner` must know all of them.
    pub fn new(interner: Interner, names: Names<'a>) -> Self {
        Globals { interner, names: names.all, first_mentions: names.first_mentions }
    }

    /// By this key, globals are in the order in which the files mention them first, archive members that are
    /// not extracted among them. Names that the linker adds come last.
    pub fn order(&self, id: SymbolId) -> (u32, SymbolId) {
        (self.first_mentions.get(id.index()).copied().unwrap_or(u32::MAX), id)
    }

    /// Number of globals.
    #[inline]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The global of this name.
    pub fn lookup(&self, name: &[u8]) -> Option<SymbolId> {
        self.interner.get(name, &self.names)
    }

    /// The global of a name whose hash is known.
    pub fn find(&self, name: HashedName<'_>) -> Option<SymbolId> {
        self.interner.find(name, &self.names)
    }

    /// Whether the number is a global's.
    #[inline]
    pub fn contains(&self, id: SymbolId) -> bool {
        id.index() < self.names.len()
    }

    /// All globals.
    pub fn ids(&self) -> impl Iterator<Item = SymbolId> + use<> {
        (0..self.names.len() as u32).map(SymbolId)
    }

    /// The number of a name. A new name becomes a global; `keep` must return a copy of it that lives as long
    /// as the link.
    pub fn intern(&mut self, name: &[u8], keep: impl FnOnce(&[u8]) -> &'a [u8]) -> SymbolId {
        if let Some(id) = self.lookup(name) {
            return id;
        }
        self.names.push(keep(name));
        self.interner.add_last(&self.names)
    }
}
