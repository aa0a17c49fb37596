//! Tests the reader of the kernel's ring with loom, which tries every order of its steps and the kernel's,
//! and every value that the memory model allows a load to return. A run fails if a record is read while the
//! kernel writes in its place.

#[path = "../src/live/drain.rs"]
mod drain;

/// Loom's atomics, which replace those of the library.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}

use drain::drain;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;
use sync::{AtomicU64, Ordering};

/// Number of places in the ring. Each holds one record.
const SIZE: u64 = 2;
/// Number of records that the kernel wants to write.
const RECORDS: u64 = 3;

/// A ring whose counts will soon wrap.
struct Ring {
    head: AtomicU64,
    tail: AtomicU64,
    data: [UnsafeCell<u64>; SIZE as usize],
}

impl Ring {
    fn new() -> Self {
        let start = 0u64.wrapping_sub(SIZE);
        let data = [UnsafeCell::new(0), UnsafeCell::new(0)];
        Self { head: AtomicU64::new(start), tail: AtomicU64::new(start), data }
    }

    /// Does what the kernel does (`kernel/events/ring_buffer.c`): it drops a record for which there is no
    /// room. Returns the records that it wrote.
    fn write(&self) -> Vec<u64> {
        let mut written = Vec::new();
        for record in 1..=RECORDS {
            let head = self.head.load(Ordering::Relaxed);
            if head.wrapping_sub(self.tail.load(Ordering::Acquire)) == SIZE {
                continue;
            }
            // SAFETY: loom refuses a run in which another thread reads.
            self.data[(head % SIZE) as usize].with_mut(|place| unsafe { *place = record });
            self.head.store(head.wrapping_add(1), Ordering::Release);
            written.push(record);
        }
        written
    }

    fn read(&self, to: &mut Vec<u64>) {
        drain(&self.head, &self.tail, SIZE as usize, |range| {
            // SAFETY: loom refuses a run in which another thread writes.
            to.extend(self.data[range].iter().map(|place| place.with(|place| unsafe { *place })));
        });
    }
}

// SAFETY: loom watches the cells.
unsafe impl Sync for Ring {}

#[test]
fn every_record_is_read_once_and_in_order() {
    loom::model(|| {
        let ring = Arc::new(Ring::new());
        let kernel = {
            let ring = Arc::clone(&ring);
            spawn(move || ring.write())
        };
        let mut read = Vec::new();
        ring.read(&mut read);
        ring.read(&mut read);
        let written = kernel.join().expect("the kernel ends");
        ring.read(&mut read);
        assert_eq!(read, written);
    });
}
