//! The state of the parser between two arguments.
//!
//! An option that simply sets a value writes it to [`State::config`]. If the meaning of an option depends on
//! others that may follow, its value stays here until [`super::resolve`] settles it.

use super::config::{Config, Machine, Report};
use super::identity::Identity;
use super::inputs::{InputSource, InputSpec, InputState};
use super::values::{Outcome, path, shown};
use diagnostics::{Diagnostic, Location, Sink};
use files::BYTE_ORDER_MARK;
use std::io;
use std::path::{Path, PathBuf};

/// Reads a whole file: a response file, or another text that an option names.
pub type FileReader<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// The state between two arguments.
pub struct State<'a> {
    /// The options that are already settled.
    pub config: Config,
    /// The inputs so far.
    pub inputs: Vec<InputSpec>,
    /// The positional options that hold now.
    pub current: InputState,
    /// The states that `--push-state` saved, each with whether `-static` held.
    pub pushed: Vec<(InputState, bool)>,
    /// Number of the next `--start-group`.
    pub next_group: u32,
    /// Number of the next `--start-lib`.
    pub next_lib: u32,
    /// The options whose meaning depends on later ones.
    pub pending: Pending,
    /// What the command line asks for besides a link.
    pub requests: Requests,
    /// Reads files that options name.
    pub files: FileReader<'a>,
    /// The current argument as written.
    pub argument: String,
    /// Its number.
    pub argument_index: u32,
    sink: &'a Sink,
}

/// The options whose meaning depends on others.
#[derive(Default)]
pub struct Pending {
    /// `-shared`, `-pie`, `-no-pie`: the last one given.
    pub kind: Option<Kind>,
    /// `-r`, as written.
    pub relocatable: Option<String>,
    /// `-L` values as written.
    pub directories: Vec<Vec<u8>>,
    /// The directories of `-Y`, which are searched after those of `-L`.
    pub default_directories: Vec<Vec<u8>>,
    /// `-rpath-link` directories.
    pub rpath_link: Vec<Vec<u8>>,
    /// `-mllvm` values.
    pub llvm_options: Vec<Vec<u8>>,
    /// `--sysroot` as written.
    pub sysroot: Option<PathBuf>,
    /// Whether undefined references from objects are reported, if an option says so.
    pub report_in_objects: Option<bool>,
    /// Whether undefined references from shared libraries are reported, if an option says so.
    pub report_in_shared_libraries: Option<bool>,
    /// `--warn-unresolved-symbols`, `--error-unresolved-symbols`.
    pub unresolved: Option<Report>,
    /// The machine that `--oformat` names, and the option as written.
    pub format_machine: Option<(Machine, String)>,
    /// The last emulation and the last format, if they are those of a 32-bit machine.
    pub narrow_emulation: Option<Option32Bit>,
    pub narrow_format: Option<Option32Bit>,
    /// `-z pack-relative-relocs`. `--pack-dyn-relocs` may ask for the same.
    pub pack_relative: bool,
    /// `--repro`: `--reproduce` with a name made of the output's.
    pub reproduce_beside: bool,
    /// `--sframe-plt`, `--no-sframe-plt`.
    pub sframe_plt: Option<bool>,
    /// `--sframe-share`, `--no-sframe-share`.
    pub sframe_share: Option<bool>,
}

/// An option that names a 32-bit machine.
#[derive(Clone, Debug)]
pub struct Option32Bit {
    /// The option as written.
    pub argument: String,
    /// The error if no other linker may make the link.
    pub fault: String,
}

/// Position dependence of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `-no-pie`.
    Plain,
    /// `-pie`.
    Pie,
    /// `-shared`.
    Shared,
}

/// What the command line asks for besides a link.
#[derive(Default)]
pub struct Requests {
    /// `--help`.
    pub help: bool,
    /// `--version`.
    pub version: bool,
    /// `-v`.
    pub short_version: bool,
    /// `-V`.
    pub emulations: bool,
    /// `--print-sysroot`.
    pub sysroot: bool,
    /// `--print-output-format`.
    pub output_format: bool,
    /// The linker that the version line names.
    pub identity: Identity,
}

impl Requests {
    /// Whether the answer is a text on standard output, and not a link.
    pub fn prints(&self, no_inputs: bool) -> bool {
        let Requests { help, version, sysroot, output_format, .. } = *self;
        let says_version = self.short_version || self.emulations;
        help || version || sysroot || output_format || says_version && no_inputs
    }
}

