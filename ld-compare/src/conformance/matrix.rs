//! The results: cases by tools.

use super::case::{Case, Verdict};
use super::tools::Tool;
use serde::Serialize;

/// The results of one tool.
#[derive(Debug, Serialize)]
pub struct Column {
    /// The tool.
    pub tool: Tool,
    /// Its verdicts, one for each case of [`Matrix::cases`]; `None` where the case is for other tools.
    pub verdicts: Vec<Option<Verdict>>,
}

/// All results.
#[derive(Debug)]
pub struct Matrix {
    /// The cases.
    pub cases: Vec<Case>,
    /// The tools.
    pub columns: Vec<Column>,
}

impl Matrix {
    /// How many verdicts break a sentence of a standard.
    pub fn broken(&self) -> usize {
        let verdicts = self.columns.iter().flat_map(|column| column.verdicts.iter().flatten());
        verdicts.filter(|verdict| matches!(verdict, Verdict::Fails(_))).count()
    }
}
