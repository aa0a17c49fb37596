//! What happens if the pages of a mapped file are lost.
//!
//! If a file becomes shorter while it is mapped, or if its disk fails, a read of the missing pages raises
//! SIGBUS. Libraries install no handler for that. A command does, with [`end_with_message`]: it finds the
//! file by the address, names it in a message, and fails as for any file that it cannot read.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the handler needs: the program's name for the message, the function to call before the end, and the
/// exit status.
struct Command {
    program: String,
    clean_up: fn(),
    status: i32,
}

static COMMAND: OnceLock<Command> = OnceLock::new();

/// Whether a thread is about to end the process.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Makes the process end with a message and exit status `status` if pages of a mapped file are lost.
/// `clean_up` runs first, inside the signal handler, so it may do only what handlers may.
pub fn end_with_message(program: &str, clean_up: fn(), status: i32) {
    if COMMAND.set(Command { program: program.to_owned(), clean_up, status }).is_err() {
        return;
    }
    // SAFETY: the structure is valid, also where it is zero. The handler calls only async-signal-safe
    // functions.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
            as libc::sighandler_t;
        // The handler runs on the thread's own stack, which is in order. The alternative stack is small.
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure, which holds an address for this signal.
    let address = unsafe { (*info).si_addr() } as usize;
    let mut maps = Maps::default();
    let (Some(path), Some(command)) = (maps.path_at(address), COMMAND.get()) else {
        // The address is in no mapped file. Without the handler, the thread repeats the access, and that ends
        // the process. SAFETY: this is a system call without a handler.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        return;
    };
    while ENDS.swap(true, Ordering::Relaxed) {
        // Another thread has lost pages too, and is ending the process.
        std::thread::yield_now();
    }
    (command.clean_up)();
    for part in [
        command.program.as_bytes(),
        b": error: ",
        path,
        b" cannot be read: it became shorter while it was in use, or its disk fails\n",
        b">>> help: make sure that nothing writes to it meanwhile, and try again\n",
    ] {
        // SAFETY: this is a system call with a valid buffer. If it fails, nothing can be done.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: nothing runs in this process after it.
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
        // SAFETY: this is a system call with a valid name.
        let file = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if file < 0 {
            return Some(b"a file");
        }
        // Only whole lines are parsed. The start of an unfinished line moves to the front of the buffer.
        let mut filled = 0;
        loop {
            let rest = &mut self.bytes[filled..];
            // SAFETY: this is a system call with a valid buffer.
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

/// The offset of the path in a line of `/proc/self/maps`, if the line covers the address and has a path. A
/// line looks like `7f00-7fff r--p 00000000 fe:00 1234     /path`.
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