impl<'a> State<'a> {
    /// The state before the first argument.
    pub fn new(files: FileReader<'a>, sink: &'a Sink) -> Self {
        State {
            config: Config { output: PathBuf::from("a.out"), ..Config::default() },
            inputs: Vec::new(),
            current: InputState::default(),
            pushed: Vec::new(),
            next_group: 0,
            next_lib: 0,
            pending: Pending::default(),
            requests: Requests::default(),
            files,
            argument: String::new(),
            argument_index: 0,
            sink,
        }
    }

    /// Reports in the order of the arguments.
    pub fn report(&self, diagnostic: Diagnostic) {
        self.sink.report(diagnostic.ordered(self.argument_index, 0, 0));
    }

    /// The current argument, as a place for diagnostics.
    pub fn place(&self) -> Location {
        Location::Argument(self.argument.clone())
    }

    /// Adds an input: an argument that is not an option.
    pub fn add_file(&mut self, name: &[u8]) {
        self.add_input(InputSource::File(path(name)), self.current);
    }

    /// `-l`.
    ///
    /// # Errors
    /// The name is empty.
    pub fn add_library(&mut self, name: &[u8]) -> Outcome {
        let source = match name.strip_prefix(b":") {
            Some(exact) => InputSource::ExactLibrary(exact.to_vec()),
            None => InputSource::Library(name.to_vec()),
        };
        if matches!(&source, InputSource::Library(name) | InputSource::ExactLibrary(name) if name.is_empty())
        {
            return Err("expected the name of a library".into());
        }
        // Messages call it `-lNAME`, however it was written.
        let argument = format!("-l{}", shown(name));
        self.inputs.push(InputSpec { source, state: self.current, argument });
        Ok(())
    }

    /// `--just-symbols`.
    pub fn add_symbols_of(&mut self, file: &[u8]) {
        let state = InputState { just_symbols: true, ..self.current };
        self.add_input(InputSource::File(path(file)), state);
    }

    /// `-R`. As in GNU ld, this is a file whose symbols are used, if there is such a file; otherwise it is a
    /// directory for the dynamic linker.
    pub fn add_symbols_or_rpath(&mut self, value: &[u8]) {
        if (self.files)(&path(value)).is_ok() {
            self.add_symbols_of(value);
        } else {
            self.config.dynamic.rpath.push(value.to_vec());
        }
    }

    fn add_input(&mut self, source: InputSource, state: InputState) {
        self.inputs.push(InputSpec { source, state, argument: self.argument.clone() });
    }

    /// `--start-group`.
    ///
    /// # Errors
    /// A group is open already.
    pub fn start_group(&mut self) -> Outcome {
        if self.current.group.is_some() {
            return Err("groups cannot be nested; end the open group with --end-group first".into());
        }
        self.current.group = Some(self.next_group);
        self.next_group += 1;
        Ok(())
    }

    /// `--end-group`.
    ///
    /// # Errors
    /// No group is open.
    pub fn end_group(&mut self) -> Outcome {
        self.current.group.take().map(|_| ()).ok_or_else(|| "there is no --start-group before it".into())
    }

    /// `--start-lib`.
    ///
    /// # Errors
    /// A `--start-lib` is open already.
    pub fn start_lib(&mut self) -> Outcome {
        if self.current.lib.is_some() {
            return Err("--start-lib cannot be nested; write --end-lib first".into());
        }
        self.current.lib = Some(self.next_lib);
        self.next_lib += 1;
        Ok(())
    }

    /// `--end-lib`.
    ///
    /// # Errors
    /// No `--start-lib` is open.
    pub fn end_lib(&mut self) -> Outcome {
        self.current.lib.take().map(|_| ()).ok_or_else(|| "there is no --start-lib before it".into())
    }

    /// `--pop-state`: restores the state that `--push-state` saved, with `-static`. Open groups stay open.
    ///
    /// # Errors
    /// Nothing was saved.
    pub fn pop_state(&mut self) -> Outcome {
        let (saved, static_link) =
            self.pushed.pop().ok_or_else(|| "there is no --push-state before it".to_string())?;
        self.config.static_link = static_link;
        let InputState { as_needed, copies_needs, static_only, whole_archive, .. } = saved;
        self.current = InputState { as_needed, copies_needs, static_only, whole_archive, ..self.current };
        Ok(())
    }

    /// The text of a file that an option names.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_text(&self, name: &[u8]) -> Result<Vec<u8>, String> {
        let text =
            (self.files)(&path(name)).map_err(|error| format!("cannot read {}: {error}", shown(name)))?;
        Ok(text.strip_prefix(BYTE_ORDER_MARK).map(<[u8]>::to_vec).unwrap_or(text))
    }
}
