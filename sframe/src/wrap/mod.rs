//! `sframe wrap-ld`: runs another linker on split inputs, so that the frames of each text section live and
//! die with it in that linker, too.
//!
//! The command line stays the same, word for word, except that the names of split copies replace the names of
//! inputs whose one `.sframe` covers several text sections. The copies lie in a [cache](cache::Cache) under
//! the base names of the originals, because patterns in scripts match these. Then this process becomes the
//! real linker, so exit status, signals and output are the linker's own.
//!
//! If a linker script names such inputs, a copy of it with the other names replaces it. Some libraries (`-l`)
//! are only in the linker's own folders. GNU ld is asked for these folders ([`folders::Folders`]); other
//! linkers do not tell them.
//!
//! Compilers find the wrapper through links to the command that have the names of linkers (`gcc -B`): see
//! [`invoked_as`].

mod archive;
mod cache;
pub mod candidate;
mod folders;

use super::args::WrapLd;
use super::open::Problem;
use super::split;
use archive::Unsplit;
use cache::Cache;
use candidate::{is_candidate, may_have_frames};
use commands::programs::Programs;
use diagnostics::Sink;
use diagnostics::words::count;
use files::sniff::{FileKind, file_kind};
use files::{open_regular, read_arguments};
use folders::{Folders, beside, is_same, option_of};
use linker_options::response;
use linker_script::inputs::input_names;
use sframe_sections::split::Form;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The environment variable that names the real linker.
const REAL_LINKER: &str = "SFRAME_REAL_LD";
/// How deep scripts may be nested that name each other.
const MAX_DEPTH: usize = 8;

/// The arguments of the wrapper if the command was called by the name of a linker: `ld`, `ld.lld` and so on.
pub fn invoked_as(mut words: impl Iterator<Item = OsString>) -> Option<WrapLd> {
    let program = words.next()?;
    let name = Path::new(&program).file_name()?.to_owned();
    let is_linker = name == "ld" || name.as_bytes().starts_with(b"ld.");
    is_linker.then(|| WrapLd {
        cache: None,
        cache_limit: cache::DEFAULT_LIMIT,
        light: false,
        verbose: false,
        linker: std::env::var_os(REAL_LINKER).filter(|it| !it.is_empty()).unwrap_or(name),
        arguments: words.collect(),
    })
}

/// Splits the inputs and becomes the linker. Returns only if the linker cannot be run.
pub fn run(arguments: &WrapLd) -> ExitCode {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let programs = Programs::of_environment();
    let linker = match programs.real(&arguments.linker, REAL_LINKER) {
        Ok(linker) => linker,
        Err(message) => {
            eprintln!("sframe wrap-ld: {message}");
            return ExitCode::FAILURE;
        }
    };
    let cache = match Cache::open(arguments.cache.as_deref(), arguments.cache_limit) {
        Ok(cache) => cache,
        Err(problem) => {
            eprintln!(
                "sframe wrap-ld: warning: {problem}; inputs are linked as they are; --cache or SFRAME_WRAP_CACHE names \
                 another folder"
            );
            return become_linker(&programs, &linker, &arguments.arguments);
        }
    };
    let mut wrapper = Wrapper {
        form: if arguments.light || set("SFRAME_AS_LIGHT") { Form::Light } else { Form::Same },
        verbose: arguments.verbose || set("SFRAME_WRAP_VERBOSE"),
        cache,
        folders: Folders::new(&linker, &[]),
        shared: true,
        pushed: Vec::new(),
        split: 0,
        depth: 0,
        refused: None,
    };
    let words = wrapper.words(&arguments.arguments);
    if wrapper.verbose {
        let split = count(wrapper.split as u64, "input");
        eprintln!("sframe wrap-ld: {split} split; {}", linker.display());
    }
    wrapper.cache.shrink();
    if let Some(problem) = wrapper.refused {
        eprintln!(
            "sframe wrap-ld: error: {problem}; an input names it, and the linker may wait for it for ever"
        );
        return ExitCode::FAILURE;
    }
    become_linker(&programs, &linker, &words)
}

/// Becomes the linker. Returns only if it cannot be run.
fn become_linker(programs: &Programs, linker: &Path, words: &[OsString]) -> ExitCode {
    let (name, passed) = programs.passed_on();
    let error = Command::new(linker).args(words).env(name, passed).exec();
    eprintln!("sframe wrap-ld: cannot run {}: {error}", linker.display());
    ExitCode::FAILURE
}

/// How the command line names a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// As an input; the file may be a script.
    Input,
    /// As the script of `-T`.
    Script,
}

