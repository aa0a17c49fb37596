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

impl Column {
    /// How many cases hold, break a sentence of a standard, break only a proposal, and are not for the tool.
    pub fn counts(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for verdict in self.verdicts.iter().flatten() {
            let place = match verdict {
                Verdict::Holds => 0,
                Verdict::Fails(_) if verdict.breaks_standard() => 1,
                Verdict::Fails(_) => 2,
                Verdict::Absent(_) => 3,
            };
            counts[place] += 1;
        }
        counts
    }
}

impl Matrix {
    /// How many cases do not hold for some tool.
    pub fn failing(&self) -> usize {
        let verdicts = self.columns.iter().flat_map(|column| column.verdicts.iter().flatten());
        verdicts.filter(|verdict| matches!(verdict, Verdict::Fails(_))).count()
    }
}
