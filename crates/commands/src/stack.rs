//! The stack of a command's first thread where memory is limited.
//!
//! The system lets the first stack grow when it is needed. If the address space has a limit (`ulimit -v`) and
//! the heap has taken the rest of it, the stack cannot grow, and the process ends by a signal, without a
//! message. Whether that happens depends on a few kilobytes. So a command takes its stack when it starts, and
//! later only the heap can run out of memory, which says so.

use rustix::process::{Resource, getrlimit};

/// The stack that a command takes at once, in bytes.
const STACK: usize = 1 << 20;

/// The memory that it must find before, in bytes.
const ROOM: usize = STACK + STACK / 4;

/// The least limit of the stack (`ulimit -s`) with which it does that, in bytes.
const LEAST_LIMIT: u64 = 4 * STACK as u64;

/// Takes the stack that the first thread, which calls this, needs, if the address space has a limit. Says
/// whether there is memory for it.
pub fn take() -> bool {
    let limit = |resource| getrlimit(resource).current;
    if limit(Resource::As).is_none() || limit(Resource::Stack).is_some_and(|stack| stack < LEAST_LIMIT) {
        return true;
    }
    let has_room = memmap2::MmapMut::map_anon(ROOM).is_ok();
    if has_room {
        grow();
    }
    has_room
}

/// Writes to all of a large array on the stack.
#[inline(never)]
fn grow() {
    let stack = [0_u8; STACK];
    std::hint::black_box(&stack);
}