struct Wrapper {
    form: Form,
    verbose: bool,
    cache: Cache,
    folders: Folders,
    /// Whether `-l` also finds shared libraries.
    shared: bool,
    /// The values of `shared` that `--push-state` saved.
    pushed: Vec<bool>,
    /// Number of inputs that were replaced.
    split: usize,
    /// How deep the current script is nested.
    depth: usize,
    /// The first reason to refuse the link.
    refused: Option<Problem>,
}

impl Wrapper {
    /// The words for the linker.
    fn words(&mut self, original: &[OsString]) -> Vec<OsString> {
        let bytes = original.iter().map(|word| word.as_bytes().to_vec()).collect();
        // The linker itself reports a broken response file.
        let expanded = response::expand(bytes, &read_arguments, &Sink::default());
        self.folders.read(&expanded);
        let replaced = self.replace(&expanded);
        if replaced == expanded {
            return original.to_vec();
        }
        let from_file = original.iter().any(|word| word.as_bytes().starts_with(b"@"));
        match from_file.then(|| self.cache.put("arguments", &quoted(&replaced))).flatten() {
            Some(file) => vec![[OsStr::new("@"), file.as_os_str()].into_iter().collect()],
            None => replaced.into_iter().map(OsString::from_vec).collect(),
        }
    }

    /// The words, with the names of copies instead of the names of split inputs.
    fn replace(&mut self, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut out, mut binary) = (Vec::with_capacity(words.len()), false);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(option) = option_of(word) else {
                let copy = if binary || word.starts_with(b"-") {
                    None
                } else {
                    self.copy_of(path(word), Role::Input)
                };
                out.push(copy.map_or_else(|| word.clone(), bytes_of));
                continue;
            };
            let separate = if option.takes_next { words.next() } else { None };
            let value = separate.map(Vec::as_slice).or(option.value);
            let copy = match (option.name, value) {
                ("l", Some(name)) => self.library(name),
                ("T" | "dT", Some(script)) => self.copy_of(path(script), Role::Script),
                _ => None,
            };
            match (option.name, value) {
                ("b", Some(format)) => binary = format == b"binary",
                // After these, GNU ld does not look for shared libraries either.
                ("Bstatic" | "static" | "r" | "n" | "N", _) => self.shared = false,
                ("Bdynamic", _) => self.shared = true,
                ("push-state", _) => self.pushed.push(self.shared),
                ("pop-state", _) => self.shared = self.pushed.pop().unwrap_or(self.shared),
                _ => {}
            }
            match copy.map(bytes_of) {
                // The path of the copy names the library, so the option goes.
                Some(copy) if option.name == "l" => out.push(copy),
                Some(copy) if separate.is_some() => out.extend([word.clone(), copy]),
                Some(copy) => {
                    let name = word.len() - value.map_or(0, <[u8]>::len);
                    out.push([&word[..name], &copy].concat());
                }
                None => out.extend([word].into_iter().chain(separate).cloned()),
            }
        }
        out
    }

    /// The copy of an archive that `-l` finds.
    fn library(&mut self, name: &[u8]) -> Option<PathBuf> {
        let found = self.folders.library(name, self.shared);
        self.copy_of(&found?, Role::Input)
    }

    /// A split copy of an input; `None` if there is nothing to split.
    fn copy_of(&mut self, path: &Path, role: Role) -> Option<PathBuf> {
        let name = path.file_name()?;
        let bytes = contents(path)?;
        let is_archive = archive::is_archive(&bytes);
        let thin = archive::is_thin(&bytes);
        if file_kind(&bytes) == FileKind::Text {
            return self.script(path, &bytes, role);
        }
        if !is_archive && !is_candidate(&bytes) || is_archive && !thin && !may_have_frames(&bytes) {
            return None;
        }
        let light = self.form == Form::Light;
        // The members of a thin archive lie in other files, so its own bytes are not a key.
        let key = cache::key(&bytes, light);
        let known = || self.cache.get(&key, name);
        let copy = if let Some(copy) = (!thin).then(known).flatten() {
            copy
        } else {
            let split = if is_archive {
                archive::split(path, &bytes, self.form)
            } else {
                let done = split::split(&path.display().to_string(), &bytes, self.form);
                done.map(|done| done.bytes).map_err(Unsplit::from)
            };
            match split {
                Ok(new) => self.put(thin, &key, name, light, &new?)?,
                Err(Unsplit::AsItIs(problem)) => {
                    eprintln!("sframe wrap-ld: warning: {problem}; linked as it is");
                    return None;
                }
                Err(Unsplit::Refused(problem)) => {
                    self.refused.get_or_insert(problem);
                    return None;
                }
            }
        };
        self.split += 1;
        if self.verbose {
            eprintln!("sframe wrap-ld: {} is split: {}", path.display(), copy.display());
        }
        Some(copy)
    }

    /// A copy of a script with the names of copies instead of the names of split inputs; `None` if no input
    /// is split.
    fn script(&mut self, path: &Path, text: &[u8], role: Role) -> Option<PathBuf> {
        let folder = path.parent().filter(|_| role == Role::Input);
        if self.depth == MAX_DEPTH || role == Role::Script && self.is_disputed(path, text) {
            return None;
        }
        self.folders.take_folders(text);
        self.depth += 1;
        let (mut new, mut done, mut split, mut quotable) = (Vec::new(), 0, false, true);
        for input in input_names(text) {
            let own = beside(folder, input.name).or_else(|| self.folders.below_sysroot(path, input.name));
            let copy = match input.name.strip_prefix(b"-l") {
                Some(library) => self.library(library),
                None => {
                    self.refuse_irregular(folder, input.name);
                    let file = own.clone().or_else(|| self.folders.file(input.name));
                    file.and_then(|file| self.copy_of(&file, Role::Input))
                }
            };
            split |= copy.is_some();
            // The copy of the script lies in another folder, so relative names would mean other files there.
            let Some(file) = copy.or_else(|| std::path::absolute(own?).ok()) else { continue };
            new.extend_from_slice(&text[done..input.place.start]);
            new.extend_from_slice(&[b"\"", file.as_os_str().as_bytes(), b"\""].concat());
            done = input.place.end;
            // A script cannot quote a name that contains a quote.
            quotable &= !file.as_os_str().as_bytes().contains(&b'"');
        }
        self.depth -= 1;
        if !split || !quotable {
            return None;
        }
        new.extend_from_slice(&text[done..]);
        self.cache.put(&path.file_name()?.to_string_lossy(), &new)
    }

    /// Refuses the link if a name in a script leads to a pipe or a device, in the script's folder or in the
    /// current one.
    fn refuse_irregular(&mut self, folder: Option<&Path>, name: &[u8]) {
        let name = path(name);
        let mut places = folder.map(|folder| folder.join(name)).into_iter().chain([name.to_owned()]);
        if let Some(file) = places.find(|file| archive::is_irregular(file)) {
            let problem = Problem::new(file.display().to_string(), "not a regular file");
            self.refused.get_or_insert(problem);
        }
    }

    /// Whether linkers disagree on the files that a script of `-T` names: GNU ld does not look in the
    /// script's folder, others do.
    fn is_disputed(&mut self, path: &Path, text: &[u8]) -> bool {
        input_names(text)
            .iter()
            .filter_map(|input| Some((input, beside(path.parent(), input.name)?)))
            .any(|(input, beside)| !self.folders.file(input.name).is_some_and(|file| is_same(&file, &beside)))
    }

    fn put(&self, thin: bool, key: &str, name: &OsStr, light: bool, new: &[u8]) -> Option<PathBuf> {
        let key = if thin { &cache::key(new, light) } else { key };
        self.cache.add(key, name, new)
    }
}

