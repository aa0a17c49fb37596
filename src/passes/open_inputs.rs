//! Opens the inputs of the command line, in order.
//!
//! One walk in command-line order finds libraries, unpacks archives, follows text scripts, and lists the
//! files in link order. Opening the files takes most of the time, so many threads open each path that is
//! named directly before the walk comes to it (`early`).

mod added;
mod archives;
mod candidate;
mod copied_needs;
mod dependents;
mod early;
mod scripts;

pub use added::open_added;
pub use candidate::{Candidate, Origin, Role, Step};
pub use dependents::Dependents;
use early::Contents;

use crate::cli::{
    Config, InputFormat, InputSource as Named, InputSpec, InputState, Link32Bit, Machine, TARGETS,
};
use crate::diag::words::shown;
use crate::diag::{Code, Diagnostic, Location, Sink};
use crate::input::object::FileName;
use crate::input::sniff::{FileKind, file_kind, machine};
use crate::input::store::{InputSource, InputStore, reason};
use crate::input::{archive, binary};
use crate::passes::read_scripts::MainScript;
use crate::script::ast::{Command, Script};
use crate::script::{Sources, glob, parse_script};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The opened inputs of the command line.
#[derive(Default)]
pub struct Opened<'a> {
    /// Files and members.
    pub files: Vec<Candidate<'a>>,
    /// The steps of the search for definitions.
    pub steps: Vec<Step>,
    /// Text scripts among the inputs, each with the number of inputs before it. Their commands add to the
    /// layout.
    pub scripts: Vec<(usize, Script)>,
    /// The paths of files that take part or are searched, for `--dependency-file`, `--trace`, the map, and
    /// the check that no report overwrites an input.
    pub paths: Vec<PathBuf>,
    /// `--verbose`: one line for each file that the walk tried to open.
    pub attempts: String,
    /// The machine of the link; `None` until an option or the first ELF file tells it.
    pub machine: Option<Machine>,
    /// The first ELF file, if it has 32 bits and no option names a machine.
    pub first_of_32_bits: Option<Link32Bit>,
    /// The directories of `-L` and `SEARCH_DIR`. They are searched for libraries before the machine's own
    /// directories.
    directories: Vec<PathBuf>,
    /// For each path of a shared library, its row in `files`.
    seen_libraries: HashMap<PathBuf, u32>,
    /// For each path of an archive whose members are only searched, their rows in `files`.
    seen_archives: HashMap<PathBuf, Range<u32>>,
}

impl Opened<'_> {
    /// Bytes of the objects and of the members of archives.
    pub fn size(&self) -> usize {
        self.files.iter().filter(|file| !file.shared).map(|file| file.bytes.len()).sum()
    }
}

/// Opens all inputs, and the files that scripts of `-T` (`main`) name. Reports each file that cannot be found
/// or read, and each text that is not a script.
pub fn run<'a>(
    config: &Config,
    inputs: &[InputSpec],
    main: &[MainScript],
    source: &dyn InputSource,
    store: &'a InputStore,
    sources: &mut Sources,
    sink: &Sink,
) -> Opened<'a> {
    let early = early::open(config, inputs, source, store);
    let mut walk = Walk {
        config,
        source,
        store,
        sources,
        sink,
        opened: Opened {
            machine: config.machine,
            directories: config.search.directories.clone(),
            ..Opened::default()
        },
        early,
        group: None,
        lib: None,
        scripts: Scripts::default(),
        position: 0,
    };
    walk.startup_files(main);
    for (position, input) in inputs.iter().enumerate() {
        walk.position = position;
        walk.main_scripts(main, |before| before == position);
        walk.begin_input(&input.state);
        walk.input(position, input);
    }
    walk.begin_input(&InputState::default());
    // If the command line names a machine, `configure` has reported this.
    let found = walk.opened.machine.filter(|_| config.machine.is_none());
    if let Some(finding) = found.and_then(|machine| config.wrong_byte_order(machine)) {
        sink.report(finding);
    }
    walk.main_scripts(main, |before| before >= inputs.len());
    walk.files_in_sections(main);
    walk.opened
}

