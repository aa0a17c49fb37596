//! The reader of the kernel's ring under loom, which tries every order of its steps and the kernel's, and
//! every value that the memory model lets a load give. A record that is read while the kernel writes in its
//! place ends a run.

#[path = "../src/live/drain.rs"]
mod drain;

/// Loom's atomics, in place of those that the library uses.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}

use drain::drain;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;
use sync::{AtomicU64, Ordering};

/// Places of the ring, each for one record.
const SIZE: u64 = 2;
/// Records that the kernel has to write.
const RECORDS: u64 = 3;

/// A ring that starts shortly before its counts wrap.
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

    /// What the kernel does (`kernel/events/ring_buffer.c`): a record that there is no room for is dropped.
    /// Gives those that it wrote.
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
