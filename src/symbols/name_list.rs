//! A list of symbol names and patterns (`--dynamic-list`, `--retain-symbols-file`, …).

use crate::script::version::{SymbolPattern, SymbolSet};

/// Names, exact or by pattern, in C or as C++ writes them.
#[derive(Debug, Default)]
pub struct NameList {
    set: SymbolSet,
}

impl NameList {
    /// Compiles patterns.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p SymbolPattern>) -> Self {
        NameList { set: SymbolSet::new(patterns) }
    }

    /// Whether the list names this symbol. A version (`name@VERSION`) is not looked at.
    pub fn contains(&self, name: &[u8]) -> bool {
        let end = memchr::memchr(b'@', name).filter(|&at| at != 0).unwrap_or(name.len());
        self.set.contains(&name[..end])
    }
}
