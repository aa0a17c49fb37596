//! Text scripts among the inputs: opens the files and directories that they name (`INPUT`, `GROUP`,
//! `SEARCH_DIR`).
//!
//! A script may name further scripts. A few scripts that name each other often could stand for any number of
//! files. So there are limits on how deep scripts nest, how many there are, and how much they name again.

use super::Walk;
use crate::cli::{InputFormat, InputSource as Named, InputSpec, InputState};
use crate::diag::{Code, Diagnostic, Location};
use crate::input::object::FileName;
use crate::input::side_files::read_include;
use crate::passes::read_scripts::MainScript;
use crate::script::ast::{Command, InputFile, Name, Script};
use crate::script::glob::{Glob, Shape};
use crate::script::parse_script;
use hashbrown::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The deepest nesting of scripts that name scripts.
const MAX_SCRIPT_DEPTH: usize = 20;

/// Scripts may name at most so many files and directories again. Drivers name `-lc` often, and many systems
/// have a script there. But an object takes kilobytes of memory each time, so without a limit, a few
/// kilobytes of scripts could take all memory.
const MAX_NAMED_AGAIN: usize = 1 << 15;

impl<'a> Walk<'_, 'a> {
    pub(super) fn script(&mut self, path: &Path, name: FileName<'a>, bytes: &'a [u8], state: &InputState) {
        if self.scripts.open.len() >= MAX_SCRIPT_DEPTH || self.scripts.open.iter().any(|open| open == path) {
            return self.report(
                Diagnostic::error(Code::ScriptError, "scripts name each other without end")
                    .at(Location::File(name.to_string())),
            );
        }
        let again = match self.sources.count_input(name.path, bytes, self.scripts.naming > 0) {
            Ok(again) => again,
            Err(message) => return self.give_up(name, message),
        };
        let (source, directories) = (self.source, &self.opened.directories);
        let mut include = |name: &str, _: &str| read_include(source, directories, name);
        let script = match parse_script(self.sources, name.path, bytes, &mut include) {
            Ok(script) => script,
            Err(findings) => return self.report_no_script(name, findings),
        };
        if again {
            self.scripts.named_again += count_names(&script);
            let count = self.scripts.named_again;
            if count > MAX_NAMED_AGAIN {
                let message = format!(
                    "scripts that are opened more than once name {count} files, not counted the first time, at most \
                     {MAX_NAMED_AGAIN} may be"
                );
                return self.give_up(name, message);
            }
        }
        self.scripts.open.push(path.to_path_buf());
        self.file_commands(path, &script, state);
        self.scripts.open.pop();
        self.opened.scripts.push((self.position, script));
    }

    /// Reports what was found in a text that is no script. Of source code, the first finding says enough.
    fn report_no_script(&self, name: FileName<'a>, mut findings: Vec<Diagnostic>) {
        if let Some(first) = findings.first_mut() {
            first.message = format!("{name}: not an object; read as a linker script: {}", first.message);
            if is_source_code(name.path) {
                first.help = vec!["it seems to be source code: compile it, and link the object".into()];
                findings.truncate(1);
            }
        }
        // The findings are reported in the order of the text.
        let file = self.opened.files.len() as u32;
        for (found, place) in findings.into_iter().zip(0..) {
            self.sink.report(found.ordered(file, 0, place));
        }
    }

    /// Reports that scripts name too much. The walk then opens no further file that a script names.
    fn give_up(&mut self, name: FileName<'_>, message: String) {
        self.scripts.is_too_much = true;
        self.report(
            Diagnostic::error(Code::ScriptError, message)
                .at(Location::File(name.to_string()))
                .help("name each file once, in one script"),
        );
    }

    /// Carries out a script's commands about inputs (`INPUT`, `GROUP`, `SEARCH_DIR` and others).
    fn file_commands(&mut self, path: &Path, script: &Script, state: &InputState) {
        let mut state = *state;
        for command in &script.commands {
            match command {
                Command::Target(format) if *format.bytes == *b"binary" => state.format = InputFormat::Binary,
                Command::Target(_) => state.format = InputFormat::Elf,
                Command::Input(files) => self.script_files(path, files, &state),
                Command::Group(files) => {
                    let step = self.open_group();
                    self.script_files(path, files, &state);
                    self.close_group(step);
                }
                Command::SearchDir(directory) => {
                    self.opened.directories.push(self.in_sysroot(&directory.bytes));
                }
                _ => {}
            }
        }
    }

    /// Puts the `STARTUP` files of scripts of `-T` before all other inputs.
    pub(super) fn startup_files(&mut self, main: &[MainScript]) {
        for MainScript { path, script, .. } in main {
            for command in &script.commands {
                if let Command::Startup(name) = command {
                    let file = InputFile { name: name.clone(), library: false, as_needed: false };
                    self.script_files(path, &[file], &InputState::default());
                }
            }
        }
    }

    /// Opens the files that scripts of `-T` name, at the place of these options among the inputs.
    pub(super) fn main_scripts(&mut self, main: &[MainScript], here: impl Fn(usize) -> bool) {
        for main in main.iter().filter(|main| here(main.inputs_before)) {
            self.begin_input(&InputState::default());
            self.file_commands(&main.path, &main.script, &InputState::default());
        }
    }

    /// Opens the files that statements of `SECTIONS` name in scripts of `-T`, as GNU ld does:
    /// `start.o(.text)`. A name that an input or a member of an archive has already only chooses that one,
    /// and a name without a file chooses nothing.
    pub(super) fn files_in_sections(&mut self, main: &[MainScript]) {
        let mut seen: Option<HashSet<Vec<u8>>> = None;
        for MainScript { path, script, .. } in main {
            for name in script.input_statements().map(|statement| &statement.file.glob) {
                let glob = Glob::new(&name.bytes);
                let Shape::Exact(text) = glob.shape() else { continue };
                if text.contains(&b':') {
                    continue;
                }
                let seen = seen.get_or_insert_with(|| self.names_of_files());
                if !seen.insert(text.to_vec()) || !self.source.exists(Path::new(OsStr::from_bytes(text))) {
                    continue;
                }
                let name = Name { bytes: text.into(), span: name.span };
                let file = InputFile { name, library: false, as_needed: false };
                self.script_files(path, &[file], &InputState::default());
            }
        }
    }

    /// The paths of the opened files, and the names of archive members.
    fn names_of_files(&self) -> HashSet<Vec<u8>> {
        let names = self.opened.files.iter().map(|file| file.name.member.unwrap_or(file.name.path));
        names.map(|name| name.as_bytes().to_vec()).collect()
    }

    fn in_sysroot(&self, directory: &[u8]) -> PathBuf {
        match (after_sysroot(directory), &self.config.search.sysroot) {
            (Some(rest), Some(root)) => below(root, rest),
            (Some(rest), None) => OsStr::from_bytes(rest).into(),
            (None, _) => OsStr::from_bytes(directory).into(),
        }
    }

    fn script_files(&mut self, script: &Path, files: &[InputFile], state: &InputState) {
        self.scripts.naming += 1;
        for file in files {
            if self.scripts.is_too_much {
                break;
            }
            let state = InputState { as_needed: state.as_needed || file.as_needed, ..*state };
            self.script_file(script, file, state);
        }
        self.scripts.naming -= 1;
    }

    fn script_file(&mut self, script: &Path, file: &InputFile, state: InputState) {
        let text = file.name.text().into_owned();
        if file.library {
            let spec = InputSpec {
                source: Named::Library(file.name.bytes.to_vec()),
                state,
                argument: format!("-l{text}"),
            };
            return match file.name.bytes.strip_prefix(b":") {
                Some(exact) => self.library(exact, true, &spec),
                None => self.library(&file.name.bytes, false, &spec),
            };
        }
        let Some(path) = self.find_script_file(script, &file.name.bytes) else {
            return self.report(
                Diagnostic::error(Code::CannotOpen, format!("cannot find {text}: No such file or directory"))
                    .at(self.sources.location(file.name.span)),
            );
        };
        let read = self.source.read(&path);
        self.note_attempt(&path, read.is_ok());
        match read {
            Ok(bytes) => {
                let bytes = self.store.keep_file(bytes);
                self.file(&path, bytes.into(), &state, &text);
            }
            Err(error) => self.cannot_open(&text, &path, &error),
        }
    }

    /// Finds a file that a script names. `=path` and `$SYSROOTpath` count from the sysroot, and so does an
    /// absolute path in a script inside the sysroot. A relative name is searched beside the script, in the
    /// current directory, then in library directories. For scripts of `-T`, the current directory comes
    /// first, as in GNU ld.
    fn find_script_file(&self, script: &Path, name: &[u8]) -> Option<PathBuf> {
        let sysroot = self.config.search.sysroot.as_deref();
        let name = match (after_sysroot(name), sysroot) {
            (Some(_), Some(_)) => return Some(self.in_sysroot(name)),
            // Without a sysroot, the prefix stands for nothing.
            (Some(rest), None) => rest,
            (None, _) => name,
        };
        let path = Path::new(OsStr::from_bytes(name));
        if path.is_absolute() {
            if let Some(root) = sysroot
                && self.source.canonical(script).starts_with(self.source.canonical(root))
            {
                return Some(below(root, name));
            }
            return Some(path.into());
        }
        let beside = script.parent().unwrap_or(Path::new("")).join(path);
        let is_main = self.scripts.open.is_empty();
        let first = if is_main { [path.to_owned(), beside] } else { [beside, path.to_owned()] };
        first
            .into_iter()
            .chain(self.search_directories().into_iter().map(|directory| directory.join(path)))
            .find(|path| self.source.exists(path))
    }
}

/// The rest of a name that begins with a sign for the sysroot.
fn after_sysroot(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(b"=").or_else(|| name.strip_prefix(b"$SYSROOT"))
}

/// The path, absolute or not, below a folder.
fn below(root: &Path, path: &[u8]) -> PathBuf {
    let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
    root.join(OsStr::from_bytes(&path[slashes..]))
}

/// How many files and directories a script names for the search of inputs.
fn count_names(script: &Script) -> usize {
    let names = |command: &Command| match command {
        Command::Input(files) | Command::Group(files) => files.len(),
        Command::SearchDir(_) => 1,
        _ => 0,
    };
    script.commands.iter().map(names).sum()
}

/// Whether a file's name is one of source code.
fn is_source_code(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        matches!(
            extension,
            "c" | "cc" | "cpp" | "cxx" | "C" | "h" | "hh" | "hpp" | "s" | "S" | "asm" | "rs" | "f" | "f90"
        )
    })
}
