//! The output file.
//!
//! The linker writes its output under a temporary name in the same directory and renames it when it is
//! complete. A link that fails or is interrupted leaves the old file as it was. If the output exists and is
//! not a regular file (a device, a pipe, a socket), the linker writes to it and never replaces or removes it.
//! Otherwise a linker that root runs with `-o /dev/null` would destroy the device.
//!
//! If the disk is full, the system kills a process that touches a mapped page without a block (`SIGBUS`). So
//! the linker reserves the whole file before it maps it. On file systems that cannot reserve, it makes the
//! output in memory and writes it. It does the same if there is no address space for the mapping
//! (`ulimit -v`): the heap reserves more than it uses, and the output often fits there.
//!
//! A disk in memory (tmpfs) reserves a file by making all of its pages, which one thread does while the
//! others sleep: 56 ms for 200 MB, where all else that is not done side by side takes 10. So there, pages are
//! made by the jobs that fill them, before they are touched ([`crate::region`]), and only what no job has
//! filled is reserved, when all are done.

use crate::diag::{Code, Diagnostic};
use crate::region::{self, Region, Writers, populate};
use build_id::{Algorithm, Digests};
use files::holes::{gaps, pieces};
use files::temporary::Temporary;
use memmap2::MmapMut;
use parallel::ParallelSlice;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::ops::{Deref, DerefMut, Range};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes that one job takes out of the mapping. Smaller outputs are not worth a job.
const RELEASED: usize = 8 << 20;

/// Bytes of a page. Where pages are larger, a file never has as many blocks as are expected, and is searched.
const PAGE: u64 = 4096;

/// An output file that is being made.
pub struct OutputFile {
    path: PathBuf,
    bytes: Bytes,
    place: Place,
    /// The writes that do not go through the mapping.
    writers: Writers,
}

/// The bytes of an output.
enum Bytes {
    Mapped(MmapMut),
    Heap(Vec<u8>),
}

impl Bytes {
    /// Zeros in memory.
    fn zeros(length: usize) -> io::Result<Bytes> {
        MmapMut::map_anon(length).map(Bytes::Mapped).or_else(|error| Self::in_heap(length).ok_or(error))
    }

    /// Zeros in the heap, if it has room.
    fn in_heap(length: usize) -> Option<Bytes> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        Some(Bytes::Heap(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(bytes) => bytes,
            Bytes::Heap(bytes) => bytes,
        }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Bytes::Mapped(bytes) => bytes,
            Bytes::Heap(bytes) => bytes,
        }
    }
}

/// The path that means standard output (`-o -`).
const STANDARD: &str = "-";

/// Where the bytes go.
enum Place {
    /// The bytes are the mapped new file, which needs no room for these holes.
    Mapped(Temporary, Vec<Range<u64>>),
    /// The bytes are written to the new file, without these holes.
    Written(Temporary, Vec<Range<u64>>),
    /// The bytes are written to an existing device, pipe or socket, which stays.
    Existing,
    /// The bytes are written to standard output.
    Standard,
}

impl OutputFile {
    /// Makes a file of `size` zero bytes. With `executable`, it gets the execute bits that the umask allows.
    /// The `holes`, in order, take no room on the disk, so nobody may write or even read them.
    ///
    /// # Errors
    /// The system's error, above all that the disk is full.
    pub fn create(path: &Path, size: u64, holes: &[Range<u64>], executable: bool) -> io::Result<OutputFile> {
        let length = usize::try_from(size).map_err(|_| ErrorKind::FileTooLarge)?;
        let path = path.to_path_buf();
        if path.as_os_str() == STANDARD {
            return Ok(Self::of(path, Bytes::zeros(length)?, Place::Standard));
        }
        if is_special(&path) {
            return Ok(Self::of(path, Bytes::zeros(length)?, Place::Existing));
        }
        let temporary = Temporary::create(&path, if executable { 0o777 } else { 0o666 })?;
        expect_room(temporary.file(), size, holes)?;
        if size > 0 && is_in_memory(temporary.file()) {
            temporary.file().set_len(size)?;
            if let Some(mut bytes) = map(&temporary)?
                && bytes.get_mut(..1).is_some_and(populate)
            {
                return Ok(Self::of(path, Bytes::Mapped(bytes), Place::Mapped(temporary, holes.to_vec())));
            }
        }
        if reserve(temporary.file(), &pieces(0..size, holes))?
            && let Some(bytes) = map(&temporary)?
        {
            let mut file = Self::of(path, Bytes::Mapped(bytes), Place::Mapped(temporary, holes.to_vec()));
            file.writers.is_reserved = true;
            return Ok(file);
        }
        Ok(Self::of(path, Bytes::zeros(length)?, Place::Written(temporary, holes.to_vec())))
    }

