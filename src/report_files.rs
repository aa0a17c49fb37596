//! The files of reports that options ask for.
//!
//! They are opened before the link does what takes time, and written before the output moves to its place. So
//! a report that cannot be written fails the link while the old output is still there: make would take a new
//! one for finished, although its rule failed. Opening changes no file; one that a link made and did not
//! write is removed. A file that is to be two things at once is written as neither.

use crate::diag::{Aborted, Code, Diagnostic, Sink};
use files::FileIdentity;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The files of one link, which attempts to link share.
#[derive(Default)]
pub struct ReportFiles(OnceLock<Vec<ReportFile>>);

struct ReportFile {
    /// Its name in messages.
    what: &'static str,
    path: PathBuf,
    /// `None` if it could not be opened, which has been reported.
    file: Option<File>,
    made: bool,
    written: AtomicBool,
}

impl ReportFiles {
    /// Opens files, given by their names in messages and their paths, unless an attempt before has opened
    /// them. Reports those that cannot be opened, and those that are the same file as one before or as one of
    /// the `outputs`.
    pub fn open(
        &self,
        wanted: Vec<(&'static str, PathBuf)>,
        outputs: &[(&'static str, PathBuf)],
        sink: &Sink,
    ) {
        self.0.get_or_init(|| {
            let mut files: Vec<ReportFile> =
                wanted.into_iter().map(|(what, path)| ReportFile::open(what, path, sink)).collect();
            // Now all reports are there. An output that is there has its identity, too.
            let outputs = outputs.iter().filter_map(|(what, path)| Some((*what, FileIdentity::at(path)?)));
            let mut taken: Vec<(&str, FileIdentity)> = outputs.collect();
            for report in &mut files {
                let Some(identity) = report.file.as_ref().and_then(FileIdentity::of_file) else { continue };
                match taken.iter().find(|(_, other)| *other == identity) {
                    Some((what, _)) => report.refuse(what, sink),
                    None => taken.push((report.what, identity)),
                }
            }
            files
        });
    }

    /// Writes the file with a name, if it was asked for, in place of what it contained.
    ///
    /// # Errors
    /// It cannot be written or could not be opened, which is reported.
    pub fn write(
        &self,
        what: &str,
        sink: &Sink,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), Aborted> {
        let Some(report) = self.0.get().into_iter().flatten().find(|report| report.what == what) else {
            return Ok(());
        };
        let Some(file) = &report.file else { return Err(Aborted) };
        report.written.store(true, Ordering::Relaxed);
        empty(file).and_then(|()| write(file)).map_err(|error| {
            sink.report(report.failure(&error));
            Aborted
        })
    }
}

impl Drop for ReportFiles {
    fn drop(&mut self) {
        for report in self.0.take().unwrap_or_default() {
            if report.made && !report.written.into_inner() {
                let _ = std::fs::remove_file(&report.path);
            }
        }
    }
}

impl ReportFile {
    fn open(what: &'static str, path: PathBuf, sink: &Sink) -> Self {
        let mut options = OpenOptions::new();
        let (mut made, mut opened) = (false, options.write(true).open(&path));
        if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            opened = options.create(true).truncate(false).open(&path);
            made = opened.is_ok();
        }
        let mut report = ReportFile { what, path, file: None, made, written: AtomicBool::new(false) };
        match opened {
            Ok(file) => report.file = Some(file),
            Err(error) => sink.report(report.failure(&error)),
        }
        report
    }

    /// Reports that the file is `other`, too, and leaves it alone.
    fn refuse(&mut self, other: &str, sink: &Sink) {
        self.file = None;
        let message = format!("{} {} is {other}, too", self.what, self.path.display());
        sink.report(
            Diagnostic::error(Code::BadOption, message).help("nothing was written; give it another name"),
        );
    }

    fn failure(&self, error: &io::Error) -> Diagnostic {
        let message = format!("cannot write {} {}: {error}", self.what, self.path.display());
        Diagnostic::error(Code::CannotWrite, message)
    }
}

/// Takes the contents of a regular file away.
fn empty(mut file: &File) -> io::Result<()> {
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    file.set_len(0)?;
    file.rewind()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn opening_changes_nothing_and_what_is_not_written_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, "old contents").unwrap();
        let sink = Sink::default();
        let open = || {
            let files = ReportFiles::default();
            files.open(vec![("the old", old.clone()), ("the new", new.clone())], &[], &sink);
            files
        };
        drop(open());
        assert_eq!(std::fs::read(&old).unwrap(), b"old contents");
        assert!(!new.exists());
        let files = open();
        for text in ["one", "2"] {
            for what in ["the old", "the new", "what nobody asked for"] {
                assert!(files.write(what, &sink, |mut file| file.write_all(text.as_bytes())).is_ok());
            }
        }
        drop(files);
        assert_eq!((std::fs::read(&old).unwrap(), std::fs::read(&new).unwrap()), (b"2".into(), b"2".into()));
        assert!(sink.into_sorted().is_empty());
    }

    #[test]
    fn files_that_cannot_be_opened_are_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let sink = Sink::default();
        let files = ReportFiles::default();
        files.open(vec![("the map", folder.path().to_owned())], &[], &sink);
        assert!(files.write("the map", &sink, |_| Ok(())).is_err());
        let found = sink.into_sorted();
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("cannot write the map "), "{}", found[0].message);
    }

    #[test]
    fn a_file_that_is_two_things_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [output, map, link] = ["output", "map", "link"].map(|name| folder.path().join(name));
        std::fs::write(&output, "old contents").unwrap();
        std::os::unix::fs::symlink(&map, &link).unwrap();
        let sink = Sink::default();
        let files = ReportFiles::default();
        let wanted = [("the map", &map), ("the reasons", &output), ("the order", &link)];
        let wanted = wanted.map(|(what, path)| (what, path.clone())).to_vec();
        files.open(wanted, &[("the output", output.clone())], &sink);
        for (what, is_written) in [("the map", true), ("the reasons", false), ("the order", false)] {
            let write = |mut file: &File| file.write_all(what.as_bytes());
            assert_eq!(files.write(what, &sink, write).is_ok(), is_written, "{what}");
        }
        drop(files);
        assert_eq!(std::fs::read(&output).unwrap(), b"old contents");
        assert_eq!(std::fs::read(&map).unwrap(), b"the map");
        let found: Vec<String> = sink.into_sorted().into_iter().map(|finding| finding.message).collect();
        let (output, link) = (output.display(), link.display());
        assert_eq!(
            found,
            [format!("the order {link} is the map, too"), format!("the reasons {output} is the output, too")]
        );
    }
}
