//! The ring buffer that the kernel writes records into. The reader frees its memory by moving the tail
//! (`struct perf_event_mmap_page`).

use super::drain::drain;
use super::sync::AtomicU64;
use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::perf_event_mmap_page;
use std::io;
use std::os::fd::AsRawFd;

/// Numbers of data pages to request, one after the other until the kernel allows one. They must be powers of
/// two.
const PAGES: [usize; 8] = [2048, 1024, 512, 256, 128, 64, 32, 16];

/// A ring of records.
pub struct Ring {
    map: MmapRaw,
    page: usize,
}

impl Ring {
    /// The ring of an event.
    ///
    /// # Errors
    /// The kernel does not give the memory.
    pub fn new(event: &impl AsRawFd) -> io::Result<Self> {
        // SAFETY: it asks for a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mut failed = None;
        for pages in PAGES {
            match MmapOptions::new().len((pages + 1) * page).map_raw(event.as_raw_fd()) {
                Ok(map) => return Ok(Self { map, page }),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| io::ErrorKind::OutOfMemory.into()))
    }

    /// Moves all whole records to the end of `batch`.
    pub fn empty(&mut self, batch: &mut Vec<u8>) {
        let header = self.map.as_mut_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the first page is this structure, aligned and valid as long as the mapping. The kernel
        // writes one of the two fields and reads the other, both as whole words.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*header).data_head),
                AtomicU64::from_ptr(&raw mut (*header).data_tail),
            )
        };
        // SAFETY: the mapping continues after the first page.
        let data = unsafe { self.map.as_ptr().add(self.page) };
        drain(head, tail, self.map.len() - self.page, |range| {
            // SAFETY: the range lies in the data; the kernel writes there only after the tail has moved.
            let piece = unsafe { std::slice::from_raw_parts(data.add(range.start), range.len()) };
            batch.extend_from_slice(piece);
        });
    }
}

/// Adds a record with a type to a batch, as the kernel does. Omits it if the body is too long for the 16-bit
/// size.
pub fn add(batch: &mut Vec<u8>, kind: u32, body: &[u8]) {
    if let Ok(size) = u16::try_from(body.len() + 8) {
        batch.extend(kind.to_ne_bytes());
        batch.extend([0; 2]);
        batch.extend(size.to_ne_bytes());
        batch.extend(body);
    }
}

/// The records in a batch, each with its header.
pub fn records(batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        let size = usize::from(u16::from_ne_bytes(*rest.get(6..)?.first_chunk()?));
        let (record, behind) = rest.split_at_checked(size.max(8))?;
        rest = behind;
        Some(record)
    })
}
