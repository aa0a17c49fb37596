//! Bytes that are mapped or owned, and shared by their readers. Reads words in them, in a byte order.

use memmap2::Mmap;
use sframe_format::Endian;
use std::fs::{File, Metadata};
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

#[derive(Clone)]
enum Owner {
    Map(Arc<Mmap>),
    Vector(Arc<Vec<u8>>),
}

/// A part of a mapped file or of a vector. Clones share it.
#[derive(Clone)]
pub struct Bytes {
    owner: Owner,
    range: Range<usize>,
}

/// What tells a file from one that has replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        let modified = (found.mtime(), found.mtime_nsec());
        Self { device: found.dev(), inode: found.ino(), size: found.size(), modified }
    }

    /// That of the regular file at a path.
    pub fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().filter(Metadata::is_file).map(|found| Self::of(&found))
    }
}

impl Bytes {
    /// The contents of a regular file. This opens no other file, because a pipe would wait for its writer.
    ///
    /// # Errors
    /// It is not a regular file, or cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_stamped(path).map(|(bytes, _)| bytes)
    }

    /// The contents of a regular file, and what tells it from others.
    ///
    /// # Errors
    /// It is not a regular file, or cannot be read.
    pub fn open_stamped(path: &Path) -> io::Result<(Self, Stamp)> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        Ok((Self::map(&file)?, stamp))
    }

    /// The contents of an open file.
    ///
    /// # Errors
    /// It is not a regular file, or cannot be read.
    pub fn map(file: &File) -> io::Result<Self> {
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        // SAFETY: the mapping is read-only. If another process truncates the file meanwhile, reading the lost
        // pages raises SIGBUS. A program that uses this crate may handle that, and the command `sframe` does.
        let map = unsafe { Mmap::map(file) }?;
        let range = 0..map.len();
        Ok(Self { owner: Owner::Map(Arc::new(map)), range })
    }

    /// `slice` as shared bytes. `None`: it is not a part of these bytes.
    pub fn part(&self, slice: &[u8]) -> Option<Self> {
        let start = slice.as_ptr().addr().checked_sub(self.as_ptr().addr())?;
        let end = start.checked_add(slice.len()).filter(|&end| end <= self.len())?;
        Some(Self { owner: self.owner.clone(), range: self.range.start + start..self.range.start + end })
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(vector: Vec<u8>) -> Self {
        let range = 0..vector.len();
        Self { owner: Owner::Vector(Arc::new(vector)), range }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.owner {
            Owner::Map(map) => map,
            Owner::Vector(vector) => vector,
        };
        all.get(self.range.clone()).unwrap_or_default()
    }
}

/// Reads numbers one after the other. `None` means the end of the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'data> {
    pub(crate) rest: &'data [u8],
    pub(crate) endian: Endian,
}

impl<'data> Reader<'data> {
    #[inline]
    pub(crate) fn new(rest: &'data [u8], endian: Endian) -> Self {
        Self { rest, endian }
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Option<&'data [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        let bytes = self.array()?;
        Some(match self.endian {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        })
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = self.array()?;
        Some(match self.endian {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        })
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(word(self.array()?, self.endian))
    }

    /// The bytes up to a zero byte, which is skipped, or up to the end.
    pub(crate) fn text(&mut self) -> &'data [u8] {
        let end = memchr::memchr(0, self.rest);
        let text = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.and_then(|end| self.rest.get(end + 1..)).unwrap_or_default();
        text
    }
}

/// A word in a byte order.
#[inline]
pub(crate) fn word(bytes: [u8; 8], endian: Endian) -> u64 {
    match endian {
        Endian::Little => u64::from_le_bytes(bytes),
        Endian::Big => u64::from_be_bytes(bytes),
    }
}

/// Makes the processor fetch a range of bytes that will be read soon; some may not exist. A walk reads a copy
/// of a stack once, and each word leads to the next, so without this it mostly waits for memory.
#[inline]
pub(crate) fn fetch_ahead(bytes: &[u8], range: Range<usize>) {
    const LINE: usize = 64;
    for line in bytes.get(range.start..range.end.min(bytes.len())).unwrap_or_default().chunks(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint that reads nothing, at an address inside a slice.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}
