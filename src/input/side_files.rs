//! The texts that options name beside the inputs: linker scripts, version scripts, lists of symbols, ordering
//! files.
//!
//! This module opens all of them and reports those that cannot be read.

use crate::diag::{Code, Diagnostic, Sink};
use crate::script::Sources;
use files::store::{FileBytes, InputSource, reason};
use std::path::{Path, PathBuf};

/// Opens the files that options name, and reports those that it cannot read.
pub struct OptionFiles<'r> {
    /// Where file names lead.
    pub source: &'r dyn InputSource,
    /// Receives the texts, so that messages can point into them.
    pub sources: &'r mut Sources,
    /// Receives what is wrong with them.
    pub sink: &'r Sink,
    /// Paths of the files that were opened.
    pub paths: &'r mut Vec<PathBuf>,
}

impl OptionFiles<'_> {
    /// The bytes of a file, or `None` after an error that was reported. Messages call the file `kind`.
    pub fn read(&mut self, path: &Path, kind: &str) -> Option<FileBytes> {
        let read = self.source.read_named(path).map_err(|error| reason(&error));
        self.opened(read, path, path, kind)
    }

    /// The name and the bytes of a file at this path, or in the first of these directories that has it.
    pub fn find(&mut self, path: &Path, directories: &[PathBuf], kind: &str) -> Option<(String, Vec<u8>)> {
        let found = find_file(self.source, directories, path);
        // If the file is nowhere, the error is about the path as it was named.
        let found = found.unwrap_or_else(|| path.to_path_buf());
        let bytes = self.source.read_named(&found).map_err(|error| reason(&error));
        let bytes = self.opened(bytes, &found, path, kind)?;
        Some((found.to_string_lossy().into_owned(), bytes.to_vec()))
    }

    fn opened<R>(&mut self, read: Result<R, String>, found: &Path, named: &Path, kind: &str) -> Option<R> {
        match read {
            Ok(bytes) => {
                self.paths.push(found.to_path_buf());
                Some(bytes)
            }
            Err(reason) => {
                let message = format!("cannot open {kind} {}: {reason}", named.display());
                self.sink.report(Diagnostic::error(Code::CannotOpen, message));
                None
            }
        }
    }

    /// The result of parsing a file. It reports errors, and returns `None` for them.
    pub fn accept<R>(&self, parsed: Result<R, Vec<Diagnostic>>) -> Option<R> {
        parsed.map_err(|found| found.into_iter().for_each(|diagnostic| self.sink.report(diagnostic))).ok()
    }
}

/// The path and the text of an `INCLUDE`d script: at `name`, or in the first directory that has it.
pub fn read_include(
    source: &dyn InputSource,
    directories: &[PathBuf],
    name: &str,
) -> Result<(String, Vec<u8>), String> {
    let found = find_file(source, directories, Path::new(name));
    let found = found.ok_or_else(|| "No such file or directory".to_owned())?;
    let bytes = source.read(&found).map_err(|error| reason(&error))?;
    Ok((found.to_string_lossy().into_owned(), bytes.to_vec()))
}

/// The path of a file: `name` itself, or the file in the first directory that has it.
fn find_file(source: &dyn InputSource, directories: &[PathBuf], name: &Path) -> Option<PathBuf> {
    let inside = directories.iter().map(|directory| directory.join(name));
    std::iter::once(name.to_path_buf()).chain(inside).find(|path| source.exists(path))
}
