//! The contents of ordering files (`--symbol-ordering-file`, …) and profiles, as they were read.

use super::temporal_profile::TemporalProfile;
use crate::script::Span;

/// A word of an ordering file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// A name or pattern.
    pub text: Vec<u8>,
    /// Its place in the file, for messages.
    pub span: Span,
}

/// A line of a call graph file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The caller.
    pub from: Word,
    /// The called function.
    pub to: Word,
    /// Number of calls.
    pub weight: u64,
}

/// The contents of all ordering files.
#[derive(Clone, Debug, Default)]
pub struct OrderFiles {
    /// `--symbol-ordering-file`: names of symbols, each once.
    pub symbols: Vec<Word>,
    /// `--section-ordering-file` in gold's form: patterns of names of input sections.
    pub sections: Vec<Word>,
    /// `--call-graph-ordering-file`. With `None`, the profiles in objects count.
    pub calls: Option<Vec<Call>>,
    /// `--irpgo-profile`, if `--bp-startup-sort` asks for it.
    pub traces: TemporalProfile,
}
