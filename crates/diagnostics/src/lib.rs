//! Diagnostics as values.
//!
//! A pass never prints. It reports [`Diagnostic`]s to the [`Sink`]; the sink puts them in a fixed
//! order (phase, file, section, offset, text), so the messages of a link do not depend on the
//! number of threads, and the caller of the link decides how and whether to show them.
//! `render` turns one into the text that the command prints.
//!
//! Every kind of message has a stable [`Code`], so that tests, the peers harness and the reducer
//! recognise it without reading prose.

mod code;
mod color;
pub mod demangle;
mod help;
mod limit;
mod render;
mod sink;
pub mod words;

pub use code::Code;
pub use color::Color;
pub use help::share_help;
pub use limit::{LeftOut, limit_messages};
pub use render::{RenderOptions, render};
pub use sink::{Aborted, Policy, Sink};

/// The severity of a diagnostic, the most severe last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Severity {
    /// Information that was asked for (`--trace`, `--print-gc-sections`).
    Note,
    /// The output is made, but may differ from the user's intent. `--fatal-warnings` makes it an
    /// error.
    Warning,
    /// No output is made. `--noinhibit-exec` turns some errors into warnings.
    Error,
}

/// The file, section, script line or argument that a diagnostic points at, as text: a diagnostic
/// outlives the inputs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Location {
    /// The link as a whole.
    #[default]
    Link,
    /// An option or argument of the command line, as written.
    Argument(String),
    /// A place in a linker script, version script or other text input.
    Script {
        /// Path as given, or a name such as `<built-in>`.
        file: String,
        /// 1-based line.
        line: u32,
        /// 1-based column, in bytes.
        column: u32,
        /// Length of the marked text in bytes, at least 1.
        length: u32,
        /// The whole line, without its newline.
        text: String,
    },
    /// A whole input file, `archive.a(member.o)` for archive members.
    File(String),
    /// A place inside an input file's section.
    Section {
        /// The file, as in [`Location::File`].
        file: String,
        /// Name of the section.
        section: String,
        /// Byte offset inside the section.
        offset: u64,
    },
}

/// The place of a diagnostic among those of its phase. Compared field by field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Order {
    /// Position of the file in the link (command-line order, archive members at extraction).
    pub file: u32,
    /// Section index in that file.
    pub section: u32,
    /// Byte offset in that section, or any other number that orders.
    pub offset: u64,
}

/// One message, with everything needed to show, sort and recognise it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Its severity; the policy may change it when the sink takes the diagnostic.
    pub severity: Severity,
    /// Its stable kind, for tests and tools.
    pub code: Code,
    /// The problem in one line, without a final period, symbols demangled.
    pub message: String,
    /// The place that the message points at.
    pub location: Location,
    /// Further facts, one line each (`referenced by a.o:(.text+0x1c)`).
    pub notes: Vec<String>,
    /// Advice for the user, one line each.
    pub help: Vec<String>,
    /// The undefined symbol or missing library as its file names it, for `--error-handling-script`.
    pub subject: Option<Box<[u8]>>,
    /// Place among the diagnostics of the same phase.
    pub order: Order,
}

impl Diagnostic {
    /// A diagnostic about the link as a whole; the builder methods say more.
    pub fn new(severity: Severity, code: Code, message: impl Into<String>) -> Self {
        Diagnostic {
            severity,
            code,
            message: message.into(),
            location: Location::Link,
            notes: Vec::new(),
            help: Vec::new(),
            subject: None,
            order: Order::default(),
        }
    }

    /// An error.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// A warning.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// Sets the place that the message points at.
    #[must_use]
    pub fn at(mut self, location: Location) -> Self {
        self.location = location;
        self
    }

    /// Adds a further fact.
    #[must_use]
    pub fn note(mut self, line: impl Into<String>) -> Self {
        self.notes.push(line.into());
        self
    }

    /// Adds a line of advice for the user.
    #[must_use]
    pub fn help(mut self, line: impl Into<String>) -> Self {
        self.help.push(line.into());
        self
    }

    /// Names the symbol or library that is missing.
    #[must_use]
    pub fn about(mut self, name: &[u8]) -> Self {
        self.subject = Some(name.into());
        self
    }

    /// Sets the place among the diagnostics of its phase.
    #[must_use]
    pub fn ordered(mut self, file: u32, section: u32, offset: u64) -> Self {
        self.order = Order { file, section, offset };
        self
    }
}
