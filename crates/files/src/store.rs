//! Owns the bytes of inputs for the length of a link.
//!
//! A link reads files through [`InputSource`], so that the harness, the fuzzers and a `--reproduce` archive
//! can take the place of the file system. The [`InputStore`] keeps everything that was read until the link
//! ends: names, tables and section contents are slices of it, and no pass copies them. It also keeps the
//! bytes that the link itself makes, such as decompressed sections and joined names.

use crate::copies::{self, FileCopy};
use elsa::sync::FrozenVec;
use parallel::IntoParallel;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The device and the inode number of a file. They are the same for all paths that lead to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// The identity of the regular file at a path, through symbolic links. `None` if there is no such file.
    pub fn at(path: &Path) -> Option<FileIdentity> {
        let metadata = std::fs::metadata(path).ok()?;
        metadata.is_file().then(|| FileIdentity::of(&metadata))
    }

    /// The identity of an open file; `None` if it is not a regular one.
    pub fn of_file(file: &File) -> Option<FileIdentity> {
        let metadata = file.metadata().ok()?;
        metadata.is_file().then(|| FileIdentity::of(&metadata))
    }

    fn of(metadata: &Metadata) -> FileIdentity {
        FileIdentity { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// The regular file that bytes come from, as it was when the linker opened it.
pub struct Origin {
    path: PathBuf,
    identity: FileIdentity,
    size: u64,
    modified: (i64, i64),
}

impl Origin {
    fn of(path: &Path, metadata: &Metadata) -> Origin {
        Origin {
            path: path.to_path_buf(),
            identity: FileIdentity::of(metadata),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// Whether something has written to the file since it was opened. A file that was replaced or removed
    /// counts as unchanged, because the mapping keeps its contents.
    fn has_changed(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|metadata| {
            let now = Origin::of(Path::new(""), &metadata);
            now.identity == self.identity && (now.size, now.modified) != (self.size, self.modified)
        })
    }
}

/// All links of the process together map at most this many files at a time. Linux allows a process 65,530
/// mappings, and the output, memory and threads need some of them.
const MAX_MAPPED: usize = 32_000;
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// A mapping of a file.
pub struct Mapping(memmap2::Mmap);

impl Mapping {
    /// Maps this many bytes of a file; `None` if the system cannot, or if [`MAX_MAPPED`] files are mapped.
    fn of(file: &File, length: usize) -> Option<Self> {
        let earlier = MAPPED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the mapping is private and read-only. Another process may write to the file: that is the
        // accepted price of not copying gigabytes. See `lost` for files that become shorter, and
        // `InputStore::first_changed` for the rest. The length is known, so the system need not be asked for
        // it again.
        let map = || unsafe { memmap2::MmapOptions::new().len(length).map(file) };
        let mapped = if earlier < MAX_MAPPED { map().ok() } else { None };
        if mapped.is_none() {
            MAPPED.fetch_sub(1, Ordering::Relaxed);
        }
        mapped.map(Self)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        MAPPED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes of one file.
pub enum FileBytes {
    /// A mapping of a regular file.
    Mapped(Mapping, Origin),
    /// The contents of a regular file that could not be mapped, or of one too many to map.
    Copied(Vec<u8>, Origin),
    /// The contents of a small regular file, beside those of others.
    Beside(FileCopy, Origin),
    /// Bytes in memory.
    Owned(Vec<u8>),
}

impl FileBytes {
    fn origin(&self) -> Option<&Origin> {
        match self {
            FileBytes::Mapped(_, origin) | FileBytes::Copied(_, origin) | FileBytes::Beside(_, origin) => {
                Some(origin)
            }
            FileBytes::Owned(_) => None,
        }
    }
}

impl std::ops::Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FileBytes::Mapped(mapping, _) => &mapping.0,
            FileBytes::Copied(bytes, _) | FileBytes::Owned(bytes) => bytes,
            FileBytes::Beside(copy, _) => copy,
        }
    }
}

/// Why a file cannot be read, in the words that other linkers use.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Gives the bytes of files by path.
pub trait InputSource: Sync {
    /// The bytes of the regular file at `path`, which an input names or a search found. It refuses other
    /// files: an input may name anything, but a device may have no end, and a pipe no writer.
    ///
    /// # Errors
    /// The system's error; `NotFound` lets a search go on.
    fn read(&self, path: &Path) -> io::Result<FileBytes>;

    /// The bytes of the file at `path`, which the command line names. It may also be a pipe (`<(command)`) or
    /// a device.
    ///
    /// # Errors
    /// The system's error.
    fn read_named(&self, path: &Path) -> io::Result<FileBytes> {
        self.read(path)
    }

    /// [`InputSource::read_named`] for one of a thousand files or more, which the source may copy.
    ///
    /// # Errors
    /// The system's error.
    fn read_one_of_many(&self, path: &Path) -> io::Result<FileBytes> {
        self.read_named(path)
    }

    /// Whether there is a file: searches for libraries and scripts ask before they read.
    fn exists(&self, path: &Path) -> bool;

    /// The one path that stands for all paths of a file: absolute, without symbolic links. It is the path
    /// itself if the source does not know a better one.
    fn canonical(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSource;

/// At most this many bytes of a device, or of a file that does not tell its size, are read. Some have no end.
const MAX_DEVICE_BYTES: u64 = 64 << 20;

/// Opens a regular file. It opens no other file, because opening a pipe waits for its writer, and a device
/// may act when it is opened.
///
/// # Errors
/// The system's error, or that the file is not a regular one.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let check = |metadata: Metadata| {
        if metadata.is_file() {
            Ok(metadata)
        } else if metadata.is_dir() {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    };
    check(std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    let metadata = check(file.metadata()?)?;
    Ok((file, metadata))
}

/// The bytes of an open file. They are mapped if that is possible.
fn contents(path: &Path, file: &File, metadata: &Metadata) -> io::Result<FileBytes> {
    // Pipes and devices cannot be mapped, and an empty mapping is an error.
    if !metadata.is_file() || metadata.len() == 0 {
        return read_stream(file, metadata).map(FileBytes::Owned);
    }
    let origin = Origin::of(path, metadata);
    let length = usize::try_from(metadata.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    if let Some(mapping) = Mapping::of(file, length) {
        return Ok(FileBytes::Mapped(mapping, origin));
    }
    let mut bytes = Vec::new();
    { file }.read_to_end(&mut bytes)?;
    Ok(FileBytes::Copied(bytes, origin))
}

/// The bytes of a file up to its end. Only a pipe may have any number of them.
fn read_stream(file: &File, metadata: &Metadata) -> io::Result<Vec<u8>> {
    let kind = metadata.file_type();
    let most = if kind.is_fifo() || kind.is_socket() { u64::MAX - 1 } else { MAX_DEVICE_BYTES };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it has more than {} MiB and may have no end", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The text of a file of arguments (`@FILE`), which may be a pipe.
///
/// # Errors
/// The system's error.
pub fn read_arguments(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() > 0 {
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    read_stream(&file, &metadata)
}

/// Opens a file that the command line names.
fn open_named(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
    }
    Ok((file, metadata))
}

impl InputSource for SystemSource {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let (file, metadata) = open_regular(path)?;
        contents(path, &file, &metadata)
    }

    fn read_named(&self, path: &Path) -> io::Result<FileBytes> {
        let (file, metadata) = open_named(path)?;
        contents(path, &file, &metadata)
    }

    fn read_one_of_many(&self, path: &Path) -> io::Result<FileBytes> {
        let (file, metadata) = open_named(path)?;
        match copies::copy(&file, &metadata)? {
            Some(copy) => Ok(FileBytes::Beside(copy, Origin::of(path, &metadata))),
            None => contents(path, &file, &metadata),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        match std::fs::metadata(path) {
            Ok(metadata) => !metadata.is_dir(),
            // If the search went on, it would find another file, and nobody would notice. So the file counts
            // as there, and reading it fails.
            Err(error) => matches!(error.raw_os_error(), Some(libc::EIO | libc::ENOMEM | libc::ESTALE)),
        }
    }

    fn canonical(&self, path: &Path) -> PathBuf {
        std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
    }
}

/// Keeps everything that was read or made up until the end of the link.
#[derive(Default)]
pub struct InputStore {
    files: FrozenVec<Box<FileBytes>>,
    made: FrozenVec<Box<[u8]>>,
}

impl InputStore {
    /// Keeps a file's bytes.
    pub fn keep_file(&self, bytes: FileBytes) -> &[u8] {
        self.files.push_get(Box::new(bytes))
    }

    /// Whether the store keeps bytes of the file with this identity.
    pub fn holds(&self, identity: FileIdentity) -> bool {
        self.files.iter().filter_map(FileBytes::origin).any(|origin| origin.identity == identity)
    }

    /// Of the files that something has written to since they were opened, the first by path. A link that read
    /// such a file may have mixed old bytes with new ones.
    pub fn first_changed(&self) -> Option<PathBuf> {
        let origins: Vec<&Origin> = self.files.iter().filter_map(FileBytes::origin).collect();
        let changed = origins.into_par_iter().filter(|origin| origin.has_changed());
        changed.map(|origin| &origin.path).min().cloned()
    }

    /// Keeps bytes that the linker made.
    pub fn keep(&self, bytes: impl Into<Box<[u8]>>) -> &[u8] {
        self.made.push_get(bytes.into())
    }

    /// Keeps a text that the linker made.
    pub fn keep_str(&self, text: &str) -> &str {
        std::str::from_utf8(self.keep(text.as_bytes())).unwrap_or("")
    }
}