    fn of(path: PathBuf, bytes: Bytes, place: Place) -> OutputFile {
        OutputFile { path, bytes, place, writers: Writers::default() }
    }

    /// The bytes of the whole file, for passes to fill.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The whole file, for passes to fill part by part.
    pub fn region(&mut self) -> Region<'_> {
        let file = match &self.place {
            Place::Mapped(temporary, _) => Some(temporary.file()),
            _ => None,
        };
        Region::of_output(&mut self.bytes, file, &self.writers)
    }

    /// Lets those who fill the file add up what its identifier is made of.
    pub fn digest_by(&mut self, algorithm: Algorithm) {
        self.writers.digests = Some(Digests::new(algorithm));
    }

    /// The identifier of the file, which is finished but for what follows from it. It does not touch the
    /// `holes`, which are in order. `None`: nobody has asked for it.
    pub fn identifier(&mut self, holes: &[Range<u64>]) -> Option<Vec<u8>> {
        Some(self.writers.digests.take()?.finish(&self.bytes, holes))
    }

    /// Ends the filling of regions: from here on, all bytes but those of holes may be touched.
    ///
    /// # Errors
    /// The first error of filling them, or the disk has no room for the rest.
    pub fn end_of_regions(&mut self) -> io::Result<()> {
        if let Some(error) = self.writers.take_failure() {
            return Err(error);
        }
        let size = self.bytes.len() as u64;
        if let Place::Mapped(temporary, holes) = &self.place
            && !self.writers.is_reserved
            && temporary.file().metadata()?.blocks() != blocks(&pieces(0..size, holes))
        {
            let empty = gaps(temporary.file(), size)?;
            reserve(
                temporary.file(),
                &empty.into_iter().flat_map(|gap| pieces(gap, holes)).collect::<Vec<_>>(),
            )?;
        }
        Ok(())
    }

    /// Takes the file's pages out of the mapping, on all threads. When the mapping ends, one thread would do
    /// that alone, for pages that were written through it in a twentieth of the time that writing them took.
    /// The file keeps its contents, and whoever reads them again gets the pages again.
    pub fn release_pages(&mut self) {
        let is_large = self.bytes.len() > RELEASED;
        if is_large && rayon_core::current_num_threads() > 1 && matches!(self.place, Place::Mapped(..)) {
            // SAFETY: the bytes are a shared mapping of the file.
            self.bytes.par_chunks_mut(RELEASED).for_each(|bytes| unsafe { region::release(bytes) });
        }
    }

    /// The path that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Moves the file to its place. Returns a handle that keeps the replaced file: the system frees its
    /// blocks when the handle is dropped, which takes a while for a large file.
    ///
    /// # Errors
    /// The system's error. The old file is then still there.
    pub fn commit(self) -> io::Result<Option<File>> {
        let OutputFile { path, bytes, place, .. } = self;
        let replaced = open_for_keeping(&path);
        match place {
            Place::Mapped(temporary, _) => {
                drop(bytes);
                temporary.persist(&path)?;
            }
            Place::Written(temporary, holes) => {
                temporary.file().set_len(bytes.len() as u64)?;
                for piece in pieces(0..bytes.len() as u64, &holes) {
                    temporary
                        .file()
                        .write_all_at(&bytes[piece.start as usize..piece.end as usize], piece.start)?;
                }
                temporary.persist(&path)?;
            }
            Place::Standard => {
                let mut out = io::stdout().lock();
                out.write_all(&bytes)?;
                out.flush()?;
            }
            Place::Existing => File::options().write(true).open(&path)?.write_all(&bytes)?,
        }
        Ok(replaced)
    }
}

