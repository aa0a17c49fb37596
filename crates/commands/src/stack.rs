//! The stack of a command's first thread where memory is limited.
//!
//! The system lets the first stack grow when it is needed. If the address space has a limit (`ulimit -v`) and
//! the heap has taken the rest of it, the stack cannot grow, and the process ends by a signal, without a
//! message. Whether that happens depends on a few kilobytes. So a command takes its stack when it starts, and
//! later only the heap can run out of memory, which says so.

/// The stack that a command takes at once, in bytes.
const STACK: usize = 1 << 20;

/// The memory that it must find before, in bytes.
const ROOM: usize = STACK + STACK / 4;

/// The least limit of the stack (`ulimit -s`) with which it does that, in bytes.
const LEAST_LIMIT: libc::rlim_t = 4 * STACK as libc::rlim_t;

/// Takes the stack that the first thread, which calls this, needs, if the address space has a limit. Says
/// whether there is memory for it.
pub fn take() -> bool {
    let is_limited = limit(libc::RLIMIT_AS) != libc::RLIM_INFINITY;
    if !is_limited || limit(libc::RLIMIT_STACK) < LEAST_LIMIT {
        return true;
    }
    let has_room = memmap2::MmapMut::map_anon(ROOM).is_ok();
    if has_room {
        grow();
    }
    has_room
}

/// The limit of a resource of this process.
fn limit(resource: libc::__rlimit_resource_t) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call writes to the structure, which lives long enough.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit.rlim_cur
}

/// Writes to all of a large array on the stack.
#[inline(never)]
fn grow() {
    let stack = [0_u8; STACK];
    std::hint::black_box(&stack);
}
