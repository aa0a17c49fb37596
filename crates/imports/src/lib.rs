//! The graph of imports between the files of a crate: its circles, and the arrows against a given order.
//!
//! If two files import each other, nobody can understand one without the other. An arrow goes from a file
//! that names an item to the file that defines the item. `pub use` on the way is followed, so an import
//! through a `mod.rs` counts as an import from the file that `mod.rs` re-exports. Methods need no import and
//! make no arrow. Code that is only built for tests does not count.

mod modules;
mod order;
pub mod packages;
mod paths;

pub use order::{Against, Order};

use anyhow::Result;
use modules::Modules;
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The imports between the files of a crate.
pub struct Graph {
    /// The paths of all files, relative to the folder of the crate's root file, sorted.
    pub files: Vec<String>,
    /// From, to (rows of `files`), and the places of the import.
    arrows: BTreeMap<(usize, usize), BTreeSet<Use>>,
}

/// A place that names something in another file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Use {
    /// Line, from 1.
    pub line: usize,
    /// The path as resolved, such as `crate::link::Link`.
    pub path: String,
}

/// An import between two files.
#[derive(Clone, Debug)]
pub struct Arrow<'g> {
    /// The importing file.
    pub from: &'g str,
    /// The imported file.
    pub to: &'g str,
    /// The places of the import.
    pub uses: &'g BTreeSet<Use>,
}

/// Files that import each other, directly or through others.
#[derive(Debug)]
pub struct Circle<'g> {
    /// The files, sorted.
    pub files: Vec<&'g str>,
    /// The imports between them.
    pub arrows: Vec<Arrow<'g>>,
}

impl Graph {
    /// Reads the sources of a crate, starting with its root file (`src/lib.rs`).
    ///
    /// # Errors
    /// A file cannot be read or is not Rust.
    pub fn read(root: &Path) -> Result<Self> {
        let modules = Modules::read(root)?;
        let files = modules.files();
        let row = |file: &str| files.binary_search_by(|name| name.as_str().cmp(file)).ok();
        let mut arrows: BTreeMap<(usize, usize), BTreeSet<Use>> = BTreeMap::new();
        for named in paths::all(&modules) {
            if let (Some(from), Some(to)) = (row(named.from), row(named.to))
                && from != to
            {
                let used = Use { line: named.line, path: named.path };
                arrows.entry((from, to)).or_default().insert(used);
            }
        }
        Ok(Graph { files, arrows })
    }

    /// All arrows, by file.
    pub fn arrows(&self) -> impl Iterator<Item = Arrow<'_>> {
        self.arrows.iter().map(|(&(from, to), uses)| Arrow {
            from: &self.files[from],
            to: &self.files[to],
            uses,
        })
    }

    /// All circles; the largest comes first.
    pub fn circles(&self) -> Vec<Circle<'_>> {
        let graph = DiGraphMap::<usize, ()>::from_edges(self.arrows.keys().copied());
        let components = petgraph::algo::tarjan_scc(&graph);
        let mut circles: Vec<Circle<'_>> = components
            .into_iter()
            .filter(|component| component.len() > 1)
            .map(|component| {
                let mut files: Vec<&str> = component.iter().map(|&row| self.files[row].as_str()).collect();
                files.sort_unstable();
                let inside = |name: &str| files.binary_search(&name).is_ok();
                let arrows = self.arrows().filter(|arrow| inside(arrow.from) && inside(arrow.to)).collect();
                Circle { files, arrows }
            })
            .collect();
        circles.sort_by(|a, b| b.files.len().cmp(&a.files.len()).then(a.files.cmp(&b.files)));
        circles
    }
}

#[cfg(test)]
mod tests;
