//! Mapped files whose pages are lost.
//!
//! If a file becomes shorter while it is mapped, or its disk fails, reading the missing pages raises SIGBUS.
//! Libraries install no handler. A command does, by [`end_with_message`]: the message names the file,
//! which the system knows by the address, and the command fails as for any file that it cannot read.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of the program in the message, the function that it calls before it ends, and its exit status.
struct Command {
    program: String,
    clean_up: fn(),
    status: i32,
}

static COMMAND: OnceLock<Command> = OnceLock::new();

/// Whether a thread is about to end the process.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Makes the process end with a message and exit status `status` when pages of a mapped file are lost.
/// `clean_up` runs first, in the signal's handler: it may only do what handlers may.
pub fn end_with_message(program: &str, clean_up: fn(), status: i32) {
    if COMMAND.set(Command { program: program.to_owned(), clean_up, status }).is_err() {
        return;
    }
    // SAFETY: the structure is valid, zeroes included; the handler calls only async-signal-safe functions.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
            as libc::sighandler_t;
        // Not on the alternative stack, which is small: the thread's own is in order.
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system hands in a valid structure, which holds an address for this signal.
    let address = unsafe { (*info).si_addr() } as usize;
    let mut maps = Maps::default();
    let (Some(path), Some(command)) = (maps.path_at(address), COMMAND.get()) else {
        // The address is in no mapped file: without the handler, the access is made again and ends the
        // process. SAFETY: a system call, without a handler.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        return;
    };
    while ENDS.swap(true, Ordering::Relaxed) {
        // Another thread has lost pages too, and ends the process.
        std::thread::yield_now();
    }
    (command.clean_up)();
    for part in [
        command.program.as_bytes(),
        b": error: ",
        path,
        b" cannot be read: it became shorter while it was in use, or its disk fails\n",
        b">>> help: let nothing write to it meanwhile, and try again\n",
    ] {
        // SAFETY: a system call with a valid buffer. Nothing can be done if it fails.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: nothing runs behind it in this process.
    unsafe { libc::_exit(command.status) }
}

/// `/proc/self/maps`, read without an allocation: a signal handler must not allocate.
struct Maps {
    bytes: [u8; 8192],
}

impl Default for Maps {
    fn default() -> Maps {
        Maps { bytes: [0; 8192] }
    }
}

impl Maps {
    /// The path of the file that is mapped at an address; without `/proc`, the words "a file".
    fn path_at(&mut self, address: usize) -> Option<&[u8]> {
        // SAFETY: a system call with a valid name.
        let file = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if file < 0 {
            return Some(b"a file");
        }
        // Only whole lines are parsed; the start of an unfinished line moves to the front of the buffer.
        let mut filled = 0;
        loop {
            let rest = &mut self.bytes[filled..];
            // SAFETY: a system call with a valid buffer.
            let count = unsafe { libc::read(file, rest.as_mut_ptr().cast(), rest.len()) };
            if count <= 0 {
                return None;
            }
            filled += count as usize;
            let mut start = 0;
            while let Some(length) = self.bytes[start..filled].iter().position(|byte| *byte == b'\n') {
                let line = start..start + length;
                if let Some(offset) = path_in(&self.bytes[line.clone()], address) {
                    return Some(&self.bytes[line.start + offset..line.end]);
                }
                start = line.end + 1;
            }
            self.bytes.copy_within(start..filled, 0);
            filled -= start;
            if filled == self.bytes.len() {
                return None;
            }
        }
    }
}

/// Offset of the path in a line of `/proc/self/maps`, if the line is that of the address and has a path:
/// `7f00-7fff r--p 00000000 fe:00 1234     /path`.
fn path_in(line: &[u8], address: usize) -> Option<usize> {
    let (start, rest) = hexadecimal(line)?;
    let (end, _) = hexadecimal(rest.strip_prefix(b"-")?)?;
    let path = line.iter().position(|byte| *byte == b'/')?;
    (start..end).contains(&address).then_some(path)
}

/// The hexadecimal number at the start of a text, and the text behind it.
fn hexadecimal(text: &[u8]) -> Option<(usize, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let digits = std::str::from_utf8(&text[..length]).ok()?;
    Some((usize::from_str_radix(digits, 16).ok()?, &text[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_the_file_that_is_mapped_there() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10_000).unwrap();
        // SAFETY: nobody else has the file.
        let map = unsafe { memmap2::Mmap::map(file.as_file()) }.unwrap();
        let path = file.path().as_os_str().as_encoded_bytes();
        for offset in [0, 5000, 9999] {
            assert_eq!(Maps::default().path_at(map.as_ptr() as usize + offset), Some(path));
        }
        let local = 0u8;
        assert_eq!(Maps::default().path_at(std::ptr::from_ref(&local) as usize), None);
    }

    #[test]
    fn only_lines_with_a_path_and_the_address_count() {
        let line = b"7f00-7fff r--p 00000000 fe:00 1234     /a file (deleted)";
        assert_eq!(path_in(line, 0x7f00), Some(39));
        assert_eq!(path_in(line, 0x7fff), None);
        assert_eq!(path_in(b"7f00-7fff rw-p 00000000 00:00 0     [heap]", 0x7f10), None);
        assert_eq!(path_in(b"", 0), None);
    }
}
