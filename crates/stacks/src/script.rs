//! Profiles from the text of `perf script`, or from that of this crate.
//!
//! A sample is a line that names its thread, a line for each frame, and an empty one:
//!
//! ```text
//! name pid/tid [cpu] time: period event:
//!         address function+0xoffset (file) [source:line]
//! ```
//!
//! perf leaves out what `-F` does not ask for, and writes `tid` alone or `pid/tid`. So a head is read by the
//! form of its words: the first number is the thread, because names of threads hold any other text.

use crate::files::{FileId, Files};
use crate::modules::{Module, Modules};
use crate::name::{NOT_SAMPLED, Name};
use crate::process::Place;
use crate::profile::{FrameKey, Names, Profile};
use crate::session::{Frame, Stack};
use crate::statistics::{End, Statistics};
use crate::write::Kept;
use hashbrown::HashMap;
use std::sync::Arc;

/// The lowest address of the kernel's half on the machines of SFrame, but s390x, whose kernels lie elsewhere
/// and are known by their name alone.
const KERNEL_HALF: u64 = 1 << 63;

/// The head of a sample.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head<'a> {
    name: &'a str,
    pid: u32,
    tid: u32,
    cpu: Option<u32>,
    time: Option<u64>,
    period: u64,
    event: &'a str,
}

/// A line of a frame.
struct Line<'a> {
    address: u64,
    function: &'a str,
    offset: Option<u64>,
    file: &'a str,
    source: Option<(&'a str, u32)>,
}

/// Whether a text may be that of `perf script`: its first line that is no remark is a head.
pub fn begins(bytes: &[u8]) -> bool {
    let lines = bytes.split(|&byte| byte == b'\n').take(64);
    let mut lines = lines.map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty() && line[0] != b'#');
    lines.next().and_then(|line| str::from_utf8(line).ok()).is_some_and(|line| head(line).is_some())
}

/// Reads the text.
///
/// # Errors
/// A line is neither a head nor a frame: its number and what is expected.
pub fn read(bytes: &[u8], title: &str) -> Result<Kept, String> {
    let mut reader = Reader { profile: Profile::new(true), ..Reader::default() };
    let text = String::from_utf8_lossy(bytes);
    let mut sample: Option<(Head<'_>, Vec<Line<'_>>)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end();
        let wrong = |expected: &str| format!("line {number}: expected {expected}, found {line:?}");
        match &mut sample {
            _ if line.trim_start().starts_with('#') => {}
            Some(_) if line.is_empty() => reader.add(sample.take()),
            None if line.is_empty() => {}
            Some((_, lines)) if line.starts_with([' ', '\t']) => {
                lines.push(frame(line).ok_or_else(|| wrong("a frame: address function (file)"))?);
            }
            _ => {
                reader.add(sample.take());
                let head = head(line).ok_or_else(|| wrong("a sample: name pid/tid time: event:"))?;
                sample = Some((head, Vec::new()));
            }
        }
    }
    reader.add(sample);
    Ok(reader.finish(title))
}

/// Numbers of the names at one address.
type Turns = HashMap<Box<[Name]>, usize>;

#[derive(Default)]
struct Reader {
    profile: Profile,
    names: Names,
    modules: Modules,
    /// Numbers of files by path. Code that was made anew at an address is taken for a file of its own, so
    /// that each address of a file has one name.
    files: HashMap<(String, usize), FileId>,
    known: HashMap<FrameKey, Vec<Name>>,
    /// The different names at each address of each file, numbered.
    turns: HashMap<(Arc<str>, u64), Turns>,
    texts: HashMap<String, Arc<str>>,
    /// Numbers of events by name.
    events: HashMap<String, usize>,
    statistics: Statistics,
}

