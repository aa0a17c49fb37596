//! Makes a link from files in memory.

use crate::description::Link;
use sframe_ld::Memory;
use sframe_ld::cli::{Config, Environment, InputSpec, Invocation, parse};
use sframe_ld::diag::{Diagnostic, RenderOptions, Sink, render};
use sframe_ld::input::{FileBytes, InputSource};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The most bytes of an output. If a link needs more, that is an error, as on a full disk.
const LARGEST: u64 = 16 << 20;

/// The result of a link.
pub struct Linked {
    /// The bytes of the output, if there is one.
    pub output: Option<Vec<u8>>,
    pub messages: String,
}

/// Files by name.
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl InputSource for Files {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let bytes = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(FileBytes::Owned(bytes.clone()))
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }
}

/// Makes a link with this number of threads.
pub fn link(link: &Link, threads: usize) -> Linked {
    let library = library(link, threads);
    let (library, messages) = library.map_or_else(Default::default, |made| (made.output, made.messages));
    let mut files = files(link);
    files.0.extend(library.map(|bytes| ("library.so".into(), bytes)));
    let linked = run(link, &files, &link.arguments, threads);
    Linked { output: linked.output, messages: messages + &linked.messages }
}

/// Makes the library that a link is linked against, if there is one, and damages it as the link says.
pub fn library(link: &Link, threads: usize) -> Option<Linked> {
    let mut library = run(link, &files(link), &link.library_arguments()?, threads);
    if let Some(bytes) = &mut library.output {
        link.library_damage.iter().for_each(|damage| damage.apply(bytes));
    }
    Some(library)
}

/// The files of a link.
fn files(link: &Link) -> Files {
    Files(link.files.iter().map(|file| (file.name.clone().into(), file.bytes.clone())).collect())
}

fn run(link: &Link, files: &Files, arguments: &[String], threads: usize) -> Linked {
    // Outputs and messages may contain the output's name, so all outputs have the same name.
    let folder = tempfile::tempdir().expect("a folder for an output");
    let output = folder.path().join("output");
    let mut words: Vec<OsString> =
        ["-m", link.machine.emulation(), &format!("--threads={threads}")].map(OsString::from).into();
    words.extend(arguments.iter().map(OsString::from));
    // This comes last, so that no OUTPUT() in a script names another place.
    words.extend(["-o".into(), output.clone().into_os_string()]);
    let sink = Sink::default();
    let read = |path: &Path| files.read(path).map(|bytes| bytes.to_vec());
    let invocation = parse(&words, &Environment::default(), &read, &sink);
    let early = sink.into_sorted();
    let mut linked = match invocation {
        Ok(Invocation::Link(config, inputs)) => finish(&config, &inputs, files, early),
        Ok(Invocation::Print(text)) => Linked { output: None, messages: text },
        Err(_) => Linked { output: None, messages: rendered(&early) },
    };
    linked.messages = linked.messages.replace(&folder.path().display().to_string(), ".");
    linked
}

fn finish(config: &Config, inputs: &[InputSpec], files: &Files, early: Vec<Diagnostic>) -> Linked {
    limit_files(LARGEST);
    let outcome = sframe_ld::link(config, inputs, files, early, Memory::Freed);
    let mut linked = Linked { output: None, messages: rendered(&outcome.diagnostics) + &outcome.printed };
    if outcome.succeeded {
        linked.output = std::fs::read(&config.output).ok();
    }
    linked
}

fn rendered(diagnostics: &[Diagnostic]) -> String {
    let options = RenderOptions { program: "sframe-ld".into(), color: false, visual_studio: false };
    diagnostics.iter().map(|diagnostic| render(diagnostic, &options)).collect()
}

/// Lifts the limit on what this process may write, which each link sets. Between two links, a fuzzer writes
/// larger files. Under the limit, the merge of a corpus would only see its first inputs.
pub fn lift_limit() {
    limit_files(libc::RLIM_INFINITY);
}

/// Makes a write beyond this size of a file an error.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is valid, and nothing else in the process handles the signal.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
    }
}
