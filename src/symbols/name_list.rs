//! A list of symbol names and patterns (`--dynamic-list`, `--retain-symbols-file`, …).

use hashbrown::HashSet;

/// Names, exact or by pattern.
#[derive(Clone, Debug, Default)]
pub struct NameList {
    exact: HashSet<Vec<u8>, foldhash::fast::FixedState>,
}

impl NameList {
    /// Adds a name.
    pub fn add(&mut self, name: &[u8]) {
        self.exact.insert(name.to_vec());
    }

    /// Whether the list names this symbol.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.exact.contains(name)
    }
}
