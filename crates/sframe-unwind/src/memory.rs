//! Reads memory of this process in a way that cannot fault.
//!
//! A stack may be damaged, and a load from an address on it could end the program. So the kernel copies the
//! memory (`process_vm_readv`), and returns an error if nothing is mapped there. Some emulators and system
//! call filters refuse this call. Then another call tells whether a word can be read, and the word is loaded
//! directly. This could still fault if another thread unmaps the memory between the two.

use std::ptr::null_mut;

/// Bytes that are copied at a time. It is small, because a handler may have a small stack.
const WINDOW: usize = 512;
/// Bytes that are copied at a time if the heap may be used.
const CHUNK: usize = 64 << 10;
/// The smallest page of any machine: either all of it can be read, or nothing.
const PAGE: u64 = 4096;

/// Reads memory, one window at a time.
pub struct Memory {
    window: [u8; WINDOW],
    /// Address of the window; 1 if there is none.
    start: u64,
    /// Whether the kernel refuses to copy.
    refused: bool,
}

impl Memory {
    /// A reader that has read nothing yet.
    pub fn new() -> Self {
        Self { window: [0; WINDOW], start: 1, refused: false }
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

    /// Copies a window that starts with the word, or the word alone if less is mapped.
    fn load(&mut self, address: u64) -> Result<u64, ()> {
        self.start = 1;
        for size in [WINDOW, 8] {
            if self.refused {
                break;
            }
            match copied(address, &mut self.window[..size]) {
                Ok(count) if count == size => {
                    if size == WINDOW {
                        self.start = address;
                    }
                    return self.window.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)).ok_or(());
                }
                Ok(_) => {}
                Err(Refused) => self.refused = true,
            }
        }
        if self.refused && is_readable(address) {
            // SAFETY: the word was readable a moment ago.
            return Ok(unsafe { (address as *const u64).read_unaligned() });
        }
        Err(())
    }
}

/// Appends the `size` bytes at an address; the size may come from a damaged file. If fewer bytes can be read,
/// `bytes` gets those, and the result is false. It allocates little more than it reads.
pub fn append(address: u64, size: u64, bytes: &mut Vec<u8>) -> bool {
    append_by(copied, address, size, bytes)
}

/// [`append`] with one of the ways to copy.
fn append_by(
    copied: fn(u64, &mut [u8]) -> Result<usize, Refused>,
    address: u64,
    size: u64,
    bytes: &mut Vec<u8>,
) -> bool {
    let mut done = 0;
    while done < size {
        let (old, want) = (bytes.len(), (size - done).min(CHUNK as u64) as usize);
        bytes.resize(old + want, 0);
        let at = address.wrapping_add(done);
        let count = copied(at, &mut bytes[old..]).unwrap_or_else(|Refused| look(at, &mut bytes[old..]));
        bytes.truncate(old + count);
        if count < want {
            return false;
        }
        done += want as u64;
    }
    true
}

/// The kernel does not copy memory for this process.
struct Refused;

/// How many of the bytes at an address the kernel copies.
fn copied(address: u64, to: &mut [u8]) -> Result<usize, Refused> {
    let here = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: it only writes to the buffer, and a bad source address gives an error.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0) };
    // SAFETY: this is the C library's own variable for this thread.
    let error = unsafe { *libc::__errno_location() };
    match usize::try_from(count) {
        Ok(count) => Ok(count),
        // An address beyond all addresses may count as an invalid argument.
        Err(_) if matches!(error, libc::EFAULT | libc::EINVAL) => Ok(0),
        Err(_) => Err(Refused),
    }
}

/// How many of the bytes at an address can be read without the kernel's copy, page by page.
fn look(address: u64, to: &mut [u8]) -> usize {
    let mut done = 0;
    while done < to.len() {
        let at = address.wrapping_add(done as u64);
        let count = (to.len() - done).min((PAGE - at % PAGE) as usize);
        if !is_readable(at / PAGE * PAGE) {
            break;
        }
        // SAFETY: its page was readable a moment ago.
        to[done..done + count].copy_from_slice(unsafe { std::slice::from_raw_parts(at as *const u8, count) });
        done += count;
    }
    done
}

