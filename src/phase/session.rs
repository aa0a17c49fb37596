//! What a link is given and never changes: the command line, and where diagnostics and bytes go.

use crate::cli::Config;
use crate::diag::Sink;
use crate::diag::demangle::shown;
use crate::input::InputStore;

/// The command line, the sink of diagnostics, and the store of bytes: three references that go
/// everywhere.
#[derive(Clone, Copy)]
pub struct Session<'a> {
    /// The command line.
    pub config: &'a Config,
    /// Where diagnostics go.
    pub sink: &'a Sink,
    /// Keeps bytes until the end.
    pub store: &'a InputStore,
}

impl Session<'_> {
    /// A symbol's name for messages: demangled, unless `--no-demangle`.
    pub fn name_text(&self, name: &[u8]) -> String {
        shown(name, self.config.diagnostics.demangle)
    }
}
