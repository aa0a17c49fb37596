//! Finds the files that the real linker would find: libraries, and files that scripts name.

use files::{InputSource, SystemSource};
use linker_options::{WrittenOption, written_option};
use linker_script::inputs::search_folders;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folders of a command line.
pub struct Folders {
    linker: PathBuf,
    /// The folders of `-L`, in their order. They apply to all `-l` of the command line.
    named: Vec<PathBuf>,
    /// The linker's own folders. The wrapper asks for them when no folder of `-L` has a library.
    own: Option<Vec<PathBuf>>,
    /// The folders of `SEARCH_DIR` in scripts. The linker searches them last.
    scripted: Vec<PathBuf>,
    /// Whether the linker searches the folders of `-L` only.
    only_named: bool,
    sysroot: Option<PathBuf>,
    /// Words that change the linker's own folders.
    choice: Vec<OsString>,
}

impl Folders {
    /// The folders of a linker's command line.
    pub fn new(linker: &Path, words: &[Vec<u8>]) -> Self {
        let mut this = Self {
            linker: linker.to_owned(),
            named: Vec::new(),
            own: None,
            scripted: Vec::new(),
            only_named: false,
            sysroot: None,
            choice: Vec::new(),
        };
        this.read(words);
        this
    }

    /// Reads the options about folders among these words.
    pub fn read(&mut self, words: &[Vec<u8>]) {
        let mut words = words.iter().map(Vec::as_slice);
        while let Some(word) = words.next() {
            let Some(option) = option_of(word) else { continue };
            let value = if option.takes_next { words.next() } else { option.value };
            match (option.name, value) {
                ("L", Some(folder)) => self.named.push(path(folder)),
                ("nostdlib", _) => self.only_named = true,
                ("T" | "dT", Some(script)) => self.take_script(path(script)),
                ("m", Some(name)) => self.choice.extend(["-m".into(), word_of(name)]),
                ("sysroot", Some(root)) => {
                    self.sysroot = Some(path(root));
                    self.choice.push(word_of(&[b"--sysroot=", root].concat()));
                }
                _ => {}
            }
        }
    }

    /// Takes the folders of a script that replaces the built-in one, which GNU ld then does not search. A
    /// script with `INSERT` does not replace it.
    fn take_script(&mut self, script: PathBuf) {
        // A pipe gives its text only once, and the linker needs it.
        let Ok(text) = SystemSource.read(&script) else { return };
        if memchr::memmem::find(&text, b"INSERT").is_none() {
            self.own.get_or_insert_default();
        }
        self.take_folders(&text);
    }

    /// Takes the folders of `SEARCH_DIR` in a script.
    pub fn take_folders(&mut self, text: &[u8]) {
        for folder in search_folders(text).map(path) {
            if !self.scripted.contains(&folder) {
                self.scripted.push(folder);
            }
        }
    }

    /// The file of the library that `-l` names. With `shared`, it may be a shared library.
    pub fn library(&mut self, name: &[u8], shared: bool) -> Option<PathBuf> {
        let find = |folders: &[PathBuf]| folders.iter().find_map(|folder| library_in(folder, name, shared));
        let found = find(&self.named);
        if found.is_some() || self.only_named {
            return found;
        }
        find(self.own()).or_else(|| find(&self.scripted))
    }

    /// A file that a script names, if the script's folder does not have it: it is in the working directory or
    /// a folder of `-L`. Linkers disagree on which of the two comes first, so the result is `None` if both
    /// have one. Only then the linker looks in its own folders and those of `SEARCH_DIR`.
    pub fn file(&mut self, name: &[u8]) -> Option<PathBuf> {
        let name = path(name);
        if name.is_absolute() {
            // With a sysroot, the linker may mean a file below the sysroot.
            return Some(name).filter(|it| self.sysroot.is_none() && it.is_file());
        }
        let find =
            |folders: &[PathBuf]| folders.iter().map(|folder| folder.join(&name)).find(|it| it.is_file());
        match (Some(&name).filter(|it| it.is_file()), find(&self.named)) {
            (Some(here), Some(named)) => is_same(here, &named).then(|| here.clone()),
            (Some(here), None) => Some(here.clone()),
            (None, Some(named)) => Some(named),
            (None, None) if self.only_named => None,
            (None, None) => {
                let scripted = find(&self.scripted)?;
                find(self.own()).or(Some(scripted))
            }
        }
    }

