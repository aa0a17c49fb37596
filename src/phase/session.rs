//! The first phase: the command line, the sink of diagnostics, and the store of bytes.

use crate::cli::Config;
use crate::diag::Sink;
use crate::diag::demangle::shown;
use crate::ids::{SectionId, SymbolId};
use crate::input::InputStore;
use crate::report_files::ReportFiles;

/// The references that every pass has. `pipeline` makes them for each attempt to link.
#[derive(Clone, Copy)]
pub struct Session<'a> {
    /// The options of the command line, and the settings that scripts of `-T` make.
    pub config: &'a Config,
    /// Where diagnostics go.
    pub sink: &'a Sink,
    /// Owns bytes that inputs and passes refer to until the link ends.
    pub store: &'a InputStore,
    /// Loads from the GOT that must not be relaxed, as pairs of section and symbol, sorted. In an earlier
    /// attempt, `find_far_loads` found their symbols out of reach.
    pub far_loads: &'a [(SectionId, SymbolId)],
    /// The files of reports.
    pub files: &'a ReportFiles,
}

impl Session<'_> {
    /// A symbol's name for messages. It is demangled, unless `--no-demangle` is given.
    pub fn name_text(&self, name: &[u8]) -> String {
        shown(name, self.config.diagnostics.demangle)
    }
}
