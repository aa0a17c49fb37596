//! The limit on open files. A process with 500 threads on 2 processors needs more events than the usual soft
//! limit of 1024 allows, while the hard limit is 20 times that or more.

use std::io;

/// Raises the soft limit to the hard one, as perf does. A command that this process has started before keeps
/// the limits that the user gave it.
pub fn raise_limit() {
    let Some(mut limits) = limits().filter(|limits| limits.rlim_cur < limits.rlim_max) else { return };
    limits.rlim_cur = limits.rlim_max;
    // SAFETY: it reads the limits. A failure shows when no more files can be opened.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) };
}

/// Why not all events can be opened, and what helps.
pub fn too_many(threads: usize, processors: usize, error: &io::Error) -> String {
    let needed = threads.saturating_mul(processors);
    let need = format!("one is needed for each thread and processor: {threads} * {processors} = {needed}");
    if error.raw_os_error() == Some(libc::ENFILE) {
        return format!("too many files are open on this system; {need}; raise /proc/sys/fs/file-max");
    }
    let limit = limits().map_or(0, |limits| limits.rlim_cur);
    format!(
        "too many files are open; {need}, and the hard limit is {limit}; raise it with `ulimit -Hn` as root"
    )
}

fn limits() -> Option<libc::rlimit> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it only writes the limits.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
    (got == 0).then_some(limits)
}
