//! Outputs under temporary names in their directories.
//!
//! The linker writes the output `DIR/NAME` as `DIR/.NAME.sframe-ld-N`, with the smallest free `N`, and holds
//! a lock on it (`flock`) as long as the process lives. A killed link cannot remove its file. But its name
//! can be guessed, so the next link to the same output finds the file and removes it, if nobody holds its
//! lock. No link has to list the directory, which may be a large one.

use crate::interrupt::{Listed, Temporaries};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, open, rename, statat, unlink};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Number of names that a link checks for files of killed links.
const NAMES_TO_CHECK: u32 = 8;

/// Number of links that may write to one output at the same time.
const MAX_LINKS: u32 = 1000;

/// Bytes of the output's name that a temporary name contains. File systems allow names of 255 bytes.
const NAME_LENGTH: usize = 200;

/// A new file under a temporary name. Dropping it removes the file.
pub struct Temporary {
    /// Open for reading and writing, locked.
    file: File,
    /// The temporary name. `None`: the file has been moved to its place.
    path: Option<CString>,
}

impl Temporary {
    /// Makes an empty file in the directory of `output`. The umask applies to `mode`, as to any new file.
    ///
    /// # Errors
    /// The system's error.
    pub fn create(output: &Path, mode: u32) -> io::Result<Temporary> {
        for number in 0..MAX_LINKS {
            let Some(temporary) = Temporary::claim(name(output, number)?, mode)? else { continue };
            for later in number + 1..NAMES_TO_CHECK {
                remove_abandoned(&name(output, later)?);
            }
            return Ok(temporary);
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many links write to it at the same time"))
    }

    /// Makes the file. `None`: another link uses this name.
    fn claim(path: CString, mode: u32) -> io::Result<Option<Temporary>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let entry = Listed::new(path.clone());
        loop {
            // Until this is dropped, nothing is allocated.
            let mut temporaries = Temporaries::lock();
            match open(path.as_c_str(), flags, Mode::from_raw_mode(mode)) {
                Ok(file) => {
                    let file = File::from(file);
                    // Another link may have found and removed the file before this one could lock it.
                    if lock(&file) && is_at(&file, &path) {
                        temporaries.add(entry);
                        return Ok(Some(Temporary { file, path: Some(path) }));
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::EXIST) => {
                    drop(temporaries);
                    if !remove_abandoned(&path) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Moves the file to `output`, where it replaces the old one.
    ///
    /// # Errors
    /// The system's error. The old file is then still there.
    pub fn persist(mut self, output: &Path) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let output = CString::new(output.as_os_str().as_bytes())?;
        // Until this is dropped, nothing is allocated.
        let mut temporaries = Temporaries::lock();
        rename(path.as_c_str(), output.as_c_str())?;
        let entry = temporaries.forget(path);
        drop(temporaries);
        drop(entry);
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let mut temporaries = Temporaries::lock();
            let _ = unlink(path.as_c_str());
            let entry = temporaries.forget(path);
            drop(temporaries);
            drop(entry);
        }
    }
}

/// The temporary name with a number.
fn name(output: &Path, number: u32) -> io::Result<CString> {
    let name = output.file_name().unwrap_or_default().as_bytes();
    let name = &name[..name.len().min(NAME_LENGTH)];
    let name = [b".", name, b".sframe-ld-", number.to_string().as_bytes()].concat();
    let path = output.with_file_name(OsString::from_vec(name));
    Ok(CString::new(path.into_os_string().into_vec())?)
}

/// Locks a file for this process, without waiting. `false`: another process holds the lock. On a file system
/// without locks, this succeeds: no link there can take the file for abandoned.
fn lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Whether a path still leads to this file.
fn is_at(file: &File, path: &CStr) -> bool {
    match (fstat(file), statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)) {
        (Ok(open), Ok(named)) => (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    }
}

/// Removes the file of a link that has ended. Returns whether it did.
fn remove_abandoned(path: &CStr) -> bool {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = open(path, flags, Mode::empty()) else { return false };
    let file = File::from(file);
    // While this link holds the lock, no other link removes or renames the file. But its owner may have moved
    // it to its place before it released the lock.
    let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    regular && file.try_lock().is_ok() && is_at(&file, path) && unlink(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
