//! The link under reduction: a command line whose inputs can change.

use super::archive::{self, Member};
use crate::cases::{Case, Step};
use crate::model::Object;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A part of the command line that stays or goes as a whole.
#[derive(Clone, Debug)]
pub enum Word {
    /// An option with its value, or an input that the reduction does not take apart.
    Plain(Vec<String>),
    Object(Input),
    /// An archive: its name and its members.
    Archive(String, Rc<Vec<Input>>),
}

/// An object file.
#[derive(Clone, Debug)]
pub struct Input {
    /// File name, unique in the link.
    pub name: String,
    /// The path as it was given.
    pub original: Option<PathBuf>,
    /// Its bytes, if it could not be taken apart.
    pub raw: Option<Rc<Vec<u8>>>,
    /// Its model, if it could be taken apart.
    pub object: Option<Rc<Object>>,
}

impl Input {
    fn new(name: String, original: Option<PathBuf>, bytes: Vec<u8>) -> Self {
        match Object::parse(&bytes) {
            Ok(object) => Input { name, original, raw: None, object: Some(Rc::new(object)) },
            Err(_) => Input { name, original, raw: Some(Rc::new(bytes)), object: None },
        }
    }

    /// Its present bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match (&self.object, &self.raw) {
            (Some(object), _) => object.write(),
            (None, Some(raw)) => raw.to_vec(),
            (None, None) => Vec::new(),
        }
    }
}

/// Options that take the next word.
const WITH_VALUE: &[&str] = &[
    "-m",
    "-z",
    "-e",
    "-u",
    "-T",
    "-h",
    "-y",
    "-b",
    "-A",
    "-f",
    "-F",
    "-Y",
    "-R",
    "-I",
    "-L",
    "-l",
    "--entry",
    "--undefined",
    "--script",
    "-soname",
    "--soname",
    "-dynamic-linker",
    "--dynamic-linker",
    "-rpath",
    "--rpath",
    "-rpath-link",
    "--rpath-link",
    "--version-script",
    "--defsym",
    "-defsym",
    "-init",
    "-fini",
    "--dynamic-list",
    "-Ttext",
    "-Tdata",
    "-Tbss",
    "--wrap",
    "--trace-symbol",
    "--sysroot",
    "--hash-style",
];

/// A link.
#[derive(Clone, Debug)]
pub struct State {
    /// The first command line.
    pub words: Vec<Word>,
    /// The folder that relative names start from.
    pub folder: PathBuf,
    /// Name of the first output; the steps after it may use it.
    pub output: String,
    /// Later steps, which stay as they are.
    pub later: Vec<Step>,
    /// Name of the case.
    pub name: String,
    pub machine: crate::machine::Machine,
}