/// The contents of a file that may have to be split; `None` if its first bytes show that it need not be. The
/// file is read, not mapped: it may change meanwhile, and the key and the copy must be made from the same
/// bytes.
fn contents(path: &Path) -> Option<Vec<u8>> {
    let (mut file, _) = open_regular(path).ok()?;
    let mut bytes = Vec::new();
    file.by_ref().take(START).read_to_end(&mut bytes).ok()?;
    if bytes.starts_with(b"\x7fELF") && !candidate::is_relocatable(&bytes) {
        return None;
    }
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The first bytes of a file, which say whether it is a relocatable object.
const START: u64 = 18;

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn bytes_of(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_vec()
}

/// The text of a response file that contains these words.
fn quoted(words: &[Vec<u8>]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        text.push(b'"');
        for &byte in word {
            if matches!(byte, b'"' | b'\\') {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.extend_from_slice(b"\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{invoked_as, quoted};
    use diagnostics::Sink;
    use linker_options::response;
    use std::path::Path;

    #[test]
    fn names_of_linkers_make_the_command_a_wrapper() {
        let of = |name: &str| invoked_as([name.into(), "a.o".into()].into_iter());
        assert!(of("/x/ld").is_some() && of("ld.lld").is_some());
        assert!(of("/x/sframe").is_none() && of("ldd").is_none());
        assert_eq!(of("ld.mold").unwrap().arguments, ["a.o"]);
    }

    #[test]
    fn response_files_give_the_words_back() {
        let all = vec![b"a b".to_vec(), b"c\"d\\".to_vec(), Vec::new(), b"-o".to_vec()];
        let text = quoted(&all);
        let read = |_: &Path| Ok(text.clone());
        assert_eq!(response::expand(vec![b"@x".to_vec()], &read, &Sink::default()), all);
    }
}
