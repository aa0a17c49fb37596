//! Diagnostics as values.
//!
//! If passes printed their messages, the order of messages would change with the number of threads. So a pass
//! never prints. It reports [`Diagnostic`]s to the [`Sink`], which sorts them (phase, file, section, offset,
//! text). The caller of the link decides how and whether to show them; `render` makes the text that the
//! command prints.
//!
//! Every kind of message has a stable [`Code`], so that tests, the comparison of linkers and the reducer
//! recognise it without reading prose.

mod code;
mod color;
pub mod demangle;
mod help;
mod limit;
mod render;
mod sink;
mod visual_studio;
pub mod words;

pub use code::Code;
pub use color::Color;
pub use help::share_help;
pub use limit::{LeftOut, limit_messages};
pub use render::{RenderOptions, render};
pub use sink::{Aborted, Policy, Sink};

/// The severity of a diagnostic, from least to most severe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Severity {
    /// Information that the user asked for (`--trace`, `--print-gc-sections`).
    Note,
    /// The linker makes the output, but the output may differ from what the user wants. `--fatal-warnings`
    /// makes it an error.
    Warning,
    /// The linker makes no output. `--noinhibit-exec` turns some errors into warnings.
    Error,
}

/// The file, section, script line or argument that a diagnostic points to. It is text, because a diagnostic
/// outlives the inputs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Location {
    /// The link as a whole.
    #[default]
    Link,
    /// An option or argument of the command line, as the user wrote it.
    Argument(String),
    /// A place in a linker script, version script or other text input.
    Script {
        /// The path as the user gave it, or a name such as `<built-in>`.
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
    /// A place in a section of an input file.
    Section {
        /// The file, as in [`Location::File`].
        file: String,
        /// Name of the section.
        section: String,
        /// Offset in the section, in bytes.
        offset: u64,
    },
}

/// The place of a diagnostic among those of its phase. Fields are compared in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Order {
    /// Position of the file in the link: the order of the command line; archive members where they are
    /// extracted.
    pub file: u32,
    /// Section index in that file.
    pub section: u32,
    /// Offset in that section in bytes, or any other number that gives an order.
    pub offset: u64,
}

/// One message, with everything that is needed to show, sort and recognise it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Its severity; the policy may change it when the sink takes the diagnostic.
    pub severity: Severity,
    /// Its stable kind, for tests and tools.
    pub code: Code,
    /// The problem in one line, without a final period; symbols are demangled.
    pub message: String,
    /// The place that the message points to.
    pub location: Location,
    /// Further facts, one per line (`referenced by a.o:(.text+0x1c)`).
    pub notes: Vec<String>,
    /// Advice for the user, one line for each piece.
    pub help: Vec<String>,
    /// The undefined symbol or missing library, by the name in its file, for `--error-handling-script`.
    pub subject: Option<Box<[u8]>>,
    /// Its place among the diagnostics of the same phase.
    pub order: Order,
}

impl Diagnostic {
    /// A diagnostic about the link as a whole; the builder methods add the rest.
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

    /// Sets the place that the message points to.
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
