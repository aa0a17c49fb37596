//! Stretches of code, as the file has them.

use std::ops::Range;

/// A part of a file with code.
#[derive(Clone, Copy)]
pub struct Area<'a> {
    /// Address of its first byte in the file.
    pub address: u64,
    /// The code.
    pub code: &'a [u8],
}

impl<'a> Area<'a> {
    /// The address behind its last byte.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.code.len() as u64)
    }

    /// The part of the area that is in a range.
    pub fn within(&self, range: &Range<u64>) -> Option<Self> {
        let (start, end) = (self.address.max(range.start), self.end().min(range.end));
        let place = |address: u64| (address - self.address) as usize;
        (start < end).then(|| Self { address: start, code: &self.code[place(start)..place(end)] })
    }
}