/// Opens a file only to keep it.
fn open_for_keeping(path: &Path) -> Option<File> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags).open(path).ok()
}

/// Makes sure that the folder of a file that is made later can be written to.
///
/// # Errors
/// The system's error.
pub fn probe(path: &Path) -> io::Result<()> {
    if is_special(path) { Ok(()) } else { Temporary::create(path, 0o666).map(drop) }
}

/// Removes a file if there is one. Devices and pipes stay.
///
/// # Errors
/// The system's error.
pub fn remove(path: &Path) -> io::Result<()> {
    if is_special(path) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the path leads to an existing file that is not regular.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// Maps a new file, which has its size. `None`: there is no address space for it.
fn map(temporary: &Temporary) -> io::Result<Option<MmapMut>> {
    // SAFETY: the file was created a moment ago under a name that only links to this output use, which leave
    // a locked file alone, and has the size that is mapped. Another process that truncates it nevertheless
    // breaks any program that maps it.
    match unsafe { MmapMut::map_mut(temporary.file()) } {
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => Ok(None),
        mapped => mapped.map(Some),
    }
}

/// Whether a file is kept in memory alone.
fn is_in_memory(file: &File) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type as u64 == TMPFS_MAGIC)
}

/// Expects that the disk has room for a file of this size. The system would reserve blocks until the disk is
/// full, and an output of absurd size would starve other programs before it fails. Some file systems do not
/// say how much room they have.
fn expect_room(file: &File, size: u64, holes: &[Range<u64>]) -> io::Result<()> {
    let wanted: u64 = pieces(0..size, holes).iter().map(|piece| piece.end - piece.start).sum();
    match rustix::fs::fstatvfs(file) {
        Ok(room) if room.f_blocks != 0 && wanted > room.f_bavail.saturating_mul(room.f_frsize) => {
            Err(Errno::NOSPC.into())
        }
        _ => Ok(()),
    }
}

/// The blocks, as the system counts them, of all pages that pieces of a file have a part in.
fn blocks(pieces: &[Range<u64>]) -> u64 {
    let pages = |piece: &Range<u64>| piece.end.div_ceil(PAGE) - piece.start / PAGE;
    pieces.iter().map(pages).sum::<u64>() * (PAGE / 512)
}

