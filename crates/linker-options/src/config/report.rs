//! The part of the configuration about SFrame and about reports on the link.

pub use diagnostics::Color;
use diagnostics::Policy;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Severity with which a condition is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Report {
    /// Not at all.
    #[default]
    Ignore,
    /// As a warning.
    Warning,
    /// As an error.
    Error,
}

/// SFrame sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SFrameOptions {
    /// `--sframe=`: where kept inputs go.
    pub mode: SFrameMode,
    /// `--sframe-index`: what is made of recognised inputs.
    pub index: Option<SFrameIndex>,
    /// `--sframe-from-eh-frame=`.
    pub from_eh_frame: Option<SFrameFromEhFrame>,
    /// `--sframe-split`: monolithic inputs are taken apart, one part for each text section.
    pub split: bool,
    /// `-z sframe-violation=`: severity of a reference to a discarded section, error or warning.
    pub violation: SFrameViolation,
    /// `-z sframe-alloc` (default): the output section is allocated and has `PT_GNU_SFRAME`.
    pub alloc: bool,
    /// `--sframe-version=`: the version that is written.
    pub version: SFrameVersion,
    /// Whether identical rows may be shared between functions; settled: on by default unless the output is
    /// relocatable.
    pub share: bool,
    /// Rows for the linker's own PLTs, thunks and veneers; settled: on by default in index and
    /// merge mode.
    pub plt: bool,
    /// `--sframe-plt` was given: these rows are written even if the output has no others.
    pub plt_alone: bool,
    /// `--print-sframe`.
    pub print: bool,
}

impl Default for SFrameOptions {
    fn default() -> Self {
        SFrameOptions {
            mode: SFrameMode::Concat,
            index: None,
            from_eh_frame: None,
            split: false,
            violation: SFrameViolation::Error,
            alloc: true,
            version: SFrameVersion::V3,
            share: true,
            plt: false,
            plt_alone: false,
            print: false,
        }
    }
}

impl SFrameOptions {
    /// Whether `--sframe-index` makes a table that holds its own rows.
    pub fn has_table(&self) -> bool {
        matches!(self.index, Some(SFrameIndex::V3 | SFrameIndex::Compact))
    }

    /// Whether recognised inputs are read function by function for such a table.
    pub fn replaces_inputs(&self) -> bool {
        self.index == Some(SFrameIndex::V3)
    }
}

/// `--sframe=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SFrameMode {
    /// Every kept input goes into `.sframe` as it is.
    #[default]
    Concat,
    /// One sorted blob, as GNU ld makes.
    Merge,
    /// Inputs are dropped.
    Discard,
}

/// `--sframe-index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SFrameIndex {
    /// One sorted blob, for every reader of its version.
    V3,
    /// `.sframe_compact`, a small table of our own.
    Compact,
    /// A sorted index before the blobs of `.sframe`.
    Overlay,
}

/// `--sframe-from-eh-frame=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SFrameFromEhFrame {
    /// For every function; recognised inputs are dropped.
    All,
    /// For functions that no input describes.
    Missing,
}

/// `-z sframe-violation=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SFrameViolation {
    /// No output.
    #[default]
    Error,
    /// A dead row and a warning.
    Warning,
}

/// `--sframe-version=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SFrameVersion {
    /// Version 2, errata 1.
    V2,
    /// Version 3.
    #[default]
    V3,
}

/// Which conditions are reported, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnosticOptions {
    /// `--fatal-warnings`.
    pub fatal_warnings: bool,
    /// `-w`: warnings are not shown.
    pub no_warnings: bool,
    /// `--noinhibit-exec`.
    pub noinhibit_exec: bool,
    /// `--demangle` (default).
    pub demangle: bool,
    /// `--color-diagnostics`.
    pub color: Color,
    /// `--error-limit`: how many errors are shown; `None`: all.
    pub error_limit: Option<NonZeroUsize>,
    /// `--error-handling-script`.
    pub error_script: Option<PathBuf>,
    /// `--warn-common`.
    pub warn_common: bool,
    /// `--warn-execstack`, `--error-execstack`: an executable stack that inputs ask for.
    pub execstack: Report,
    /// `--warn-rwx-segments`, `--error-rwx-segments`: writable and executable segments.
    pub rwx_segments: Report,
    /// `--warn-textrel`: a `DT_TEXTREL` that `-z notext` allows is reported all the same.
    pub textrel: bool,
    /// `--warn-shared-textrel`: the same where the output is a shared library.
    pub shared_textrel: bool,
    /// `--warn-once`: an undefined symbol is reported with its first reference only.
    pub warn_once: bool,
    /// `--no-warn-mismatch`: inputs of another machine or class are not refused.
    pub no_warn_mismatch: bool,
    /// `--no-warn-search-mismatch`: libraries of another machine are passed over in silence.
    pub no_warn_search_mismatch: bool,
    /// `--warn-symbol-ordering` (default): names of ordering files that order nothing are reported.
    pub warn_symbol_ordering: bool,
}

