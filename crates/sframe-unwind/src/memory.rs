//! Reads of this process's memory that cannot fault.
//!
//! The kernel copies memory (`process_vm_readv`), and reports an error where nothing is mapped. Under an emulator or a
//! filter of system calls that refuses this, only the stacks that were mapped at the last refresh can be read.

use std::ops::Range;

/// Bytes that are copied at a time; a handler may have a small stack.
const WINDOW: usize = 512;

/// Reads memory, a window at a time.
pub struct Memory<'a> {
    window: [u8; WINDOW],
    /// Address of the window; 1 where there is none.
    start: u64,
    stacks: &'a [Range<u64>],
    /// Whether the kernel refuses to copy.
    refused: bool,
}

impl<'a> Memory<'a> {
    /// Memory; `stacks` are the ranges that may be read without the kernel's help.
    pub fn new(stacks: &'a [Range<u64>]) -> Self {
        Self { window: [0; WINDOW], start: 1, stacks, refused: false }
    }

    /// The word at an address.
    pub fn word(&mut self, address: u64) -> Result<u64, ()> {
        let offset = address.wrapping_sub(self.start);
        if self.start == 1 || offset > (WINDOW - 8) as u64 {
            return self.load(address);
        }
        let bytes = self.window.get(offset as usize..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u64::from_ne_bytes(*bytes)).ok_or(())
    }

    /// Copies a window from the word on, or the word alone where less is mapped.
    fn load(&mut self, address: u64) -> Result<u64, ()> {
        self.start = 1;
        for size in [WINDOW, 8] {
            if !self.refused && self.copy(address, size) {
                if size == WINDOW {
                    self.start = address;
                }
                return self.window.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)).ok_or(());
            }
        }
        let end = address.checked_add(8);
        let inside = |range: &Range<u64>| range.start <= address && end.is_some_and(|end| end <= range.end);
        if self.refused && self.stacks.iter().any(inside) {
            // SAFETY: it is inside a stack that was mapped when the ranges were read, and threads that end do not walk.
            return Ok(unsafe { (address as *const u64).read_unaligned() });
        }
        Err(())
    }

    fn copy(&mut self, address: u64, size: usize) -> bool {
        let to = libc::iovec { iov_base: self.window.as_mut_ptr().cast(), iov_len: size };
        let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: size };
        // SAFETY: it writes to the window only, and a bad source address is an error.
        let copied =
            unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
        if copied < 0 {
            // SAFETY: the C library's own place for this thread.
            self.refused = matches!(unsafe { *libc::__errno_location() }, libc::ENOSYS | libc::EPERM);
        }
        copied == size as isize
    }
}

/// The memory that may be stacks: private and writable mappings of no file.
pub fn stacks() -> Vec<Range<u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let range = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let private = words.next()?.starts_with("rw-p");
        let name = words.nth(3).unwrap_or("");
        let fits = private && (name.is_empty() || name.starts_with('['));
        let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
        fits.then_some(range)
    };
    maps.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::{Memory, stacks};

    #[test]
    fn memory_is_read_where_there_is_some() {
        let words = [7u64, 8, 9];
        let address = words.as_ptr() as u64;
        let stacks = stacks();
        for refused in [false, true] {
            let mut memory = Memory { refused, ..Memory::new(&stacks) };
            assert_eq!(memory.word(address), Ok(7));
            assert_eq!(memory.word(address + 16), Ok(9));
            assert_eq!(memory.word(address + 8), Ok(8));
            assert_eq!(memory.word(16), Err(()));
            assert_eq!(memory.word(u64::MAX - 3), Err(()));
        }
    }

    #[test]
    fn only_words_inside_stacks_are_read_without_the_kernel() {
        let words = [7u64, 8, 9, 10];
        let start = words.as_ptr() as u64;
        let (stack, short) = (start + 8..start + 24, start..start + 7);
        let ends = [0..1, u64::MAX - 7..u64::MAX];
        let stacks = [&[stack.clone(), short], &ends[..]].concat();
        let mut memory = Memory { refused: true, ..Memory::new(&stacks) };
        for address in start..start + 32 {
            let inside = stack.start <= address && address + 8 <= stack.end;
            assert_eq!(memory.word(address).is_ok(), inside, "{:#x}", address - start);
        }
        for address in [0, 1, 7, u64::MAX - 15, u64::MAX - 8, u64::MAX - 7, u64::MAX - 6, u64::MAX] {
            assert_eq!(memory.word(address), Err(()), "{address:#x}");
        }
    }
}
