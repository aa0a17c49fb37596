//! Options of the order that balanced partitioning computes.

use std::path::PathBuf;

/// Which sections balanced partitioning puts in order, and by what.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BalanceOptions {
    /// `--irpgo-profile`: a profile with traces of the program's start.
    pub profile: Option<PathBuf>,
    /// `--bp-startup-sort=function`: functions that the traces call come first, close together.
    pub startup: bool,
    /// `--bp-compression-sort-startup-functions`: these functions also have similar ones beside them.
    pub similar_startup: bool,
    /// `--bp-compression-sort=function` or `both`: other functions lie beside similar ones.
    pub functions: bool,
    /// `--bp-compression-sort=data` or `both`: data lies beside similar data.
    pub data: bool,
    /// `--bp-compression-sort-section`, in order.
    pub groups: Vec<CompressionGroup>,
    /// `--verbose-bp-section-orderer`: says how many sections were ordered.
    pub verbose: bool,
}

impl BalanceOptions {
    /// Whether any section is ordered.
    pub fn is_on(&self) -> bool {
        self.startup || self.functions || self.data || !self.groups.is_empty()
    }
}

/// One `--bp-compression-sort-section`: sections that match lie together, similar ones side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionGroup {
    /// Pattern of names of input sections.
    pub pattern: Vec<u8>,
    /// Groups with a lower number come first.
    pub layout_priority: u32,
    /// Of several patterns that match a section, the one with the lowest number counts; without a number, the
    /// last one, and only if none with a number matches.
    pub match_priority: Option<u32>,
}
