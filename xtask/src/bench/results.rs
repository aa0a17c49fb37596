//! The figures of links as values, for the tables, the targets and the pictures.

use super::measure::{Cost, median};

pub struct CaseResult {
    pub name: String,
    pub description: &'static str,
    /// The number of objects, in the cases that show how the cost grows.
    pub objects: Option<usize>,
    pub linkers: Vec<LinkerResult>,
}

pub struct LinkerResult {
    pub name: String,
    /// Bytes of the output.
    pub output_size: u64,
    /// The costs, or the error.
    pub outcome: Result<Costs, String>,
}

/// The costs of a linker's links, one for each counted round.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// Without an old output.
    pub fresh: Vec<Cost>,
    /// Over the output of the previous link.
    pub replaced: Vec<Cost>,
}

impl LinkerResult {
    /// The median of a figure over the rounds and its bounds; `None` if a link failed.
    pub fn spread(&self, figure: Figure) -> Option<Spread> {
        let costs = self.outcome.as_ref().ok()?;
        let of = |costs: &[Cost], value: fn(&Cost) -> f64| costs.iter().map(value).collect();
        let values: Vec<f64> = match figure {
            Figure::WallFresh => of(&costs.fresh, |cost| cost.wall * 1e3),
            Figure::WallReplaced => of(&costs.replaced, |cost| cost.wall * 1e3),
            Figure::Cpu => of(&costs.replaced, |cost| cost.cpu * 1e3),
            Figure::CpuBehind => of(&costs.replaced, |cost| cost.cpu_behind * 1e3),
            Figure::Faults => of(&costs.replaced, |cost| cost.faults as f64 / 1e3),
            Figure::Memory => of(&costs.replaced, |cost| cost.peak_memory as f64 / (1024.0 * 1024.0)),
        };
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let greatest = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Spread { median: median(values)?, least, greatest })
    }
}

/// A figure of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Wall time in milliseconds, without an old output.
    WallFresh,
    /// Wall time in milliseconds, over an old output.
    WallReplaced,
    /// CPU time of the process tree in milliseconds.
    Cpu,
    /// The part of the CPU time after the end of the first process, in milliseconds.
    CpuBehind,
    /// Page faults, in thousands.
    Faults,
    /// Peak memory in MiB.
    Memory,
}

/// Median and bounds of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
}
