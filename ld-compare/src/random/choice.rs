//! The options of `ld-compare random`.

use crate::machine::Machine;
use std::path::PathBuf;

/// Which programs to make.
#[derive(clap::Args, Clone, Debug)]
pub struct Choice {
    /// The machine
    #[arg(long, default_value = "x86_64")]
    pub machine: Machine,
    /// Seed of the first program; each further program takes the next number
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of programs; each way to link one counts
    #[arg(long, default_value_t = 100)]
    pub count: u64,
    /// Ways to link each description
    #[arg(long, default_value_t = 5)]
    pub ways: u64,
    /// Number of programs to work on at the same time
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
    /// Keep programs on which this linker is wrong as folders below DIR, for `reduce`
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Keep also those on which only other linkers disagree
    #[arg(long, requires = "keep")]
    pub keep_all: bool,
    /// The command `sframe`, to verify outputs with frames
    #[arg(long, env = "SFRAME_COMMAND", value_name = "FILE")]
    pub sframe: Option<PathBuf>,
    /// File for the counts; if it contains a run of the same seeds, that run continues
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
