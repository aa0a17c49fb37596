//! Claimed files, and the split copies that replace them.
//!
//! A copy is only made when the linker knows which files take part, so members that nobody needs get no copy.
//! A copy has the base name of its original, or of the archive member, because patterns in scripts match
//! these names. names.

use crate::table::Table;
use linker_plugin::Symbol;
use linker_plugin::abi::RawFile;
use memmap2::{Mmap, MmapOptions};
use object::read::archive::{ArchiveFile, ArchiveOffset};
use parallel::ParallelSlice;
use sframe::split;
use sframe_sections::split::Form;
use std::ffi::{OsStr, OsString, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The size of the header before the contents of a member.
const MEMBER_HEADER: u64 = 60;

/// Maps a file or member that the linker has opened; `None` if it is empty or cannot be mapped.
pub fn map(descriptor: c_int, offset: u64, size: u64) -> Option<Mmap> {
    let size = usize::try_from(size).ok().filter(|&size| size > 0)?;
    // SAFETY: the mapping is private and read-only. Like every linker, this plugin assumes that nobody
    // truncates its inputs.
    unsafe { MmapOptions::new().offset(offset).len(size).map(descriptor) }.ok()
}

/// A claimed file.
pub struct Claimed {
    path: PathBuf,
    /// The offset of a member in its archive, in bytes.
    offset: u64,
    size: u64,
    /// The linker's handle as a number, because pointers cannot be sent between threads.
    handle: usize,
    /// Its symbols.
    pub table: Table,
}

impl Claimed {
    /// A claim on a file with these symbols.
    pub fn new(path: &Path, file: &RawFile, symbols: &[Symbol], is_gold: bool) -> Self {
        Self {
            path: path.to_owned(),
            offset: file.offset as u64,
            size: file.size as u64,
            handle: file.handle as usize,
            table: Table::new(symbols, is_gold),
        }
    }

    /// The linker's handle.
    pub fn handle(&self) -> *mut c_void {
        self.handle as *mut c_void
    }

    /// The name of the file in messages.
    pub fn shown(&self) -> String {
        match self.member() {
            Some(member) => format!("{}({})", self.path.display(), member.display()),
            None => self.path.display().to_string(),
        }
    }

    /// The name of the member in its archive.
    fn member(&self) -> Option<OsString> {
        let header = self.offset.checked_sub(MEMBER_HEADER)?;
        let archive = File::open(&self.path).ok()?;
        let bytes = map(archive.as_raw_fd(), 0, archive.metadata().ok()?.len())?;
        let archive = ArchiveFile::parse(&*bytes).ok()?;
        let member = archive.member(ArchiveOffset(header)).ok()?;
        Some(OsStr::from_bytes(member.name()).to_owned())
    }

    fn bytes(&self) -> Option<Mmap> {
        let file = File::open(&self.path).ok()?;
        map(file.as_raw_fd(), self.offset, self.size)
    }
}

/// The file that replaces a claimed file.
pub struct Made {
    /// The object.
    pub path: PathBuf,
    /// Why it is not split, if splitting failed.
    pub warning: Option<String>,
    /// How the claimed file was split, for the option `verbose`.
    pub told: String,
}

/// Makes copies.
pub struct Copies<'a> {
    /// The folder for the copies.
    pub folder: &'a Path,
    /// Whether frames become light units.
    pub light: bool,
}

impl Copies<'_> {
    /// Makes copies of these files, in order. If a copy cannot be made, the result has the reason.
    pub fn make(&self, claimed: &[&Claimed]) -> Vec<Result<Made, String>> {
        let numbered = claimed.par_iter().enumerate();
        numbered.map(|(number, claimed)| self.copy(number, claimed)).collect()
    }

    fn copy(&self, number: usize, claimed: &Claimed) -> Result<Made, String> {
        let shown = claimed.shown();
        let bytes = claimed.bytes().ok_or_else(|| format!("{shown}: cannot be read again"))?;
        let form = if self.light { Form::Light } else { Form::Same };
        let done = split::split(&shown, &bytes, form);
        let (new, warning, told) = match &done {
            Ok(done) => {
                let told = format!("{shown}: {} functions in {} parts", done.functions, done.parts);
                (done.bytes.as_deref(), None, told)
            }
            Err(problem) => (None, Some(format!("{problem}; linked as it is")), format!("{shown}: as it is")),
        };
        if new.is_none() && claimed.offset == 0 {
            return Ok(Made { path: claimed.path.clone(), warning, told });
        }
        let member = claimed.member();
        let name = member.as_deref().map_or(claimed.path.as_path(), Path::new).file_name();
        let folder = self.folder.join(number.to_string());
        let path = folder.join(name.unwrap_or(OsStr::new("object.o")));
        let written =
            std::fs::create_dir(&folder).and_then(|()| std::fs::write(&path, new.unwrap_or(&bytes)));
        written.map_err(|error| {
            format!("{shown}: its split copy {} cannot be written: {error}", path.display())
        })?;
        Ok(Made { path, warning, told })
    }
}
