//! An order of modules, lowest first, and the imports against it.

use crate::{Arrow, Graph};
use anyhow::{Context, Result, ensure};

/// The modules, lowest first: folders (`elf/`) and files (`ids.rs`).
pub struct Order {
    modules: Vec<String>,
}

/// The places where a graph violates an order.
#[derive(Debug)]
pub struct Against<'g> {
    /// Arrows from a module to one above it.
    pub upward: Vec<Arrow<'g>>,
    /// Files that have no place in the order.
    pub unknown: Vec<&'g str>,
    /// Modules in the order that have no file.
    pub empty: Vec<String>,
}

impl Order {
    /// Reads the first column of the table below a heading: names in backquotes; several in a row come in
    /// their order.
    ///
    /// # Errors
    /// There is no such heading or no table, or a module occurs twice.
    pub fn from_table(text: &str, heading: &str) -> Result<Self> {
        let mut lines = text.lines();
        lines
            .find(|line| line.starts_with('#') && line.trim_start_matches('#').trim() == heading)
            .with_context(|| format!("there is no heading {heading:?}"))?;
        let rows = lines.take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with('|'));
        // The names of the columns and a line come before the rows.
        let cells = rows.skip(2).filter_map(|row| row.split('|').nth(1));
        let modules: Vec<String> =
            cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
        ensure!(!modules.is_empty(), "there is no table below {heading:?}");
        for (row, name) in modules.iter().enumerate() {
            ensure!(!modules[..row].contains(name), "{name} has two places in the order");
        }
        Ok(Order { modules })
    }

    /// The row of the module that contains a file.
    pub fn row(&self, file: &str) -> Option<usize> {
        let owns = |name: &String| file == name || (name.ends_with('/') && file.starts_with(name.as_str()));
        self.modules.iter().position(owns)
    }

    /// Compares a graph with the order. Root files (`lib.rs`) only say which modules exist.
    pub fn against<'g>(&self, graph: &'g Graph) -> Against<'g> {
        let is_root = |file: &str| matches!(file, "lib.rs" | "main.rs");
        let upward = graph
            .arrows()
            .filter(|arrow| !is_root(arrow.from))
            .filter(|arrow| self.row(arrow.from) < self.row(arrow.to))
            .collect();
        let files = graph.files.iter().map(String::as_str);
        let unknown = files.filter(|file| !is_root(file) && self.row(file).is_none()).collect();
        let has_files = |row: usize| graph.files.iter().any(|file| self.row(file) == Some(row));
        let rows = self.modules.iter().enumerate();
        let empty = rows.filter(|(row, _)| !has_files(*row)).map(|(_, name)| name.clone()).collect();
        Against { upward, unknown, empty }
    }
}