/// Reserves pieces of a file, which are in order, on the disk. The file becomes so large. `false`: the file
/// system cannot reserve, or there is nothing to reserve.
fn reserve(file: &File, pieces: &[Range<u64>]) -> io::Result<bool> {
    for &Range { start, end } in pieces {
        loop {
            match fallocate(file, FallocateFlags::empty(), start, end - start) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(!pieces.is_empty())
}

/// The diagnostic for a file that cannot be made. `option` names it on the command line. `size` is in bytes;
/// `None` if it is not known.
pub fn cannot_write(path: &Path, option: &str, size: Option<u64>, error: &io::Error) -> Diagnostic {
    let message = format!("cannot write {}: {error}", path.display());
    let diagnostic = Diagnostic::error(Code::CannotWrite, message);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.display();
    let help = match error.kind() {
        ErrorKind::NotFound => return diagnostic.help(format!("make the folder {folder} first")),
        // The file itself may be writable.
        ErrorKind::PermissionDenied if !is_special(path) => {
            return diagnostic.help(format!(
                "make the folder {folder} writable: the file is made there under a temporary name, and renamed"
            ));
        }
        ErrorKind::StorageFull => {
            format!("make room on its file system, or name another place with {option}")
        }
        ErrorKind::QuotaExceeded => format!("make room in the quota, or name another place with {option}"),
        // No file can be that large. In the file, the sections of a segment are as far apart as their
        // addresses.
        ErrorKind::InvalidInput | ErrorKind::FileTooLarge if size > Some(i64::MAX as u64) => {
            "sections of one segment are too far apart in memory: give them segments of their own (PHDRS), \
             or addresses that ascend"
                .into()
        }
        ErrorKind::FileTooLarge => "raise the limit for the size of files (`ulimit -f`)".into(),
        _ => return diagnostic,
    };
    let noted = match size {
        Some(size) => diagnostic.note(format!("the output takes {size} bytes")),
        None => diagnostic,
    };
    noted.help(help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_dropped_output_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, b"old").unwrap();
        let mut output = OutputFile::create(&path, 3, &[], true).unwrap();
        output.bytes().copy_from_slice(b"new");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let mut output = OutputFile::create(&path, 3, &[], true).unwrap();
        output.bytes().copy_from_slice(b"new");
        output.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_ne!(fs::metadata(&path).unwrap().permissions().mode() & 0o100, 0);
    }

    #[test]
    fn holes_take_no_place() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let hole = 1 << 20..(1 << 20) + (1 << 40);
        let mut output = OutputFile::create(&path, hole.end + 5, std::slice::from_ref(&hole), false).unwrap();
        output.bytes()[hole.end as usize..].copy_from_slice(b"bytes");
        output.commit().unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), hole.end + 5);
        assert!(metadata.blocks() * 512 < 4 << 20, "{} blocks", metadata.blocks());
    }

    /// A disk in memory, if there is one where most systems have it.
    fn in_memory() -> Option<tempfile::TempDir> {
        let folder = tempfile::tempdir_in("/dev/shm").ok()?;
        is_in_memory(&File::open(folder.path()).ok()?).then_some(folder)
    }

    /// What no region filled is reserved in the end, and holes still are not.
    #[test]
    fn a_file_in_memory_gets_its_pages_from_those_who_fill_it() {
        let Some(folder) = in_memory() else { return };
        let path = folder.path().join("out");
        let (page, hole) = (PAGE as usize, 8 * PAGE..600 * PAGE);
        let size = hole.end + 2 * PAGE;
        for (filled, blocks) in [(vec![(0, 3)], 8), (vec![(3 * page, 2 * page + 1)], 24), (vec![], 8)] {
            let mut output = OutputFile::create(&path, size, std::slice::from_ref(&hole), false).unwrap();
            let mut rest = output.region();
            for &(skipped, bytes) in &filled {
                rest.take_first(skipped as u64);
                rest.take_first(bytes as u64).fill(|out| out.fill(7));
            }
            let Place::Mapped(temporary, _) = &output.place else { panic!("it is not mapped") };
            let file = temporary.file().try_clone().unwrap();
            assert!(file.metadata().unwrap().blocks() <= 8 + blocks, "{filled:?}");
            output.end_of_regions().unwrap();
            assert_eq!(file.metadata().unwrap().blocks(), 10 * PAGE / 512, "{filled:?}");
            output.commit().unwrap();
            let written = fs::read(&path).unwrap();
            let all: usize = filled.iter().map(|&(_, bytes)| bytes).sum();
            assert_eq!(
                (written.len() as u64, written.iter().filter(|&&byte| byte == 7).count()),
                (size, all)
            );
        }
    }

    #[test]
    fn an_output_in_the_heap_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let temporary = Temporary::create(&path, 0o666).unwrap();
        let bytes = Bytes::in_heap(5).unwrap();
        let mut output = OutputFile::of(path.clone(), bytes, Place::Written(temporary, Vec::new()));
        output.bytes().copy_from_slice(b"bytes");
        output.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        assert!(Bytes::in_heap(usize::MAX / 2).is_none());
    }

    #[test]
    fn a_pipe_is_written_to_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a valid C string and plain mode bits.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        let mut output = OutputFile::create(&path, 4, &[], true).unwrap();
        output.bytes().copy_from_slice(b"text");
        output.commit().unwrap();
        assert_eq!(reader.join().unwrap(), b"text");
        assert!(!fs::metadata(&path).unwrap().is_file());
    }
}
