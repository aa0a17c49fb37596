//! `--chroot`: the files of another system, which lie below a folder of this one.
//!
//! Scripts, options and archives of such a system name files by absolute paths, and the archives of
//! `--reproduce` keep files by such paths, too. The paths in messages and reports stay as they were named.

use super::{FileBytes, InputSource};
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// An input source that finds files with absolute paths below a folder.
pub struct Chroot<'s> {
    source: &'s dyn InputSource,
    root: &'s Path,
}

impl<'s> Chroot<'s> {
    /// Reads from `source`, and absolute paths below `root`.
    pub fn new(source: &'s dyn InputSource, root: &'s Path) -> Self {
        Chroot { source, root }
    }

    fn place<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        match path.strip_prefix("/") {
            Ok(below) => self.root.join(below).into(),
            Err(_) => path.into(),
        }
    }
}

impl InputSource for Chroot<'_> {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.source.read(&self.place(path))
    }

    fn read_named(&self, path: &Path) -> io::Result<FileBytes> {
        self.source.read_named(&self.place(path))
    }

    fn read_one_of_many(&self, path: &Path) -> io::Result<FileBytes> {
        self.source.read_one_of_many(&self.place(path))
    }

    fn exists(&self, path: &Path) -> bool {
        self.source.exists(&self.place(path))
    }

    fn canonical(&self, path: &Path) -> PathBuf {
        self.source.canonical(&self.place(path))
    }
}
