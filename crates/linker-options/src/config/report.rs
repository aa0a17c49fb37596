//! The part of the configuration about SFrame and about reports on the link.

pub use diagnostics::Color;
use diagnostics::Policy;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// How severely a condition is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Report {
    /// It is not reported.
    #[default]
    Ignore,
    /// It is a warning.
    Warning,
    /// It is an error.
    Error,
}

/// SFrame sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SFrameOptions {
    /// `--sframe=`: what becomes of inputs that are kept.
    pub mode: SFrameMode,
    /// `--sframe-index`: what the linker makes of the inputs that it recognises.
    pub index: Option<SFrameIndex>,
    /// `--sframe-from-eh-frame=`.
    pub from_eh_frame: Option<SFrameFromEhFrame>,
    /// `--sframe-split`: an input that describes several text sections is split into one part for each.
    pub split: bool,
    /// `-z sframe-violation=`: whether a reference to a discarded section is an error or a warning.
    pub violation: SFrameViolation,
    /// `-z sframe-alloc` (default): the output section is allocated and has `PT_GNU_SFRAME`.
    pub alloc: bool,
    /// `--sframe-version=`: the version that the linker writes.
    pub version: SFrameVersion,
    /// Whether functions may share identical rows. By default they may, unless the output is relocatable.
    pub share: bool,
    /// Whether the linker's own PLTs, thunks and veneers get rows. By default they do in index and merge
    /// mode.
    pub plt: bool,
    /// Whether `--sframe-plt` was given. These rows are written then even if the output has no others.
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
    /// Every input that is kept goes into `.sframe` as it is.
    #[default]
    Concat,
    /// One sorted blob, as GNU ld makes.
    Merge,
    /// Inputs are left out.
    Discard,
}

/// `--sframe-index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SFrameIndex {
    /// One sorted blob, which every reader of its version understands.
    V3,
    /// `.sframe_compact`, a small table in this project's own format.
    Compact,
    /// A sorted index before the blobs of `.sframe`.
    Overlay,
}

/// `--sframe-from-eh-frame=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SFrameFromEhFrame {
    /// For every function. Recognised inputs are left out.
    All,
    /// For functions that no input describes.
    Missing,
}

/// `-z sframe-violation=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SFrameViolation {
    /// An error, and no output.
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
    /// `--vs-diagnostics`: messages begin with the source line that they point to, if they do.
    pub visual_studio: bool,
    /// `--error-limit`: how many errors are shown. `None` is all.
    pub error_limit: Option<NonZeroUsize>,
    /// `--error-handling-script`.
    pub error_script: Option<PathBuf>,
    /// `--warn-common`.
    pub warn_common: bool,
    /// `--warn-execstack`, `--error-execstack`: how an executable stack is reported that inputs ask for.
    pub execstack: Report,
    /// `--warn-execstack`: `-z execstack` is reported, too.
    pub execstack_option: bool,
    /// `--warn-rwx-segments`, `--error-rwx-segments`: how segments are reported that are writable and
    /// executable.
    pub rwx_segments: Report,
    /// `--warn-textrel`: a `DT_TEXTREL` is reported even if `-z notext` allows it.
    pub textrel: bool,
    /// `--warn-shared-textrel`: the same, only if the output is a shared library.
    pub shared_textrel: bool,
    /// `--warn-ifunc-textrel` (default): `STT_GNU_IFUNC` beside a `DT_TEXTREL` is reported.
    pub ifunc_textrel: bool,
    /// `--warn-section-align`: each output section is reported that its alignment moves.
    pub section_align: bool,
    /// `--warn-once`: an undefined symbol is reported with its first reference only.
    pub warn_once: bool,
    /// `--no-warn-mismatch`: inputs of another machine or class are no error.
    pub no_warn_mismatch: bool,
    /// `--no-warn-search-mismatch`: the search skips libraries of another machine without a warning.
    pub no_warn_search_mismatch: bool,
    /// `--warn-symbol-ordering` (default): names in ordering files that order nothing are reported.
    pub warn_symbol_ordering: bool,
}

impl DiagnosticOptions {
    /// The rules by which the link's sink adjusts severities.
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
            visual_studio: false,
            error_limit: NonZeroUsize::new(20),
            error_script: None,
            warn_common: false,
            execstack: Report::Warning,
            execstack_option: false,
            rwx_segments: Report::Warning,
            textrel: false,
            shared_textrel: false,
            ifunc_textrel: true,
            section_align: false,
            warn_once: false,
            no_warn_mismatch: false,
            no_warn_search_mismatch: false,
            warn_symbol_ordering: true,
        }
    }
}

/// Reports on the link, in files or on standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOptions {
    /// `-Map`: the file for the map. `-` is standard output; in a directory, the file is `OUTPUT.map`.
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
    /// `--reproduce`: a tar file from which the link can be repeated.
    pub reproduce: Option<PathBuf>,
    /// The command line without the program's name, with response files and `SFRAME_LD_OPTIONS` expanded.
    /// `--reproduce` stores it, and messages quote it.
    pub arguments: Vec<Vec<u8>>,
    /// The files that were read only for the command line, such as response files.
    pub argument_files: Vec<PathBuf>,
    /// `-t`: names of the files that take part; given twice, also archive members.
    pub trace: u8,
    /// The symbols of `-y` in order, without repetition.
    pub trace_symbols: Vec<Vec<u8>>,
    /// `--verbose`: the script in use is printed, and every file that the linker tries to open.
    pub verbose: bool,
    /// `--stats`.
    pub stats: Option<StatsFormat>,
    /// `--time-report`: time of every pass.
    pub time_report: bool,
    /// `--time-trace`: the file for the times of passes, as trace events of Chrome. An empty name is that of
    /// the output with `.time-trace` behind it.
    pub time_trace: Option<PathBuf>,
    /// `--time-trace-granularity`, in microseconds: shorter passes are left out.
    pub time_trace_granularity: u64,
    /// `--print-memory-usage`: how full the script's regions are.
    pub print_memory_usage: bool,
    /// `--explain-discarded`: where the explanation of each reference into a discarded section is written.
    pub explain_discarded: Option<Explanation>,
    /// `--why-extract`: the file that says why each archive member was taken. `-` is standard output.
    pub why_extract: Option<PathBuf>,
    /// `--print-archive-stats`: the file that says how many members of each archive were taken. `-` is
    /// standard output.
    pub archive_stats: Option<PathBuf>,
    /// `--print-symbol-order`: the file that lists the symbols of ordered sections, in their order. `-` is
    /// standard output.
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
            archive_stats: None,
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