struct Walk<'w, 'a> {
    config: &'w Config,
    source: &'w dyn InputSource,
    store: &'a InputStore,
    sources: &'w mut Sources,
    sink: &'w Sink,
    opened: Opened<'a>,
    early: Vec<Option<io::Result<Contents<'a>>>>,
    /// Number of the open `--start-group`, and the index of its [`Step::Group`].
    group: Option<(u32, usize)>,
    /// Number of the open `--start-lib`, and the row of its first file.
    lib: Option<(u32, u32)>,
    scripts: Scripts,
    /// The number of the input that the walk is opening.
    position: usize,
}

/// The scripts that a walk follows.
#[derive(Default)]
struct Scripts {
    /// The scripts that the walk is inside of. Each is named by the one before it.
    open: Vec<PathBuf>,
    /// The number of lists of names that the walk is inside of. Each list is in a script that the list before
    /// it names. Scripts of `-T` have lists, too.
    naming: usize,
    /// Files and directories that were named again by a script whose text another script had before.
    named_again: usize,
    /// Whether scripts name more than a link may open. Then the walk opens no further file that a script
    /// names.
    is_too_much: bool,
}

impl<'a> Walk<'_, 'a> {
    /// Closes the `--start-lib` and `--start-group` that this input is no longer in, and opens those that it
    /// is in.
    fn begin_input(&mut self, state: &InputState) {
        if let Some((number, first)) = self.lib
            && state.lib != Some(number)
        {
            self.lib = None;
            let end = self.opened.files.len() as u32;
            self.opened.steps.push(Step::Members(first..end));
        }
        if let Some((number, step)) = self.group
            && state.group != Some(number)
        {
            self.group = None;
            self.close_group(step);
        }
        if let (Some(number), None) = (state.group, self.group) {
            self.group = Some((number, self.open_group()));
        }
        if let (Some(number), None) = (state.lib, self.lib) {
            self.lib = Some((number, self.opened.files.len() as u32));
        }
    }

    fn open_group(&mut self) -> usize {
        self.opened.steps.push(Step::Group(0));
        self.opened.steps.len() - 1
    }

    fn close_group(&mut self, step: usize) {
        self.opened.steps[step] = Step::Group((self.opened.steps.len() - step - 1) as u32);
    }

    fn input(&mut self, position: usize, input: &InputSpec) {
        match &input.source {
            Named::File(path) => self.path_input(position, path, input),
            Named::Library(name) => self.library(name, false, input),
            Named::ExactLibrary(name) => self.library(name, true, input),
        }
    }

    fn path_input(&mut self, position: usize, path: &Path, input: &InputSpec) {
        let Some(path) = self.remapped(path) else { return };
        let read = match self.early[position].take() {
            Some(read) => read,
            None => self.source.read_named(&path).map(|bytes| Contents::from(self.store.keep_file(bytes))),
        };
        self.note_attempt(&path, read.is_ok());
        match read {
            Ok(contents) => self.file(&path, contents, &input.state, &input.argument),
            Err(error) => self.cannot_open(&input.argument, &path, &error),
        }
    }

    /// Notes for `--verbose` that the walk tried to open a file, in GNU ld's words.
    fn note_attempt(&mut self, path: &Path, succeeded: bool) {
        if self.config.reports.verbose {
            let outcome = if succeeded { "succeeded" } else { "failed" };
            let line = format!("attempt to open {} {outcome}", path.display());
            self.opened.attempts.push_str(&shown(&line));
            self.opened.attempts.push('\n');
        }
    }

    /// The path after `--remap-inputs`; `None` if the option leaves the input out.
    fn remapped(&self, path: &Path) -> Option<PathBuf> {
        let name = path.as_os_str().as_encoded_bytes();
        for (pattern, replacement) in &self.config.search.remap {
            if glob::matches(pattern, name) {
                return replacement.clone();
            }
        }
        Some(path.to_path_buf())
    }

    fn cannot_open(&self, argument: &str, path: &Path, error: &io::Error) {
        let message = match error.kind() {
            io::ErrorKind::NotFound => format!("cannot find {}: {}", path.display(), reason(error)),
            _ => format!("cannot open {}: {}", path.display(), reason(error)),
        };
        let mut diagnostic = Diagnostic::error(Code::CannotOpen, message);
        if argument.as_bytes() != path.as_os_str().as_encoded_bytes() {
            diagnostic = diagnostic.note(format!("named by {argument}"));
        }
        self.report(diagnostic);
    }

    fn report(&self, diagnostic: Diagnostic) {
        self.sink.report(diagnostic.ordered(self.opened.files.len() as u32, 0, 0));
    }

    /// Opens the library of `-lNAME` or `-l:NAME`. If the output is an object, it takes nothing from shared
    /// libraries.
    fn library(&mut self, name: &[u8], exact: bool, input: &InputSpec) {
        let static_only = input.state.static_only || self.config.is_relocatable();
        let candidates: Vec<Vec<u8>> = match (exact, static_only) {
            (true, _) => vec![name.to_vec()],
            (false, true) => vec![[b"lib", name, b".a"].concat()],
            (false, false) => vec![[b"lib", name, b".so"].concat(), [b"lib", name, b".a"].concat()],
        };
        if self.search(&candidates, input) {
            return;
        }
        let mut diagnostic = Diagnostic::error(
            Code::LibraryNotFound,
            format!("cannot find {}: No such file or directory", input.argument),
        )
        .about(name);
        for directory in self.search_directories().iter().take(10) {
            diagnostic = diagnostic.note(format!("looked in {}", directory.display()));
        }
        if !exact && static_only {
            diagnostic = diagnostic.help("only libNAME.a was looked for, because of -static, -Bstatic or -r");
        }
        self.report(diagnostic);
    }

    /// Opens the first file in the search directories that has one of these names. Passes over files of other
    /// machines and over unreadable ones. Returns whether the search is over: a file was opened, or its error
    /// reported.
    fn search(&mut self, candidates: &[Vec<u8>], input: &InputSpec) -> bool {
        let mut passed_over = Vec::new();
        for directory in self.search_directories() {
            for candidate in candidates {
                let path = directory.join(OsStr::from_bytes(candidate));
                let exists = self.source.exists(&path);
                self.note_attempt(&path, exists);
                if !exists {
                    continue;
                }
                let bytes = match self.source.read(&path) {
                    Ok(bytes) => bytes,
                    // GNU ld goes on to the next directory, too.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                    // The search ends here: the next directory may have another library of that name, and
                    // nobody would notice.
                    Err(error) => {
                        self.cannot_open(&input.argument, &path, &error);
                        return true;
                    }
                };
                if self.is_incompatible(&bytes) {
                    passed_over.push(path);
                    continue;
                }
                let bytes = self.store.keep_file(bytes);
                self.warn_passed_over(&passed_over, &input.argument);
                self.file(&path, bytes.into(), &input.state, &input.argument);
                return true;
            }
        }
        self.warn_passed_over(&passed_over, &input.argument);
        false
    }

    fn search_directories(&self) -> Vec<PathBuf> {
        let mut directories = self.opened.directories.clone();
        if !self.config.search.no_default_directories
            && let Some(machine) = self.opened.machine
        {
            directories.extend(crate::arch::machine::library_directories(
                machine,
                self.config.search.sysroot.as_deref(),
            ));
        }
        directories
    }

    fn warn_passed_over(&self, paths: &[PathBuf], argument: &str) {
        if self.config.diagnostics.no_warn_search_mismatch {
            return;
        }
        for path in paths {
            self.report(Diagnostic::warning(
                Code::WrongMachine,
                format!("skipping incompatible {} when searching for {argument}", path.display()),
            ));
        }
    }

    /// Whether a file is an ELF file of another machine, an archive that begins with such a file, or a script
    /// whose `OUTPUT_FORMAT` names another machine.
    fn is_incompatible(&self, bytes: &[u8]) -> bool {
        let Some(wanted) = self.opened.machine else { return false };
        let of_another = |bytes: &[u8]| match file_kind(bytes) {
            FileKind::Elf32 => true,
            FileKind::Object | FileKind::Shared => {
                machine(bytes).is_some_and(|found| crate::arch::machine::from_elf(found) != Some(wanted))
            }
            _ => false,
        };
        match file_kind(bytes) {
            FileKind::Archive => archive::first_member(bytes).is_some_and(of_another),
            FileKind::Text => script_format(bytes).is_some_and(|format| format != Some(wanted)),
            _ => of_another(bytes),
        }
    }

    fn file(&mut self, path: &Path, contents: Contents<'a>, state: &InputState, argument: &str) {
        let bytes = contents.bytes;
        let text = self.store.keep_str(&path.to_string_lossy());
        self.opened.paths.push(path.to_path_buf());
        let name = FileName { path: text, member: None };
        let origin = Some(Origin { path: self.kept_path(path, text), offset: 0 });
        if state.format == InputFormat::Binary {
            return self.binary(name, bytes, state);
        }
        match contents.kind {
            FileKind::Object => self.object(name, contents, state, origin),
            FileKind::OtherElf if state.just_symbols => self.object(name, contents, state, None),
            FileKind::Shared if state.just_symbols => self.object(name, contents, state, None),
            FileKind::Shared => self.shared(path, name, bytes, state, argument),
            FileKind::Archive | FileKind::ThinArchive => self.archive(path, name, contents, state),
            FileKind::Text | FileKind::Empty => self.script(path, name, bytes, state),
            FileKind::Bitcode => self.bitcode(name, bytes, state, origin),
            FileKind::Elf32 => self.narrow(name, bytes),
            FileKind::CutElf => self.report(cut_short(name, bytes)),
            FileKind::OtherElf => self.report(
                Diagnostic::error(
                    Code::UnknownFileType,
                    "an ELF file that is neither an object nor a shared library",
                )
                .at(Location::File(name.to_string()))
                .help("--just-symbols takes the symbols of an executable"),
            ),
            FileKind::Unknown => self.report(
                Diagnostic::error(
                    Code::UnknownFileType,
                    "file not recognized: no ELF object, shared library, archive or linker script",
                )
                .at(Location::File(name.to_string())),
            ),
        }
    }

    /// Reports an ELF file with 32 bits.
    fn narrow(&mut self, name: FileName<'a>, bytes: &[u8]) {
        if self.opened.machine.is_none() {
            let emulation = machine(bytes).and_then(crate::arch::machine::narrow_emulation);
            let link = || Link32Bit { asked_by: name.to_string(), emulation };
            self.opened.first_of_32_bits.get_or_insert_with(link);
        }
        self.report(wrong_machine(name, "32-bit", self.opened.machine));
    }

    /// Whether a file is for the link's machine, by what its header says ([`machine`]). The first ELF file
    /// decides which machine that is.
    fn fits(&mut self, name: FileName<'_>, header: Option<(u16, bool)>) -> bool {
        let found = header.and_then(crate::arch::machine::from_elf);
        let wanted =
            *self.opened.machine.get_or_insert_with(|| found.unwrap_or(crate::arch::machine::DEFAULT));
        if found == Some(wanted) || self.config.diagnostics.no_warn_mismatch {
            return true;
        }
        let what = match (found, header) {
            (Some(found), _) => crate::arch::machine::architecture(found).to_owned(),
            (None, Some((number, big))) => {
                format!("unknown (machine {number}, {}-endian)", if big { "big" } else { "little" })
            }
            (None, None) => "unknown (ELF header cut short)".to_owned(),
        };
        self.report(wrong_machine(name, &what, Some(wanted)));
        false
    }

    fn push(&mut self, name: FileName<'a>, bytes: &'a [u8], state: &InputState, shared: bool) -> u32 {
        let index = self.opened.files.len() as u32;
        self.opened.files.push(Candidate {
            name,
            bytes,
            shared,
            as_needed: state.as_needed,
            copies_needs: state.copies_needs,
            searched: false,
            just_symbols: state.just_symbols,
            hide_symbols: false,
            role: Role::Opened,
            origin: None,
        });
        index
    }

    /// The path, kept in the store. `text` is its lossy form, which is enough if the path is UTF-8.
    fn kept_path(&self, path: &Path, text: &'a str) -> &'a Path {
        match path.to_str() {
            Some(_) => Path::new(text),
            None => Path::new(OsStr::from_bytes(self.store.keep(path.as_os_str().as_bytes()))),
        }
    }

    fn object(
        &mut self,
        name: FileName<'a>,
        contents: Contents<'a>,
        state: &InputState,
        origin: Option<Origin<'a>>,
    ) {
        if !self.fits(name, contents.machine) {
            return;
        }
        let index = self.push(name, contents.bytes, state, false);
        self.opened.files[index as usize].origin = origin;
        if self.lib.is_none() {
            self.opened.steps.push(Step::File(index));
        }
    }

    /// Adds LLVM bitcode. Only a plugin can tell its machine.
    fn bitcode(
        &mut self,
        name: FileName<'a>,
        bytes: &'a [u8],
        state: &InputState,
        origin: Option<Origin<'a>>,
    ) {
        let index = self.push(name, bytes, state, false);
        let file = &mut self.opened.files[index as usize];
        (file.role, file.origin) = (Role::Bitcode, origin);
        if self.lib.is_none() {
            self.opened.steps.push(Step::File(index));
        }
    }

    fn binary(&mut self, name: FileName<'a>, bytes: &'a [u8], state: &InputState) {
        let machine = *self.opened.machine.get_or_insert(crate::arch::machine::DEFAULT);
        let object = self.store.keep(binary::wrap(name.path, bytes, machine));
        self.object(name, object.into(), state, None);
    }

    fn shared(
        &mut self,
        path: &Path,
        name: FileName<'a>,
        bytes: &'a [u8],
        state: &InputState,
        argument: &str,
    ) {
        if !self.fits(name, machine(bytes)) {
            return;
        }
        if self.config.static_link || self.config.is_relocatable() || state.static_only {
            let message = format!("attempted static link of dynamic object {name}");
            let mut diagnostic = Diagnostic::error(Code::UnsupportedInput, message);
            if argument != name.to_string() {
                diagnostic = diagnostic.note(format!("named by {argument}"));
            }
            if !self.config.static_link && !self.config.is_relocatable() {
                diagnostic = diagnostic
                    .help("-n, -N and -Bstatic allow archives only; put -Bdynamic before this file");
            }
            return self.report(diagnostic);
        }
        let next = self.opened.files.len() as u32;
        match self.opened.seen_libraries.entry(path.to_path_buf()) {
            Entry::Occupied(seen) => {
                self.opened.files[*seen.get() as usize].as_needed &= state.as_needed;
                return;
            }
            Entry::Vacant(entry) => entry.insert(next),
        };
        let index = self.push(name, bytes, state, true);
        self.opened.files[index as usize].searched = argument.starts_with("-l");
        self.opened.steps.push(Step::File(index));
    }
}

