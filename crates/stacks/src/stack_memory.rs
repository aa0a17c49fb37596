//! The memory that a walk along a stack reads.

use crate::bytes::{fetch_ahead, word};
use crate::memory::Memory;
use crate::statistics::End;
use sframe_format::Endian;

/// An address that is less than this many bytes above the stack pointer counts as an address in the stack.
const MAX_STACK_SIZE: u64 = 1 << 30;
/// Bytes of the stack to fetch ahead of the walk. They contain some frames.
const AHEAD: usize = 2048;

/// The memory that a walk reads.
pub trait Stack {
    /// The word at an address; `None` if it is not known.
    fn word(&mut self, address: u64) -> Option<u64>;

    /// Why the word at an address is not known.
    fn lacks(&self, address: u64) -> End;

    /// The base of the thread's own data, if it is known.
    fn thread(&self) -> Option<u64> {
        None
    }
}

/// A copy of the top of a stack, as samples have it.
pub struct Copied<'a> {
    bytes: &'a [u8],
    /// The address of the first byte.
    start: u64,
    endian: Endian,
    /// Whether the page behind it was not there.
    cut_short: bool,
    /// A part further out, with its address.
    outer: (u64, &'a [u8]),
    /// How many bytes were fetched ahead.
    fetched: usize,
}

impl<'a> Copied<'a> {
    /// The bytes from the address `start` on.
    pub fn new(bytes: &'a [u8], start: u64, endian: Endian) -> Self {
        Self { bytes, start, endian, cut_short: false, outer: (0, &[]), fetched: 0 }
    }

    /// The same, said to be shorter than it should be, as the page behind it was not there.
    #[must_use]
    pub fn cut_short(self, cut_short: bool) -> Self {
        Self { cut_short, ..self }
    }

    /// The same with a part of the stack further out, which begins at an address.
    #[must_use]
    pub fn with_outer(self, start: u64, bytes: &'a [u8]) -> Self {
        Self { outer: (start, bytes), ..self }
    }

    /// A word that is not in the copy.
    #[cold]
    fn outer_word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.outer.0)?).ok()?;
        Some(word(*self.outer.1.get(offset..)?.first_chunk()?, self.endian))
    }
}

impl Stack for Copied<'_> {
    #[inline(always)]
    fn word(&mut self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        if offset < self.bytes.len() && offset + AHEAD / 2 > self.fetched {
            fetch_ahead(self.bytes, self.fetched.max(offset)..offset + AHEAD);
            self.fetched = offset + AHEAD;
        }
        match self.bytes.get(offset..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => Some(word(*bytes, self.endian)),
            None => self.outer_word(address),
        }
    }

    fn lacks(&self, address: u64) -> End {
        let above = address.wrapping_sub(self.start);
        // The word may be the one that the copy's end cuts through.
        if above < MAX_STACK_SIZE && above.saturating_add(8) > self.bytes.len() as u64 {
            if self.cut_short { End::PageMissing } else { End::CopyEnded }
        } else {
            End::Memory
        }
    }
}

/// All the memory of a process, or what was saved of it.
pub struct Saved<'a> {
    /// The memory.
    pub memory: &'a Memory,
    /// Its byte order.
    pub endian: Endian,
    /// The base of the thread's own data, if it is known.
    pub thread: Option<u64>,
}

impl Stack for Saved<'_> {
    fn word(&mut self, address: u64) -> Option<u64> {
        self.memory.word(self.endian, address)
    }

    fn lacks(&self, _: u64) -> End {
        End::Memory
    }

    fn thread(&self) -> Option<u64> {
        self.thread
    }
}