impl Reader {
    fn add(&mut self, sample: Option<(Head<'_>, Vec<Line<'_>>)>) {
        let Some((head, lines)) = sample else { return };
        let mut frames = Vec::new();
        let mut names: Vec<Name> = Vec::new();
        for Line { address, function, offset, file, source } in lines {
            let inlined = file == "inlined";
            let place = source.map(|(source, line)| (source.to_owned(), line));
            let (function, path) = (self.text(function), self.text(if inlined { "" } else { file }));
            let known = offset.is_some() || inlined;
            names.push(Name { function, known, offset, file: path, place, inlined });
            // Inlined functions stand before the one that contains them, at the same address.
            if !inlined {
                frames.push(self.frame(head.pid, address, !frames.is_empty(), std::mem::take(&mut names)));
            }
        }
        let event = self.event(head.event);
        let Head { name, pid, tid, cpu, time, period, event: _ } = head;
        let not_sampled = matches!(frames[..], [Frame { place: Place::NotSampled, .. }]);
        let (name, end) = (name.as_bytes(), if not_sampled { End::NotSampled } else { End::Recorded });
        let stack = Stack {
            pid,
            tid,
            process: name,
            thread: name,
            event,
            cpu,
            time,
            period,
            frames: &frames,
            end,
            in_kernel: false,
        };
        self.profile.add(&stack);
        let new = self.profile.frames.iter().skip(self.names.len());
        for key in new {
            self.names.push(self.known.get(key).cloned().unwrap_or_default());
        }
        if not_sampled {
            let unsampled = &mut self.statistics.coverage.unsampled;
            *unsampled = unsampled.saturating_add(period);
            return;
        }
        self.statistics.samples += 1;
        self.statistics.recorded_frames += frames.len() as u64;
        *self.statistics.ends.entry(end).or_default() += 1;
    }

    fn frame(&mut self, pid: u32, address: u64, returns: bool, names: Vec<Name>) -> Frame {
        let path = names.last().map_or_else(|| Arc::from(""), |name| Arc::clone(&name.file));
        let inside = address.wrapping_sub(returns.into());
        let place = if address >= KERNEL_HALF || path.starts_with("[kernel") {
            Place::Kernel(inside)
        } else if names.last().is_some_and(|name| &*name.function == NOT_SAMPLED) {
            Place::NotSampled
        } else {
            match (&*path, self.turn((Arc::clone(&path), inside), &names)) {
                ("[unknown]" | "", 0) => Place::Unmapped(inside),
                ("//anon", 0) => Place::Anonymous(pid, inside),
                (path, turn) => Place::File(self.file(path, turn), inside),
            }
        };
        let frame = Frame { address, place, returns, source: None };
        self.known.entry(FrameKey { place, address, returns, source: None }).or_insert(names);
        frame
    }

    /// Which of the different names at one address of a file these are: 0 for those that came first.
    fn turn(&mut self, at: (Arc<str>, u64), names: &[Name]) -> usize {
        let turns = self.turns.entry(at).or_default();
        if let Some(&turn) = turns.get(names) {
            return turn;
        }
        turns.insert(names.into(), turns.len());
        turns.len() - 1
    }

    fn file(&mut self, path: &str, turn: usize) -> FileId {
        let modules = &mut self.modules;
        let module = || Module { path: path.to_owned(), end: u64::MAX, ..Module::default() };
        *self.files.entry((path.to_owned(), turn)).or_insert_with(|| modules.add(module()))
    }

    fn event(&mut self, name: &str) -> usize {
        if let Some(&known) = self.events.get(name) {
            return known;
        }
        self.profile.events.push(name.to_owned());
        self.events.insert(name.to_owned(), self.events.len());
        self.events.len() - 1
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(text.to_owned(), Arc::clone(&new));
        new
    }

    fn finish(self, title: &str) -> Kept {
        let Self { profile, names, modules, statistics, .. } = self;
        let none = Files::new(sframe_format::Abi::Amd64, crate::files::Options::default());
        let report = statistics.report(&none);
        Kept { profile, names, modules, report, title: title.to_owned() }
    }
}

