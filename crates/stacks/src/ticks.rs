//! The unit of the times that the kernel writes below `/proc`.

/// Ticks in a second.
pub fn per_second() -> u64 {
    // SAFETY: it asks for a constant.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64
}
