//! Temporary names beside an output.
//!
//! The output `DIR/NAME` is made as `DIR/.NAME.sframe-ld-N`, with the smallest `N` that is free,
//! and is locked (`flock`) as long as its process lives. A link that is killed cannot clean up;
//! since the names can be guessed, the next link to the same output finds the files left and
//! removes each one without a lock. No directory is listed for that, which may be a large one.

use super::interrupt::Temporaries;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Number of names that are checked for files of killed links.
const SWEPT: u32 = 8;

/// Number of links that may write to one output at the same time.
const NAMES: u32 = 1000;

/// Bytes of the output's name that go into a temporary name; file systems allow names of 255 bytes.
const NAME_LENGTH: usize = 200;

/// A new file under a temporary name. Dropped, it is removed.
pub struct Temporary {
    /// Open for reading and writing, locked.
    file: File,
    /// The name, until the file is where it belongs.
    path: Option<PathBuf>,
}

impl Temporary {
    /// Makes an empty file beside `output`. The umask is applied to `mode` as to any file that is
    /// created.
    ///
    /// # Errors
    /// The system's error.
    pub fn create(output: &Path, mode: u32) -> io::Result<Temporary> {
        for number in 0..NAMES {
            let Some(temporary) = Temporary::claim(name(output, number), mode)? else { continue };
            for later in number + 1..SWEPT {
                remove_abandoned(&name(output, later));
            }
            return Ok(temporary);
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many links write to it at the same time"))
    }

    /// Makes the file, unless another link is at work under this name.
    fn claim(path: PathBuf, mode: u32) -> io::Result<Option<Temporary>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        loop {
            let mut temporaries = Temporaries::lock();
            match options.open(&path) {
                Ok(file) => {
                    // Another link may have found it before it was locked, and have removed it.
                    if lock(&file) && is_at(&file, &path) {
                        temporaries.add(&path);
                        return Ok(Some(Temporary { file, path: Some(path) }));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    drop(temporaries);
                    if !remove_abandoned(&path) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Moves the file to `output`, in place of the old one.
    ///
    /// # Errors
    /// The system's error; the old file is then still there.
    pub fn persist(mut self, output: &Path) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut temporaries = Temporaries::lock();
        fs::rename(path, output)?;
        temporaries.forget(path);
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let mut temporaries = Temporaries::lock();
            let _ = fs::remove_file(path);
            temporaries.forget(path);
        }
    }
}

/// The temporary name of a number.
fn name(output: &Path, number: u32) -> PathBuf {
    let name = output.file_name().unwrap_or_default().as_bytes();
    let name = &name[..name.len().min(NAME_LENGTH)];
    output.with_file_name(OsString::from_vec(
        [b".", name, b".sframe-ld-", number.to_string().as_bytes()].concat(),
    ))
}

/// Locks a file for this process, without waiting; `false` if another process holds the lock. A file system
/// without locks counts as success: there, no link can take the file for abandoned either.
fn lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Whether a path leads to this file, and not to another or to none.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Removes a temporary whose link is gone; tells whether it did.
fn remove_abandoned(path: &Path) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Ok(file) = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) else {
        return false;
    };
    // With the lock, no other link removes or renames it. The link that was at work may have moved
    // it to its place before it gave up the lock.
    let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    regular && file.try_lock().is_ok() && is_at(&file, path) && fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn links_at_work_keep_their_files_and_abandoned_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let first = Temporary::create(&output, 0o666).unwrap();
        let second = Temporary::create(&output, 0o666).unwrap();
        assert_eq!(names(folder.path()), [".out.sframe-ld-0", ".out.sframe-ld-1"]);
        fs::write(folder.path().join(".out.sframe-ld-5"), "left by a link that was killed").unwrap();
        drop(first);
        fs::write(folder.path().join(".out.sframe-ld-0"), "left by another").unwrap();
        let third = Temporary::create(&output, 0o666).unwrap();
        assert_eq!(names(folder.path()), [".out.sframe-ld-0", ".out.sframe-ld-1"]);
        assert_eq!(third.file.metadata().unwrap().len(), 0);
        second.persist(&output).unwrap();
        drop(third);
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn a_link_under_a_temporary_name_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        fs::write(folder.path().join("precious"), "text").unwrap();
        std::os::unix::fs::symlink("precious", folder.path().join(".out.sframe-ld-0")).unwrap();
        Temporary::create(&output, 0o666).unwrap().persist(&output).unwrap();
        assert_eq!(fs::read(folder.path().join("precious")).unwrap(), b"text");
    }

    #[test]
    fn the_longest_name_has_a_temporary_one() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("n".repeat(255));
        Temporary::create(&output, 0o666).unwrap().persist(&output).unwrap();
        assert_eq!(names(folder.path()), ["n".repeat(255)]);
    }
}