/// The machine that a script's `OUTPUT_FORMAT` names: `None` if the script lacks the command, `Some(None)` if
/// the format is not supported.
fn script_format(bytes: &[u8]) -> Option<Option<Machine>> {
    let mut include = |_: &str, _: &str| Err("no script is read yet".to_owned());
    let script = parse_script(&mut Sources::new(), "", bytes, &mut include).ok()?;
    let format = script.commands.iter().find_map(|command| match command {
        Command::OutputFormat { default, .. } => Some(&default.bytes),
        _ => None,
    })?;
    Some(TARGETS.iter().find(|(name, _)| name.as_bytes() == &format[..]).map(|(_, machine)| *machine))
}

/// The diagnostic for an ELF file that has no whole header.
fn cut_short(name: FileName<'_>, bytes: &[u8]) -> Diagnostic {
    let message = format!("{} bytes are too few for an ELF header", bytes.len());
    Diagnostic::error(Code::MalformedInput, message)
        .at(Location::File(name.to_string()))
        .help("make it again: what wrote it has not come to its end")
}

/// The error about a file of another architecture. It is GNU ld's line and nothing more, because builds
/// filter it out by its text.
fn wrong_machine(name: FileName<'_>, found: &str, wanted: Option<Machine>) -> Diagnostic {
    let wanted = wanted.map_or("64-bit", crate::arch::machine::architecture);
    let message = format!("{found} architecture of input file `{name}' is incompatible with {wanted} output");
    Diagnostic::error(Code::WrongMachine, message)
}
