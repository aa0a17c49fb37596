//! The options of `ld-compare random`.

use crate::machine::Machine;
use std::path::PathBuf;

/// Which programs are wanted.
#[derive(clap::Args, Clone, Debug)]
pub struct Choice {
    /// The machine
    #[arg(long, default_value = "x86_64")]
    pub machine: Machine,
    /// The first program's seed; each further program takes the next number
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of programs, counting each way to link one
    #[arg(long, default_value_t = 100)]
    pub count: u64,
    /// Ways to link each description
    #[arg(long, default_value_t = 5)]
    pub ways: u64,
    /// Programs that are worked on at once
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
    /// Keep programs on which linkers disagree as folders below DIR, for `reduce`
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Keep too those on which the others disagree
    #[arg(long, requires = "keep")]
    pub keep_all: bool,
    /// The command `sframe`, to verify what has frames
    #[arg(long, env = "SFRAME_COMMAND", value_name = "FILE")]
    pub sframe: Option<PathBuf>,
    /// File for the counts; a run of the same seeds that is in it is continued
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
