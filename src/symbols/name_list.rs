//! A list of symbol names and patterns (`--dynamic-list`, `--retain-symbols-file`, …).

use crate::script::version::{SymbolPattern, SymbolSet};

/// Names, exact or as patterns. A pattern is for the symbol's name, or for the name that C++ demangles it to.
#[derive(Debug, Default)]
pub struct NameList {
    set: SymbolSet,
}

impl NameList {
    /// Compiles these patterns into a list.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p SymbolPattern>) -> Self {
        NameList { set: SymbolSet::new(patterns) }
    }

    /// Whether the list names this symbol. It ignores a version in the name (`name@VERSION`).
    pub fn contains(&self, name: &[u8]) -> bool {
        let end = memchr::memchr(b'@', name).filter(|&at| at != 0).unwrap_or(name.len());
        self.set.contains(&name[..end])
    }
}