/// Reads the head of a sample. `None`: the line is none.
fn head(line: &str) -> Option<Head<'_>> {
    if line.starts_with([' ', '\t']) {
        return None;
    }
    let numbers = |word: &str| match word.split_once('/') {
        Some((pid, tid)) => Some((pid.parse().ok()?, tid.parse().ok()?)),
        None => word.parse().ok().map(|tid| (tid, tid)),
    };
    // Names of threads may have spaces, numbers and signs. So the thread is the last word of two numbers, or
    // else the first number that stands before a time, a processor or an event.
    let words: Vec<(usize, &str)> = words(line).collect();
    let is_after = |word: &str| word.ends_with(':') || word.starts_with('[');
    let of_two = |&at: &usize| words[at].1.contains('/') && numbers(words[at].1).is_some();
    let of_one = |&at: &usize| {
        let after = words.get(at + 1).is_some_and(|(_, word)| is_after(word));
        after && numbers(words[at].1).is_some()
    };
    let at = (1..words.len()).rev().find(of_two).or_else(|| (1..words.len()).find(of_one))?;
    let (start, (pid, tid)) = (words[at].0, numbers(words[at].1)?);
    let name = line[..start].trim();
    let mut found = Head { name, pid, tid, period: 1, ..Head::default() };
    let mut event = None;
    for &(place, word) in &words[at + 1..] {
        if let (None, Some(cpu)) = (event, word.strip_prefix('[').and_then(|word| word.strip_suffix(']'))) {
            found.cpu = cpu.parse().ok();
        } else if let (None, Some(time)) = (event, word.strip_suffix(':').and_then(nanoseconds)) {
            found.time = Some(time);
        } else if let (None, Ok(period)) = (event, word.parse()) {
            found.period = period;
        } else {
            // The name of an event may have spaces, too.
            let first = *event.get_or_insert(place);
            found.event = line[first..place + word.len()].strip_suffix(':').unwrap_or_default();
            if !found.event.is_empty() {
                break;
            }
        }
    }
    (!name.is_empty() && (!found.event.is_empty() || found.time.is_some())).then_some(found)
}

/// The words of a line with their places.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = line.as_ptr().addr();
    line.split_whitespace().map(move |word| (word.as_ptr().addr() - start, word))
}

/// A time in seconds with a fraction.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = fraction.len();
    if !(1..=9).contains(&digits) || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(9 - digits as u32);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Reads the line of a frame. The function may contain spaces and parentheses.
fn frame(line: &str) -> Option<Line<'_>> {
    let line = line.trim();
    let (address, rest) = line.split_once(' ').unwrap_or((line, ""));
    let address = u64::from_str_radix(address, 16).ok()?;
    // A source line may follow the file.
    let (rest, source) = match rest.rsplit_once(") ") {
        Some((before, source)) if source.contains(':') => {
            let (path, line) = source.rsplit_once(':')?;
            (&rest[..=before.len()], line.parse().ok().map(|line| (path, line)))
        }
        _ => (rest, None),
    };
    let (function, file) = match rest.rsplit_once(" (") {
        Some((function, file)) => (function, file.strip_suffix(')').unwrap_or(file)),
        None => (rest, "[unknown]"),
    };
    let function = function.trim();
    let (function, offset) = match function.rsplit_once("+0x") {
        Some((name, offset)) if file != "[unknown]" => match u64::from_str_radix(offset, 16) {
            Ok(offset) => (name, Some(offset)),
            Err(_) => (function, None),
        },
        _ => (function, None),
    };
    let function = if function.is_empty() { "[unknown]" } else { function };
    Some(Line { address, function, offset, file, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_however_perf_was_asked() {
        let whole = "Web Content 2 77/78 [003] 12.000345:    250000 cpu-clock:u: ";
        let expected = Head {
            name: "Web Content 2",
            pid: 77,
            tid: 78,
            cpu: Some(3),
            time: Some(12_000_345_000),
            period: 250_000,
            event: "cpu-clock:u",
        };
        assert_eq!(head(whole), Some(expected));
        let short = head("python3 41 5.5: cycles:").unwrap();
        assert_eq!(
            (short.name, short.tid, short.time, short.period),
            ("python3", 41, Some(5_500_000_000), 1)
        );
        let signs = head("[a] b: 41/42 [001] 5.5: cycles:").unwrap();
        assert_eq!((signs.name, signs.pid, signs.tid), ("[a] b:", 41, 42));
        for none in ["", "python3", "  4 5 6:", "a b c: d", "# captured on: Mon", "PERFILE2"] {
            assert_eq!(head(none), None, "{none}");
        }
    }

    #[test]
    fn frames_keep_names_with_spaces_and_source_lines() {
        let found = frame(
            "\t    7f00 std::function<void (int)>::operator()(int) const+0x1f (/usr/lib/a b.so) /s/a.cc:12",
        )
        .unwrap();
        assert_eq!((found.address, found.offset, found.file), (0x7f00, Some(0x1f), "/usr/lib/a b.so"));
        assert_eq!(found.function, "std::function<void (int)>::operator()(int) const");
        assert_eq!(found.source, Some(("/s/a.cc", 12)));
        let unknown = frame(" ffffffff [unknown] ([unknown])").unwrap();
        assert_eq!((unknown.function, unknown.offset, unknown.file), ("[unknown]", None, "[unknown]"));
        assert!(frame("\tno address").is_none());
    }
}