impl State {
    /// Takes a case apart.
    pub fn new(case: &Case) -> Self {
        let first = case.steps.first().cloned().unwrap_or_default();
        let mut names = BTreeSet::new();
        let mut words = Vec::new();
        let mut arguments = first.arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if WITH_VALUE.contains(&&*argument) {
                words.push(Word::Plain([argument].into_iter().chain(arguments.next()).collect()));
            } else if argument.starts_with('-') {
                words.push(Word::Plain(vec![argument]));
            } else {
                words.push(input(&case.folder, argument, &mut names));
            }
        }
        State {
            words,
            folder: case.folder.clone(),
            output: first.output,
            later: case.steps.iter().skip(1).cloned().collect(),
            name: case.name.clone(),
            machine: case.machine,
        }
    }

    /// All objects, including those in archives.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.words.iter().flat_map(|word| match word {
            Word::Plain(_) => &[][..],
            Word::Object(input) => std::slice::from_ref(input),
            Word::Archive(_, members) => members,
        })
    }

    /// The link with each object changed.
    pub fn map(&self, change: &mut dyn FnMut(usize, &Input) -> Option<Object>) -> Self {
        let mut number = 0;
        let mut changed = |input: &Input| {
            let object = change(number, input);
            number += 1;
            match object {
                Some(object) => Input { original: None, object: Some(Rc::new(object)), ..input.clone() },
                None => input.clone(),
            }
        };
        let words = self.words.iter().map(|word| match word {
            Word::Plain(words) => Word::Plain(words.clone()),
            Word::Object(input) => Word::Object(changed(input)),
            Word::Archive(name, members) => {
                Word::Archive(name.clone(), Rc::new(members.iter().map(&mut changed).collect()))
            }
        });
        State { words: words.collect(), ..self.clone() }
    }

    /// Writes the changed files into a folder, and makes a case of it. With `everything`, it also copies all
    /// other files that it can, and names are relative to that folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn case(&self, folder: &Path, everything: bool) -> Result<Case> {
        let mut arguments = Vec::new();
        for word in &self.words {
            match word {
                Word::Plain(words) => {
                    arguments.extend(words.iter().map(|word| self.plain(word, folder, everything)));
                }
                Word::Object(input) => {
                    arguments.push(match input.original.as_deref().filter(|_| !everything) {
                        Some(path) => path.display().to_string(),
                        None => {
                            std::fs::write(folder.join(&input.name), input.bytes())?;
                            input.name.clone()
                        }
                    });
                }
                Word::Archive(name, members) => {
                    let members: Vec<Member> =
                        members.iter().map(|member| (member.name.clone(), original_bytes(member))).collect();
                    std::fs::write(folder.join(name), archive::write(&members))?;
                    arguments.push(name.clone());
                }
            }
        }
        let mut steps = vec![Step { arguments, output: self.output.clone() }];
        steps.extend(self.later.iter().cloned());
        Ok(Case {
            name: self.name.clone(),
            machine: self.machine,
            folder: folder.to_owned(),
            steps,
            keep: None,
        })
    }

    /// A word that may name a file, written so that the case's folder finds it.
    fn plain(&self, word: &str, folder: &Path, everything: bool) -> String {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if word.starts_with('-') => (Some(option), value),
            _ => (None, word.strip_prefix("-L").unwrap_or(word)),
        };
        let path = self.folder.join(value);
        if value.is_empty() || value.starts_with('-') || !path.exists() || Path::new(value).is_absolute() {
            return word.to_owned();
        }
        let name = match (everything && path.is_file(), path.file_name()) {
            (true, Some(name)) if std::fs::copy(&path, folder.join(name)).is_ok() => {
                name.to_string_lossy().into_owned()
            }
            _ => path.display().to_string(),
        };
        match option {
            Some(option) => format!("{option}={name}"),
            None if word.starts_with("-L") => format!("-L{name}"),
            None => name,
        }
    }

    /// The size of all inputs that are taken apart, in bytes.
    pub fn size(&self) -> usize {
        self.inputs().map(|input| input.bytes().len()).sum()
    }
}

/// The original bytes of an unchanged member, and not those of a rewritten object.
fn original_bytes(input: &Input) -> Vec<u8> {
    match &input.original {
        Some(path) => std::fs::read(path).unwrap_or_else(|_| input.bytes()),
        None => input.bytes(),
    }
}

fn input(folder: &Path, argument: String, names: &mut BTreeSet<String>) -> Word {
    let path = folder.join(&argument);
    let Ok(bytes) = std::fs::read(&path) else { return Word::Plain(vec![argument]) };
    let name = unique(&argument, names);
    if bytes.starts_with(&object::archive::MAGIC) || bytes.starts_with(&object::archive::THIN_MAGIC) {
        let beside = path.parent().unwrap_or(folder);
        return match archive::read(&bytes, beside) {
            Ok(members) => {
                let mut own = BTreeSet::new();
                let members = members
                    .into_iter()
                    .map(|(name, bytes)| Input::new(unique(&name, &mut own), None, bytes))
                    .collect();
                Word::Archive(name, Rc::new(members))
            }
            Err(_) => Word::Plain(vec![path.display().to_string()]),
        };
    }
    // Shared libraries and scripts stay as they are.
    if bytes.starts_with(b"\x7fELF\x02") && matches!(bytes.get(16..18), Some([1, 0] | [0, 1])) {
        Word::Object(Input::new(name, Some(path), bytes))
    } else {
        Word::Plain(vec![path.display().to_string()])
    }
}

fn unique(argument: &str, names: &mut BTreeSet<String>) -> String {
    let base = argument.rsplit('/').next().unwrap_or(argument).to_owned();
    let mut name = base.clone();
    for number in 2.. {
        if names.insert(name.clone()) {
            break;
        }
        name = format!("{number}-{base}");
    }
    name
}
