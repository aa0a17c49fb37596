//! Reads the ring that the program writes stacks to.

use crate::layout::End;
use aya::maps::{MapData, RingBuf};

/// Bytes of `struct sample` before its frames, and of `struct outer` before its own.
const HEADER: usize = 40;
const OUTER_HEADER: usize = 32;
/// Marks an address that is not a return address, because a signal interrupted the code there.
const INTERRUPTED: u64 = 1 << 63;

/// Stacks that wait in the ring.
pub struct Stacks {
    ring: RingBuf<MapData>,
}

impl Stacks {
    pub(crate) fn new(ring: RingBuf<MapData>) -> Self {
        Self { ring }
    }

    /// Passes all records in the ring to `take`. [`Sample::read`] and [`OuterStack::read`] read them.
    pub fn empty(&mut self, mut take: impl FnMut(&[u8])) {
        while let Some(record) = self.ring.next() {
            take(&record);
        }
    }
}

/// A stack that the program has unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The time, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// How many events the sample stands for.
    pub period: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Processor.
    pub cpu: u32,
    /// Where it ended.
    pub end: End,
    kernel: &'a [u8],
    user: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Reads a record. `None` if the program did not write it.
    pub fn read(record: &'a [u8]) -> Option<Self> {
        let (header, frames) = record.split_at_checked(HEADER)?;
        let end = *End::ALL.get(word(header, 28)? as usize)?;
        let (kernel, user) = frames.split_at_checked(word(header, 32)? as usize * 8)?;
        let user = user.get(..word(header, 36)? as usize * 8)?;
        let (time, period) = (long(header, 0)?, long(header, 8)?);
        let (pid, tid, cpu) = (word(header, 16)?, word(header, 20)?, word(header, 24)?);
        Some(Self { time, period, pid, tid, cpu, end, kernel, user })
    }

    /// The time of a record.
    pub fn time(record: &[u8]) -> Option<u64> {
        record.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }

    /// Frames of the kernel, innermost first.
    pub fn kernel_frames(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        addresses(self.kernel)
    }

    /// Frames of user code, innermost first. The flag says whether a call returns to the address.
    pub fn user_frames(&self) -> impl ExactSizeIterator<Item = (u64, bool)> + use<'a> {
        let interrupted = |(place, address): (usize, u64)| {
            (address & !INTERRUPTED, place > 0 && address & INTERRUPTED == 0)
        };
        addresses(self.user).enumerate().map(interrupted)
    }
}

/// The mark of [`OuterStack`] in the place of a sample's end.
const OUTER_STACK: u32 = End::ALL.len() as u32;

/// A part of a stack that the event does not copy: from the first frame on that is not in the copy and to
/// which frame pointers lead. The event's sample has the same time, but for some microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterStack<'a> {
    /// The time, as in [`Sample::time`].
    pub time: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The address of the first byte.
    pub address: u64,
    /// What is there.
    pub bytes: &'a [u8],
}

impl<'a> OuterStack<'a> {
    /// Reads a record. `None` if it is of another kind.
    pub fn read(record: &'a [u8]) -> Option<Self> {
        let (header, bytes) = record.split_at_checked(OUTER_HEADER)?;
        let of_outer = word(header, 28)? == OUTER_STACK;
        let (time, address, pid, tid) =
            (long(header, 0)?, long(header, 8)?, word(header, 16)?, word(header, 20)?);
        of_outer.then_some(Self { time, pid, tid, address, bytes })
    }
}

fn long(header: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*header.get(at..)?.first_chunk()?))
}

fn word(header: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*header.get(at..)?.first_chunk()?))
}

fn addresses(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> + use<'_> {
    bytes.chunks_exact(8).map(|word| word.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kernel: &[u64], user: &[u64]) -> Vec<u8> {
        let mut bytes = [7u64, 1].iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        for word in [10, 11, 2, 1, kernel.len() as u32, user.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(kernel.iter().chain(user).flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_of_the_program_are_read() {
        let bytes = record(&[100], &[1, 2, 3 | INTERRUPTED]);
        let sample = Sample::read(&bytes).unwrap();
        assert_eq!((sample.time, sample.pid, sample.tid, sample.cpu), (7, 10, 11, 2));
        assert_eq!(sample.end, End::TooDeep);
        assert_eq!(sample.kernel_frames().collect::<Vec<_>>(), [100]);
        assert_eq!(sample.user_frames().collect::<Vec<_>>(), [(1, false), (2, true), (3, false)]);
    }

    #[test]
    fn parts_of_stacks_are_told_from_samples() {
        let mut bytes = [7u64, 0x7ffd_1000].iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        for word in [10, 11, 2, OUTER_STACK, 0x1234, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        let outer = OuterStack { time: 7, pid: 10, tid: 11, address: 0x7ffd_1000, bytes: &bytes[32..] };
        assert_eq!((OuterStack::read(&bytes), Sample::read(&bytes)), (Some(outer), None));
        assert_eq!((Sample::time(&bytes), outer.bytes.len()), (Some(7), 8));
        assert_eq!((OuterStack::read(&record(&[], &[1])), OuterStack::read(&bytes[..31])), (None, None));
    }

    #[test]
    fn a_record_that_is_cut_off_is_none() {
        let bytes = record(&[100], &[1]);
        assert!((0..bytes.len()).all(|length| Sample::read(&bytes[..length]).is_none()));
        assert!(Sample::read(&record(&[], &[])).is_some());
    }
}
