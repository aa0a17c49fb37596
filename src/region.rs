//! Stretches of the output, which jobs fill side by side.
//!
//! The output is a mapped file. A page of a new file that is touched through its mapping costs twice: the
//! system fills it with zeros first, and as many pages around it as it would read ahead, which have left the
//! processor's cache again when their contents come. Pages that a system call writes need no zeros. So
//! contents that one job makes are made in a buffer that stays in the cache, and written from there, few as
//! they may be. The mapping sees them, as it shares its pages with the file.
//!
//! But a file takes one writer at a time: each system call holds its lock, and the next one waits. With few
//! threads that is nothing, because a job makes contents for four times as long as it writes them. Sixteen
//! threads took 1,000 ms of processor time for what took one 300. So a job first looks at the queue, and
//! where it is long, takes the dearer way, on which nobody waits: through the mapping. No number of threads
//! has to be chosen for that, and a slow file system sends more jobs on that way than a quick one.
//!
//! A job also adds the digest of its contents to those that the build-id is made of, if there is to be one.
//! They are in its processor's cache now. Afterwards, all pages of the file would have to be mapped and
//! fetched again.

use build_id::Digests;
use rustix::mm::{Advice, madvise};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Stretches of more bytes are filled through the mapping: a buffer for them would stay in no cache.
const MOST: usize = 4 << 20;

/// What is in bytes before they are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// Zeros.
    Zeros,
    /// Whatever an earlier job left there.
    Anything,
}

/// A stretch of the output that nobody else fills. Its bytes are zero at first.
#[derive(Default)]
pub struct Region<'f> {
    bytes: &'f mut [u8],
    /// `None`: bytes in memory that are no output yet.
    place: Option<Place<'f>>,
}

/// What those who fill an output share.
#[derive(Default)]
pub struct Writers {
    /// How many system calls there are now. One of them writes, and the others wait for it.
    calls: AtomicUsize,
    /// The first error.
    failure: OnceLock<io::Error>,
    /// Whether the file has room for what is written through its mapping. If not, the pages of a region are
    /// made before it is touched.
    pub is_reserved: bool,
    /// The digests of what was filled, for an output that gets its build-id from its contents.
    pub digests: Option<Digests>,
}

impl Writers {
    /// With so many calls, a job does not add one: one call is over before the job has contents to write, two
    /// may not be.
    const QUEUE: usize = 2;

    fn is_queue(&self) -> bool {
        self.calls.load(Ordering::Relaxed) >= Self::QUEUE
    }

    /// The first error of a call.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}

/// The place of a region in the output.
#[derive(Clone, Copy)]
struct Place<'f> {
    offset: u64,
    /// The file whose bytes the region maps. `None`: the output is written when it is complete.
    file: Option<&'f File>,
    writers: &'f Writers,
}

impl Place<'_> {
    /// Takes note of the contents of the region that begins here.
    fn filled(&self, contents: &[u8]) {
        if let Some(digests) = &self.writers.digests {
            digests.add(self.offset, contents);
        }
    }

    /// Writes to a file from the region's first byte on. The bytes of the mapping, to which nobody else
    /// refers, change as if a file were read into them.
    fn write(&self, file: &File, contents: &[u8]) {
        self.writers.calls.fetch_add(1, Ordering::Relaxed);
        let written = file.write_all_at(contents, self.offset);
        self.writers.calls.fetch_sub(1, Ordering::Relaxed);
        if let Err(error) = written {
            let _ = self.writers.failure.set(error);
        }
    }
}