    /// The file for an absolute name in a script that lies below the sysroot: that file lies below the
    /// sysroot, too.
    pub fn below_sysroot(&self, script: &Path, name: &[u8]) -> Option<PathBuf> {
        let inside = name.strip_prefix(b"/")?;
        let root = self.sysroot.as_ref()?.canonicalize().ok()?;
        let is_below = script.canonicalize().is_ok_and(|script| script.starts_with(&root));
        Some(root.join(path(inside))).filter(|it| is_below && it.is_file())
    }

    /// The linker's own folders: the built-in script names them, and GNU ld prints it.
    fn own(&mut self) -> &[PathBuf] {
        if self.own.is_none() {
            let ask = |option: &str| {
                let mut command = Command::new(&self.linker);
                command.args(&self.choice).arg(option).stdin(Stdio::null()).stderr(Stdio::null());
                command.output().map(|output| output.stdout).unwrap_or_default()
            };
            let script = ask("--verbose");
            let mut root = self.sysroot.clone();
            if root.is_none() && directories(&script).any(|folder| folder.starts_with(b"=")) {
                root = Some(path(ask("--print-sysroot").trim_ascii()));
            }
            let root = root.unwrap_or_default();
            let below = |folder: &[u8]| match folder.strip_prefix(b"=") {
                Some(inside) => path(&[root.as_os_str().as_bytes(), inside].concat()),
                None => path(folder),
            };
            self.own = Some(directories(&script).map(below).collect());
        }
        self.own.as_deref().unwrap_or_default()
    }
}

/// The file of a relative name in a script's folder, unless that is the working directory.
pub fn beside(folder: Option<&Path>, name: &[u8]) -> Option<PathBuf> {
    let name = path(name);
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty() && name.is_relative());
    folder.map(|folder| folder.join(&name)).filter(|it| it.is_file())
}

/// Whether two paths lead to the same file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// The option that a word is. A word that does not start with a dash is an input.
pub fn option_of(word: &[u8]) -> Option<WrittenOption<'_>> {
    word.starts_with(b"-").then(|| written_option(word)).flatten()
}

/// The arguments of `SEARCH_DIR` in a script, as GNU ld prints them.
fn directories(script: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = memchr::memmem::find_iter(script, b"SEARCH_DIR(\"");
    starts.filter_map(|at| {
        let rest = &script[at + b"SEARCH_DIR(\"".len()..];
        rest.iter().position(|&byte| byte == b'"').map(|end| &rest[..end])
    })
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn word_of(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

fn library_in(folder: &Path, name: &[u8], shared: bool) -> Option<PathBuf> {
    let file = |parts: [&[u8]; 3]| folder.join(OsStr::from_bytes(&parts.concat()));
    match name.strip_prefix(b":") {
        Some(exact) => Some(file([exact, b"", b""])).filter(|path| path.is_file()),
        None => {
            let library = Some(file([b"lib", name, b".so"])).filter(|_| shared);
            library.into_iter().chain([file([b"lib", name, b".a"])]).find(|path| path.is_file())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_seen_in_every_spelling() {
        let line =
            "-La -L b -soname -Lx x.o --library-path=c --library-pa d --sysroot r -m elf_x86_64 -melf -Map m";
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let folders = Folders::new(Path::new("ld"), &words);
        assert_eq!(folders.named, ["a", "b", "c", "d"].map(Path::new));
        assert_eq!(folders.sysroot.as_deref(), Some(Path::new("r")));
        assert_eq!(folders.choice, ["--sysroot=r", "-m", "elf_x86_64", "-m", "elf"]);
    }

    #[test]
    fn a_script_says_where_its_linker_looks() {
        let text = b"SEARCH_DIR(\"=/usr/lib\"); SEARCH_DIR(\"/x y\");\nSECTIONS {} SEARCH_DIR(\"cut";
        let found: Vec<_> = directories(text).collect();
        assert_eq!(found, [&b"=/usr/lib"[..], b"/x y"]);
    }
}
