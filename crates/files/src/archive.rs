//! The members of archives, ordinary and thin.
//!
//! This module lists all members of an archive, and the caller parses them in parallel. The archive's symbol
//! index is read only for members that cannot be parsed.

mod thin;

use crate::sniff::{FileKind, file_kind, machine};
use crate::{InputSource, InputStore};
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use object::read::archive::{ArchiveFile, ArchiveMember, ArchiveOffset};
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thin::Named;

/// One member of an archive.
pub struct Member<'a> {
    /// The name that the archive gives it.
    pub name: &'a str,
    /// Its bytes, in the archive or in the file that a thin archive names.
    pub bytes: &'a [u8],
    /// What they are. To find that out, the system has to read in the page with their header. Members are
    /// listed by many threads, so this is done beside it.
    pub kind: FileKind,
    /// The machine that its header names.
    pub machine: Option<(u16, bool)>,
    /// The file that a thin archive names.
    pub file: Option<PathBuf>,
    /// The offset of the bytes in that file.
    pub offset: u64,
}

impl<'a> Member<'a> {
    fn new(name: &'a str, bytes: &'a [u8], file: Option<PathBuf>, offset: u64) -> Self {
        Member { name, bytes, kind: file_kind(bytes), machine: machine(bytes), file, offset }
    }
}

/// Counts the bytes of the files that a thin archive names. It may name one file many times, even itself.
/// Whoever reads the members works on each of them, so a small archive could stand for a huge amount of work.
pub struct ThinArchiveBytes {
    /// Bytes of the archive and of its files, each counted once.
    read: u64,
    again: u64,
}

/// How often, on average, a thin archive may name the bytes of its files again.
const MAX_REPEATS: u64 = 16;

impl ThinArchiveBytes {
    /// The count of an archive of this size that has named nothing yet.
    pub fn new(archive: usize) -> Self {
        ThinArchiveBytes { read: archive as u64, again: 0 }
    }

    /// Counts a file that is named for the first time.
    pub fn count(&mut self, size: usize) {
        self.read += size as u64;
    }

    /// Counts a file that is named again.
    ///
    /// # Errors
    /// The archive names too much again. The text says how much.
    pub fn count_again(&mut self, size: usize) -> Result<(), String> {
        self.again += size as u64;
        if self.again <= MAX_REPEATS * self.read {
            return Ok(());
        }
        Err(format!(
            "a thin archive that names its files again and again: {} bytes are repeated so far; its files have {} \
             bytes, so at most {} are allowed",
            self.again,
            self.read,
            MAX_REPEATS * self.read
        ))
    }
}

/// Lists the members of an archive in their order. The members of a thin archive are read from
/// the files that it names, relative to the archive's folder.
///
/// # Errors
/// The archive is broken, or the file of a thin archive's member cannot be read. The text says which.
pub fn members<'a>(
    path: &Path,
    bytes: &'a [u8],
    source: &dyn InputSource,
    store: &'a InputStore,
) -> Result<Vec<Member<'a>>, String> {
    if thin::is_thin(bytes) {
        return thin_members(path, bytes, source, store);
    }
    let archive = ArchiveFile::parse(bytes).map_err(malformed)?;
    let member = |member: object::Result<ArchiveMember<'a>>| {
        let member = member.map_err(malformed)?;
        let name = text_of(member.name(), store);
        let contents =
            member.data(bytes).map_err(|error| format!("malformed archive member {name}: {error}"))?;
        Ok(Member::new(name, contents, None, member.file_range().0))
    };
    archive.members().map(member).collect()
}

fn malformed(error: impl Display) -> String {
    format!("malformed archive: {error}")
}

fn text_of<'a>(name: &'a [u8], store: &'a InputStore) -> &'a str {
    std::str::from_utf8(name).unwrap_or_else(|_| store.keep_str(&String::from_utf8_lossy(name)))
}

/// The members of a thin archive. A member may be one of another archive, which `ar` does not copy into a
/// thin one either.
fn thin_members<'a>(
    path: &Path,
    bytes: &'a [u8],
    source: &dyn InputSource,
    store: &'a InputStore,
) -> Result<Vec<Member<'a>>, String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut members = Vec::new();
    // A thin archive may name one file many times, even itself. Each file is read once.
    let mut read: HashMap<PathBuf, &[u8]> = HashMap::new();
    let mut outside = ThinArchiveBytes::new(bytes.len());
    for named in thin::members(bytes) {
        let Named { name, inside } = named.map_err(malformed)?;
        let file = folder.join(OsStr::from_bytes(name));
        let (contents, again) = match read.entry_ref(&file) {
            EntryRef::Occupied(known) => (*known.get(), true),
            EntryRef::Vacant(place) => {
                let bytes = source.read(&file).map_err(|error| {
                    format!("cannot read thin archive member {}: {error}", file.display())
                })?;
                outside.count(bytes.len());
                (*place.insert(store.keep_file(bytes)), false)
            }
        };
        let member = match inside {
            None => Member::new(text_of(name, store), contents, Some(file), 0),
            Some(at) => {
                let wrong = |error: object::Error| format!("{} at offset {at}: {error}", file.display());
                let archive = ArchiveFile::parse(contents).map_err(wrong)?;
                let member = archive.member(ArchiveOffset(at)).map_err(wrong)?;
                let bytes = member.data(contents).map_err(wrong)?;
                let (name, offset) = (text_of(member.name(), store), member.file_range().0);
                Member::new(name, bytes, Some(file), offset)
            }
        };
        if again {
            outside.count_again(member.bytes.len())?;
        }
        members.push(member);
    }
    Ok(members)
}

/// The symbols of an archive's index, by the name of the member that defines them and the offset of its
/// contents. In a thin archive, the offset is 0.
pub type Index<'a> = HashMap<(&'a str, u64), Vec<&'a [u8]>>;

/// The index of an archive. It is empty if the archive has none or a broken one. Members whose names are not
/// UTF-8 are left out.
pub fn index(bytes: &[u8]) -> Index<'_> {
    let mut index = Index::new();
    let Ok(archive) = ArchiveFile::parse(bytes) else { return index };
    let Ok(Some(symbols)) = archive.symbols() else { return index };
    for symbol in symbols.flatten() {
        let Ok(member) = archive.member(symbol.offset()) else { continue };
        let Ok(name) = std::str::from_utf8(member.name()) else { continue };
        let offset = if member.is_thin() { 0 } else { member.file_range().0 };
        index.entry((name, offset)).or_default().push(symbol.name());
    }
    index
}

/// Whether an archive has an index, be it broken.
pub fn has_index(bytes: &[u8]) -> bool {
    ArchiveFile::parse(bytes).is_ok_and(|archive| !matches!(archive.symbols(), Ok(None)))
}

/// The bytes of the first member. They show which machine the archive is for.
pub fn first_member(bytes: &[u8]) -> Option<&[u8]> {
    ArchiveFile::parse(bytes).ok()?.members().flatten().next()?.data(bytes).ok()
}
