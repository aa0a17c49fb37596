//! What a process that runs has mapped already, as the events that would have told of it.

use crate::event::{Event, Mapped};
use crate::running::Line;
use std::io;
use std::path::Path;

/// Tells of the threads of a process and of its mappings of code, from `/proc`.
///
/// # Errors
/// There is no such process, or its mappings cannot be read.
pub fn tell(pid: u32, tell: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
    for tid in threads_of(pid) {
        let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        tell(&Event::Named { pid, tid, name, executed: false });
    }
    let maps = std::fs::read(format!("/proc/{pid}/maps"))?;
    for mapped in maps.split(|&byte| byte == b'\n').filter_map(|line| mapping(pid, line)) {
        tell(&Event::Mapped(mapped));
    }
    Ok(())
}

/// The threads of a process.
pub(crate) fn threads_of(pid: u32) -> Vec<u32> {
    numbers_in(Path::new(&format!("/proc/{pid}/task")))
}

/// The entries of a folder whose names are numbers.
pub(crate) fn numbers_in(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The mapping of code that a line of `/proc/PID/maps` tells of.
fn mapping(pid: u32, line: &[u8]) -> Option<Mapped<'_>> {
    let Line { range, executable, offset, identity, path } = Line::read(line)?;
    let path: &[u8] = if path.is_empty() { b"//anon" } else { path };
    let (address, length) = (range.start, range.end.checked_sub(range.start)?);
    let (kernel, build_id) = (false, None);
    executable.then_some(Mapped {
        pid,
        address,
        length,
        offset,
        executable,
        kernel,
        build_id,
        identity,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::mapping;

    #[test]
    fn maps_of_proc_are_read() {
        let line = b"7f00-8f00 r-xp 00001000 fd:00 123                        /usr/lib/a b.so (deleted)";
        let mapped = mapping(7, line).unwrap();
        assert_eq!((mapped.address, mapped.length, mapped.offset), (0x7f00, 0x1000, 0x1000));
        assert_eq!(mapped.path, b"/usr/lib/a b.so (deleted)");
        assert_eq!(mapping(7, b"7f00-8f00 rwxp 00000000 00:00 0 ").unwrap().path, b"//anon");
        assert!(mapping(7, b"7f00-8f00 rw-p 00000000 00:00 0").is_none());
        assert!(mapping(7, b"nothing").is_none());
    }
}
