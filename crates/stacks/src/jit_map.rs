//! Names of code that a program made while it ran, by the list that it has written: `/tmp/perf-PID.map`.
//!
//! node, Java, .NET and others write such a list if they are asked to: a line for each function, with its
//! start and size in hexadecimal digits, and the rest of the line as its name. Code moves and is made again,
//! so of lines for the same place, the last one holds. The list of a process that had the same number before
//! must not be taken: a list is used if it was written since the process started.

use crate::bytes::Bytes;
use crate::ticks;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How many lines before the nearest one may still be about an address.
const OVERLAPS: usize = 32;
/// File systems round times.
const ROUNDING: Duration = Duration::from_secs(2);

/// The functions that a program has made.
pub struct JitMap {
    /// The path of the list.
    pub path: Arc<str>,
    bytes: Bytes,
    /// By their starts.
    functions: Vec<Function>,
}

/// A line of the list.
struct Function {
    range: Range<u64>,
    /// Its number among the lines.
    line: usize,
    name: Range<usize>,
}

impl JitMap {
    /// The list of a process whose files lie below a folder.
    pub fn below(root: &Path, pid: u32) -> Option<Self> {
        let path = root.join(format!("tmp/perf-{pid}.map"));
        Some(Self::read(&path, Bytes::map(&open(&path)?).ok()?))
    }

    /// The list of a process that was sampled here, since a time.
    pub fn of_process(pid: u32, since: SystemTime) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let running = started(&folder).map(|started| {
            let inside = number_inside(&folder).unwrap_or(pid);
            (folder.join(format!("root/tmp/perf-{inside}.map")), started)
        });
        let (path, since) = running.unwrap_or_else(|| (format!("/tmp/perf-{pid}.map").into(), since));
        let file = open(&path)?;
        let written = file.metadata().ok()?.modified().ok()?;
        if written + ROUNDING < since {
            return None;
        }
        Some(Self::read(&path, Bytes::map(&file).ok()?))
    }

    fn read(path: &Path, bytes: Bytes) -> Self {
        let mut functions = Vec::new();
        let mut start = 0;
        for (line, text) in bytes.split(|&byte| byte == b'\n').enumerate() {
            functions.extend(function(text, line, start));
            start += text.len() + 1;
        }
        functions.sort_by_key(|function| (function.range.start, function.line));
        Self { path: path.to_string_lossy().into(), bytes, functions }
    }

    /// The name of the function at an address, and the offset in it.
    pub fn at(&self, address: u64) -> Option<(&[u8], u64)> {
        let behind = self.functions.partition_point(|function| function.range.start <= address);
        let near = self.functions[..behind].iter().rev().take(OVERLAPS);
        let found =
            near.filter(|function| function.range.contains(&address)).max_by_key(|function| function.line)?;
        Some((self.bytes.get(found.name.clone())?, address - found.range.start))
    }
}

/// Opens a list. Anybody may make files in `/tmp`, so nothing but a file is opened, and no link is followed.
fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// The function of a line that begins at an offset. `None`: it is no line of a list.
fn function(text: &[u8], line: usize, offset: usize) -> Option<Function> {
    let mut words = text.splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let word = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim_ascii_end();
    if name.is_empty() {
        return None;
    }
    let before = name.as_ptr().addr() - text.as_ptr().addr();
    let name = offset + before..offset + before + name.len();
    Some(Function { range: start..start.checked_add(size)?, line, name })
}

/// When a process started, by the clock of the machine.
fn started(folder: &Path) -> Option<SystemTime> {
    let stat = std::fs::read(folder.join("stat")).ok()?;
    let behind = stat.get(stat.iter().rposition(|&byte| byte == b')')? + 1..)?;
    let mut words = std::str::from_utf8(behind).ok()?.split_whitespace();
    let ticks: u64 = words.nth(19)?.parse().ok()?;
    let boot = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(boot.checked_add(ticks / ticks::per_second())?))
}

/// The number of a process as it sees it itself.
fn number_inside(folder: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> JitMap {
        JitMap::read(Path::new("a.map"), Bytes::from(text.as_bytes().to_vec()))
    }

    fn name(map: &JitMap, address: u64) -> Option<(&str, u64)> {
        map.at(address).map(|(name, offset)| (std::str::from_utf8(name).unwrap(), offset))
    }

    #[test]
    fn of_lines_for_one_place_the_last_holds() {
        let map = map(
            "1000 20 old\n0x1000 0x10 JS:*new file.js:1:2\r\nnonsense\n2000 10\nff zz x\n1008 100 over\n",
        );
        assert_eq!(name(&map, 0x1004), Some(("JS:*new file.js:1:2", 4)));
        assert_eq!(name(&map, 0x1010), Some(("over", 8)));
        assert_eq!(name(&map, 0x2000), None);
        assert_eq!(name(&map, 0xfff), None);
    }

    #[test]
    fn no_line_makes_it_panic() {
        for text in ["", "\n\n", "ffffffffffffffff ffffffffffffffff x\n", "1 1", "1 1 ", "-1 1 x", "\u{1}"] {
            assert_eq!(name(&map(text), 1), None, "{text:?}");
        }
    }

    #[test]
    fn lists_of_earlier_processes_and_links_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let path = folder.path().join("tmp/perf-5.map");
        std::fs::write(&path, "1000 20 f\n").unwrap();
        assert!(JitMap::below(folder.path(), 5).is_some_and(|map| name(&map, 0x1000).is_some()));
        std::os::unix::fs::symlink(&path, folder.path().join("tmp/perf-6.map")).unwrap();
        assert!(JitMap::below(folder.path(), 6).is_none());
        let this = PathBuf::from(format!("/proc/{}", std::process::id()));
        assert!(started(&this).is_some_and(|started| started <= SystemTime::now() + ROUNDING));
        assert!(number_inside(&this).is_some());
    }
}
