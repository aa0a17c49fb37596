//! The first phase: the command line, the sink of diagnostics, and the store of bytes.

use crate::cli::Config;
use crate::diag::Sink;
use crate::diag::demangle::shown;
use crate::ids::{SectionId, SymbolId};
use crate::input::InputStore;

/// Three references that every pass has, given by the caller of the linker.
#[derive(Clone, Copy)]
pub struct Session<'a> {
    /// The options of the command line.
    pub config: &'a Config,
    /// Where diagnostics go.
    pub sink: &'a Sink,
    /// Owns bytes that inputs and passes refer to until the link ends.
    pub store: &'a InputStore,
    /// Loads from the GOT that must stay, though their symbols are near by all that is known before
    /// addresses: by section and symbol, sorted. `find_far_loads` makes the list.
    pub far_loads: &'a [(SectionId, SymbolId)],
}

impl Session<'_> {
    /// A symbol's name for messages: demangled, unless `--no-demangle`.
    pub fn name_text(&self, name: &[u8]) -> String {
        shown(name, self.config.diagnostics.demangle)
    }
}
