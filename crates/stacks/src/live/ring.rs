//! The ring buffer that the kernel writes records into. The reader frees its memory by moving the tail
//! (`struct perf_event_mmap_page`).

use super::drain::drain;
use super::sync::{AtomicU64, Ordering};
use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::perf_event_mmap_page;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// The fewest and the most data pages of a ring.
const FEWEST: usize = 16;
const MOST: usize = 4096;

/// The size of a page.
fn page() -> usize {
    // SAFETY: it asks for a constant.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize
}

/// Sizes of rings that hold so many bytes, one after the other until the kernel allows one. The number of
/// pages must be a power of two.
pub fn sizes(bytes: usize) -> impl Iterator<Item = usize> {
    let page = page();
    let wanted = bytes.div_ceil(page).clamp(FEWEST, MOST).next_power_of_two();
    std::iter::successors(Some(wanted), |pages| (*pages > FEWEST).then_some(pages / 2))
        .map(move |pages| pages * page)
}

/// A ring of records.
pub struct Ring {
    map: MmapRaw,
    page: usize,
}

impl Ring {
    /// The ring of an event, with so many bytes for records.
    ///
    /// # Errors
    /// The kernel does not give the memory.
    pub fn new(event: &impl AsRawFd, bytes: usize) -> io::Result<Self> {
        let page = page();
        let map = MmapOptions::new().len(bytes + page).map_raw(event.as_raw_fd())?;
        Ok(Self { map, page })
    }

    /// Bytes for records.
    pub fn size(&self) -> usize {
        self.map.len() - self.page
    }

    /// The places up to which the kernel has written, and up to which all is read.
    fn ends(&self) -> (&AtomicU64, &AtomicU64) {
        let header = self.map.as_mut_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the first page is this structure, aligned and valid as long as the mapping. The kernel
        // writes one of the two fields and reads the other, both as whole words.
        unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*header).data_head),
                AtomicU64::from_ptr(&raw mut (*header).data_tail),
            )
        }
    }

    /// Bytes of records that wait.
    pub fn waiting(&self) -> usize {
        let (head, tail) = self.ends();
        let waiting = head.load(Ordering::Relaxed).wrapping_sub(tail.load(Ordering::Relaxed));
        (waiting as usize).min(self.size())
    }

    /// Moves all whole records to the end of `batch`.
    pub fn empty(&mut self, batch: &mut Vec<u8>) {
        let (head, tail) = self.ends();
        // SAFETY: the mapping continues after the first page.
        let data = unsafe { self.map.as_ptr().add(self.page) };
        drain(head, tail, self.size(), |range| {
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
pub fn records(batch: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = usize::from(u16::from_ne_bytes(*batch.get(at + 6..)?.first_chunk()?));
        let end = at + size.max(8);
        let record = (end <= batch.len()).then_some(at..end)?;
        at = end;
        Some(record)
    })
}

#[cfg(test)]
mod tests {
    use super::{FEWEST, MOST, page, sizes};

    #[test]
    fn rings_have_room_for_what_is_needed_or_half_as_often_as_the_kernel_refuses() {
        let pages = |bytes: usize| sizes(bytes).map(|size| size / page()).collect::<Vec<_>>();
        assert_eq!(pages(0), [FEWEST]);
        assert_eq!(pages(33 * page()), [64, 32, 16]);
        assert_eq!(pages(usize::MAX).first(), Some(&MOST));
    }
}
