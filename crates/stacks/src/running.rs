//! Files that a running process has mapped, and where they can be opened as long as it runs.
//!
//! The path in `/proc/PID/maps` may lead to another file by now: the program was built again, or the process
//! has other mounts. Files in `/proc/PID/map_files` are the mapped ones, but an ordinary user cannot open
//! them. So a file that was found in another way must have the identity that the line of `maps` says.

use crate::bytes::Bytes;
use std::ffi::OsStr;
use std::fmt;
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The device and the inode of a file, as `/proc/PID/maps` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The numbers of the device.
    pub device: (u32, u32),
    /// The number of the inode.
    pub inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        let device = metadata.dev();
        Self { device: (libc::major(device), libc::minor(device)), inode: metadata.ino() }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device: (major, minor), inode } = self;
        write!(formatter, "inode {inode} of device {major:02x}:{minor:02x}")
    }
}

/// A line of `/proc/PID/maps`: `START-END PERMISSIONS OFFSET DEVICE INODE   PATH`.
pub(crate) struct Line<'a> {
    pub range: Range<u64>,
    pub executable: bool,
    pub offset: u64,
    /// `None`: no file.
    pub identity: Option<Identity>,
    /// Empty if the memory has no name.
    pub path: &'a [u8],
}

impl<'a> Line<'a> {
    pub(crate) fn read(line: &'a [u8]) -> Option<Self> {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let mut word = || std::str::from_utf8(words.next()?).ok();
        let (start, end) = word()?.split_once('-')?;
        let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
        let executable = word()?.contains('x');
        let offset = u64::from_str_radix(word()?, 16).ok()?;
        let (major, minor) = word()?.split_once(':')?;
        let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
        let inode = word()?.parse().ok()?;
        let identity = (inode != 0).then_some(Identity { device, inode });
        let path = words.next().unwrap_or_default().trim_ascii_start();
        Some(Self { range, executable, offset, identity, path })
    }
}

/// A mapping of a running process.
#[derive(Clone, Debug)]
pub struct Running {
    /// The process.
    pub pid: u32,
    /// Its addresses.
    pub range: Range<u64>,
    /// The file. `None`: nobody says which it is. Events of the kernel name build-ids instead. They name an
    /// inode only for files without one, and where file systems lie above each other, it may be another inode
    /// than that in `maps`.
    pub identity: Option<Identity>,
}

impl Running {
    /// The path that leads to the mapped file whatever its name is, for those who may use it.
    pub(crate) fn exact(&self) -> PathBuf {
        let Range { start, end } = self.range;
        format!("/proc/{}/map_files/{start:x}-{end:x}", self.pid).into()
    }

    /// Paths that may lead to the file with a path, the best first. Only a known file can be told from the
    /// program that the process executes.
    pub(crate) fn places(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let process = PathBuf::from(format!("/proc/{}", self.pid));
        let mut inside = process.join("root").into_os_string();
        inside.push(OsStr::from_bytes(path.as_os_str().as_bytes()));
        let program = self.identity.map(|_| process.join("exe"));
        [Some(inside.into()), program, Some(path.to_owned())].into_iter().flatten()
    }

    /// The root of the process, if it is another one than that of this process.
    pub(crate) fn other_root(&self) -> Option<PathBuf> {
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|found| Identity::of(&found));
        (identity(&root)? != identity(Path::new("/"))?).then_some(root)
    }

    /// Checks that the file at a path, with these bytes, is the mapped one.
    pub(crate) fn check(&self, path: &Path, bytes: &Bytes) -> Result<(), String> {
        let Some(expected) = self.identity else { return Ok(()) };
        let found = std::fs::metadata(path).map(|metadata| Identity::of(&metadata));
        let found = found.map_err(|error| error.to_string())?;
        // Some file systems (btrfs, overlayfs) say other numbers of a file than of its mappings.
        if found == expected || own_mapping(bytes) == Some(expected) {
            return Ok(());
        }
        Err(format!("{REPLACED}: it is {found}, the process has mapped {expected}"))
    }
}

/// How a message begins that says that a file is not the one that was mapped.
pub(crate) const REPLACED: &str = "the file was replaced";

/// The file that this process has mapped at the address of these bytes.
fn own_mapping(bytes: &Bytes) -> Option<Identity> {
    let address = bytes.as_ptr().addr() as u64;
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let mut lines = maps.split(|&byte| byte == b'\n').filter_map(Line::read);
    lines.find(|line| line.range.contains(&address))?.identity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line = b"7f00-8f00 r-xp 00001000 fd:0a 123                        /usr/lib/a b.so (deleted)";
        let line = Line::read(line).unwrap();
        assert_eq!((line.range, line.offset, line.executable), (0x7f00..0x8f00, 0x1000, true));
        assert_eq!(line.identity, Some(Identity { device: (0xfd, 10), inode: 123 }));
        assert_eq!(line.path, b"/usr/lib/a b.so (deleted)");
        let anonymous = Line::read(b"7f00-8f00 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.identity, anonymous.executable, anonymous.path), (None, false, &b""[..]));
        assert!(Line::read(b"nothing").is_none());
    }

    #[test]
    fn mappings_of_this_process_are_found() {
        let path = std::env::current_exe().unwrap();
        let bytes = Bytes::open(&path).unwrap();
        let identity = own_mapping(&bytes);
        assert!(identity.is_some());
        let mapped = |identity| Running { pid: std::process::id(), range: 0..1, identity };
        assert_eq!(mapped(identity).check(&path, &bytes), Ok(()));
        let other = identity.map(|own| Identity { inode: own.inode + 1, ..own });
        let refused = mapped(other).check(&path, &bytes).unwrap_err();
        assert!(refused.starts_with("the file was replaced: it is inode "), "{refused}");
    }
}