impl DiagnosticOptions {
    /// The rules by which the sink of the link adjusts severities.
    pub fn policy(&self) -> Policy {
        Policy {
            fatal_warnings: self.fatal_warnings,
            no_warnings: self.no_warnings,
            noinhibit_exec: self.noinhibit_exec,
        }
    }
}

impl Default for DiagnosticOptions {
    fn default() -> Self {
        DiagnosticOptions {
            fatal_warnings: false,
            no_warnings: false,
            noinhibit_exec: false,
            demangle: true,
            color: Color::Auto,
            error_limit: NonZeroUsize::new(20),
            error_script: None,
            warn_common: false,
            execstack: Report::Warning,
            rwx_segments: Report::Warning,
            textrel: false,
            shared_textrel: false,
            warn_once: false,
            no_warn_mismatch: false,
            no_warn_search_mismatch: false,
            warn_symbol_ordering: true,
        }
    }
}

/// Files and texts that tell about the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOptions {
    /// `-Map`: where the map is written (`-`: standard output); a directory gets
    /// `OUTPUT.map` in it.
    pub map: Option<PathBuf>,
    /// `-M`: the map is printed on standard output.
    pub print_map: bool,
    /// `--print-map-locals`: local symbols in the map.
    pub map_locals: bool,
    /// `--no-print-map-discarded`: discarded sections are left out of the map.
    pub no_map_discarded: bool,
    /// `--cref`: the table of cross references, in the map if there is one.
    pub cref: bool,
    /// `--dependency-file`.
    pub dependency_file: Option<PathBuf>,
    /// `--reproduce`: a tar file that replays the link.
    pub reproduce: Option<PathBuf>,
    /// The command line with response files and `SFRAME_LD_OPTIONS` expanded, program name left
    /// out: `--reproduce` replays it and messages quote it.
    pub arguments: Vec<Vec<u8>>,
    /// The files that were read for the command line alone, response files above all.
    pub argument_files: Vec<PathBuf>,
    /// `-t`: names of the files that take part; given twice, also archive members.
    pub trace: u8,
    /// `-y` symbols in order, without repetition.
    pub trace_symbols: Vec<Vec<u8>>,
    /// `--verbose`: the script in use and every file that is tried.
    pub verbose: bool,
    /// `--stats`.
    pub stats: Option<StatsFormat>,
    /// `--time-report`: time of every pass.
    pub time_report: bool,
    /// `--time-trace`: where the passes are written as Chrome's trace events; empty: beside the
    /// output.
    pub time_trace: Option<PathBuf>,
    /// `--time-trace-granularity`: passes that are shorter are left out. In microseconds.
    pub time_trace_granularity: u64,
    /// `--print-memory-usage`: how full the script's regions are.
    pub print_memory_usage: bool,
    /// `--explain-discarded`: the story of each reference into a discarded section, and where it goes.
    pub explain_discarded: Option<Explanation>,
    /// `--why-extract`: a file that says why each archive member was taken (`-`: standard output).
    pub why_extract: Option<PathBuf>,
    /// `--print-symbol-order`: a file that names the symbols of ordered sections, in their order
    /// (`-`: standard output).
    pub symbol_order: Option<PathBuf>,
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            map: None,
            print_map: false,
            map_locals: false,
            no_map_discarded: false,
            cref: false,
            dependency_file: None,
            reproduce: None,
            arguments: Vec::new(),
            argument_files: Vec::new(),
            trace: 0,
            trace_symbols: Vec::new(),
            verbose: false,
            stats: None,
            time_report: false,
            time_trace: None,
            time_trace_granularity: 500,
            print_memory_usage: false,
            explain_discarded: None,
            why_extract: None,
            symbol_order: None,
        }
    }
}

/// Where `--explain-discarded` goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Explanation {
    /// As text, to standard output.
    Printed,
    /// Into a file: as a graph for Graphviz if its name ends in `.dot` or `.gv`, as text otherwise.
    File(PathBuf),
}

/// How `--stats` is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatsFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}