impl<'f> Region<'f> {
    /// Bytes in memory that are no output yet.
    pub fn of_memory(bytes: &'f mut [u8]) -> Region<'f> {
        Region { bytes, place: None }
    }

    /// A whole output. With a `file`, open for writing, `bytes` are its mapping. `writers` gets the first
    /// error of a write.
    pub fn of_output(bytes: &'f mut [u8], file: Option<&'f File>, writers: &'f Writers) -> Region<'f> {
        Region { bytes, place: Some(Place { offset: 0, file, writers }) }
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Splits off the first `size` bytes, or all if there are fewer.
    pub fn take_first(&mut self, size: u64) -> Region<'f> {
        let size = size.min(self.len());
        let (first, rest) = std::mem::take(&mut self.bytes).split_at_mut(size as usize);
        self.bytes = rest;
        let place = self.place;
        if let Some(place) = &mut self.place {
            place.offset += size;
        }
        Region { bytes: first, place }
    }

    /// Stores the contents.
    pub fn store(self, contents: &[u8]) {
        if let Some(place) = &self.place {
            place.filled(contents);
        }
        match self.place {
            Some(place @ Place { file: Some(file), .. }) => place.write(file, contents),
            _ => self.bytes.copy_from_slice(contents),
        }
    }

    /// Lets `fill` make the contents, in bytes that are zero.
    pub fn fill<R>(self, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let (mut fill, mut result) = (Some(fill), None);
        self.fill_by(Before::Zeros, &mut |out, _| result = fill.take().map(|fill| fill(out)));
        result.expect("fill_by calls its function once")
    }

    /// Lets `fill` write every byte. It is told what is in the bytes before, so that it need not write zeros
    /// where zeros are.
    pub fn fill_all<R>(self, fill: impl FnOnce(&mut [u8], Before) -> R) -> R {
        let (mut fill, mut result) = (Some(fill), None);
        self.fill_by(Before::Anything, &mut |out, before| {
            result = fill.take().map(|fill| fill(out, before));
        });
        result.expect("fill_by calls its function once")
    }

    /// The same, compiled once for all functions. They get zeros, or what they can do with.
    fn fill_by(self, enough: Before, fill: &mut dyn FnMut(&mut [u8], Before)) {
        let size = self.bytes.len();
        let Some(place) = self.place.filter(|_| size > 0) else {
            return fill(self.bytes, Before::Zeros);
        };
        let Some(file) = place.file.filter(|_| !is_filled_in_place(self.bytes, place.writers)) else {
            fill(self.bytes, Before::Zeros);
            return place.filled(self.bytes);
        };
        thread_local! {
            // More than one, since a job may fill several regions at once.
            static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
        }
        // A buffer that is too small is replaced: growing it would copy its contents. New memory is zero.
        let buffer = BUFFERS.with_borrow_mut(Vec::pop).filter(|buffer| buffer.len() >= size);
        let mut buffer = buffer.unwrap_or_else(|| vec![0; size]);
        let own = &mut buffer[..size];
        if enough == Before::Zeros {
            own.fill(0);
        }
        fill(own, enough);
        place.filled(own);
        place.write(file, own);
        BUFFERS.with_borrow_mut(|buffers| buffers.push(buffer));
    }
}

/// Whether a stretch is filled through its mapping. Its pages are there then, or the file has room for them.
fn is_filled_in_place(bytes: &mut [u8], writers: &Writers) -> bool {
    let is_large = bytes.len() > MOST;
    if is_large && writers.is_reserved {
        return true;
    }
    // If there is no room for the pages, a system call is to say so.
    (is_large || writers.is_queue()) && (populate(bytes) || writers.is_reserved)
}

/// Lets the system make the pages of a mapping at once rather than one by one, as they are touched. `false`:
/// the file system has no room for them, or the system does not know the request (Linux before 5.14), and
/// makes them when they are touched. Pages at both ends belong to others, too, who need them as well.
pub fn populate(bytes: &mut [u8]) -> bool {
    let before = bytes.as_ptr().addr() % PAGE;
    let start = bytes.as_mut_ptr().wrapping_sub(before);
    // SAFETY: the pages keep their contents, and the mapping has them as a whole.
    unsafe { madvise(start.cast(), bytes.len() + before, Advice::LinuxPopulateWrite).is_ok() }
}

/// Takes the pages of a mapped file that lie in `bytes` as a whole out of the mapping. They are there again
/// when they are touched.
///
/// # Safety
/// The bytes are a shared mapping of a file: the contents of any other memory would be lost.
pub unsafe fn release(bytes: &mut [u8]) {
    let skipped = bytes.as_ptr().align_offset(PAGE).min(bytes.len());
    let whole = (bytes.len() - skipped) & !(PAGE - 1);
    if whole > 0 {
        // SAFETY: the pages are part of `bytes`, and the file keeps the contents.
        let _ = unsafe { madvise(bytes[skipped..].as_mut_ptr().cast(), whole, Advice::LinuxDontNeed) };
    }
}

/// Bytes of a page. Where pages are larger, the system may refuse to populate, and makes them when touched.
const PAGE: usize = 4096;

/// Writes `bytes` to the start of `out`, as far as they fit.
pub fn copy_bytes(bytes: &[u8], out: &mut [u8]) {
    let size = bytes.len().min(out.len());
    out[..size].copy_from_slice(&bytes[..size]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 4096;

    #[test]
    fn regions_of_all_sizes_reach_the_file_and_its_mapping() {
        let file = tempfile::tempfile().unwrap();
        let sizes = [0, 1, 4095, 4096, 4097, 100_000, MOST, MOST + 1];
        let total: usize = sizes.iter().sum();
        file.set_len(total as u64).unwrap();
        // SAFETY: nobody else has the file.
        let mut bytes = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
        let mut writers = Writers::default();
        let mut rest = Region::of_output(&mut bytes, Some(&file), &writers);
        for (number, size) in sizes.into_iter().enumerate() {
            let region = rest.take_first(size as u64);
            assert_eq!(region.len(), size as u64);
            region.fill(|out| {
                assert!(out.iter().all(|byte| *byte == 0));
                out.fill(number as u8 + 1);
            });
        }
        assert!(rest.is_empty());
        let expected: Vec<u8> = (1u8..).zip(sizes).flat_map(|(number, size)| vec![number; size]).collect();
        assert!(bytes[..] == expected[..]);
        assert!(writers.take_failure().is_none());
    }

    #[test]
    fn a_region_may_be_filled_while_another_is() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * SIZE as u64).unwrap();
        // SAFETY: nobody else has the file.
        let mut bytes = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
        let writers = Writers::default();
        let mut second = Region::of_output(&mut bytes, Some(&file), &writers);
        let first = second.take_first(SIZE as u64);
        first.fill(|first| second.fill(|second| (first.fill(1), second.fill(2))));
        assert!(bytes[..SIZE].iter().all(|byte| *byte == 1) && bytes[SIZE..].iter().all(|byte| *byte == 2));
    }

    #[test]
    fn only_those_who_write_all_bytes_may_find_those_of_an_earlier_region() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * SIZE as u64).unwrap();
        // SAFETY: nobody else has the file.
        let mut bytes = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
        let writers = Writers::default();
        let mut rest = Region::of_output(&mut bytes, Some(&file), &writers);
        rest.take_first(2 * SIZE as u64).fill(|out| out.fill(7));
        rest.take_first(SIZE as u64).fill_all(|out, before| {
            assert_eq!((before, out.len()), (Before::Anything, SIZE));
            out.fill(1);
        });
        rest.fill(|out| assert!(out.len() == SIZE && out.iter().all(|byte| *byte == 0)));
        let expected = [[7; SIZE], [7; SIZE], [1; SIZE], [0; SIZE]];
        assert!(bytes[..] == *expected.as_flattened());
        Region::of_memory(&mut [0; 3]).fill_all(|_, before| assert_eq!(before, Before::Zeros));
    }

    #[test]
    fn a_job_behind_a_queue_of_writers_writes_through_the_mapping() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 * SIZE as u64).unwrap();
        // A system call to it would fail.
        let reader = File::open(file.path()).unwrap();
        // SAFETY: nobody else has the file.
        let mut bytes = unsafe { memmap2::MmapMut::map_mut(file.as_file()) }.unwrap();
        let mut writers = Writers { calls: AtomicUsize::new(Writers::QUEUE), ..Writers::default() };
        let mut rest = Region::of_output(&mut bytes, Some(&reader), &writers);
        rest.take_first(5);
        rest.fill(|out| out.fill(7));
        assert!(writers.take_failure().is_none());
        let written = std::fs::read(file.path()).unwrap();
        assert!(written[..5].iter().all(|byte| *byte == 0) && written[5..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn released_pages_keep_their_contents() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * SIZE as u64).unwrap();
        // SAFETY: nobody else has the file.
        let mut bytes = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
        bytes.fill(7);
        // SAFETY: they are a shared mapping of the file. Only the page in the middle is there as a whole.
        unsafe { release(&mut bytes[1..=2 * SIZE]) };
        assert!(bytes.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_write_that_fails_is_noted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = File::open(file.path()).unwrap();
        let mut bytes = vec![0; SIZE];
        let mut writers = Writers::default();
        Region::of_output(&mut bytes, Some(&reader), &writers).fill(|out| out.fill(1));
        assert!(writers.take_failure().is_some());
    }
}