/// Whether the 8 bytes at an address can be read. The kernel reads a set of signals there before it notices
/// that the first argument is invalid.
fn is_readable(address: u64) -> bool {
    const NOTHING_KNOWN: libc::c_int = -1;
    let (set, before) = (address as *const libc::c_void, null_mut::<libc::c_void>());
    // SAFETY: because of its first argument, the call changes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NOTHING_KNOWN, set, before, size_of::<u64>()) };
    // SAFETY: this is the C library's own variable for this thread. For the kernel, null is not an address
    // but means that there is no set.
    address != 0 && result == -1 && unsafe { *libc::__errno_location() } == libc::EINVAL
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Memory, PAGE, Refused, append, append_by};
    use std::ptr::null_mut;

    /// Pages of which every second one can be read; the last one cannot.
    struct Pages(u64, usize);

    impl Pages {
        fn new(count: usize) -> Self {
            let size = count * PAGE as usize;
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: these are new mappings.
            unsafe {
                let start = libc::mmap(null_mut(), size, access, kind, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                std::slice::from_raw_parts_mut(start.cast::<u8>(), size).fill(7);
                for page in (1..count).step_by(2) {
                    assert_eq!(libc::mprotect(start.byte_add(page * PAGE as usize), PAGE as usize, 0), 0);
                }
                Self(start as u64, size)
            }
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: nobody refers to the mapping.
            unsafe { libc::munmap(self.0 as *mut libc::c_void, self.1) };
        }
    }

    #[test]
    fn memory_is_read_where_there_is_some() {
        let words = [7u64, 8, 9];
        let address = words.as_ptr() as u64;
        let pages = Pages::new(2);
        for refused in [false, true] {
            let mut memory = Memory { refused, ..Memory::new() };
            assert_eq!(memory.word(address), Ok(7));
            assert_eq!(memory.word(address + 16), Ok(9));
            assert_eq!(memory.word(address + 8), Ok(8));
            for nowhere in [0, 1, 16, 1 << 47, 1 << 55, 1 << 63, u64::MAX - 15, u64::MAX - 3, u64::MAX] {
                assert_eq!(memory.word(nowhere), Err(()), "{nowhere:#x}, refused: {refused}");
            }
            let end = pages.0 + PAGE;
            for (at, found) in [(end - 8, Ok(0x0707_0707_0707_0707)), (end - 7, Err(())), (end, Err(()))] {
                assert_eq!(memory.word(at), found, "{at:#x}, refused: {refused}");
            }
        }
    }

    #[test]
    fn as_much_is_copied_as_there_is() {
        let pages = Pages::new(2);
        for way in [super::copied, |_: u64, _: &mut [u8]| Err(Refused)] {
            let mut bytes = Vec::new();
            assert!(append_by(way, pages.0 + 5, PAGE - 5, &mut bytes));
            assert!(bytes.len() == PAGE as usize - 5 && bytes.iter().all(|&byte| byte == 7));
            bytes.clear();
            assert!(!append_by(way, pages.0 + 5, u64::MAX, &mut bytes));
            assert!(bytes.len() <= PAGE as usize - 5 && bytes.capacity() <= 2 * CHUNK);
            assert!(!append_by(way, 16, 1, &mut bytes) && !append_by(way, u64::MAX - 3, 8, &mut bytes));
        }
        let whole = vec![3; 3 * CHUNK + 1];
        let mut bytes = vec![1];
        assert!(append(whole.as_ptr() as u64, whole.len() as u64, &mut bytes));
        assert!(bytes[0] == 1 && bytes[1..] == whole);
    }
}
