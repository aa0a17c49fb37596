//! Code that a program made while it ran, by the file that it has written for perf: jitdump.
//!
//! Such a file has the name, the bytes and the place of each function, in the order in which they were made,
//! and may have source lines and call frame information of functions (`jitdump-specification.txt` in perf's
//! documentation). A program maps a page of it as if it were code, so that a recording says where the file
//! is. The file grows while the program runs. Functions that a later one overlaps are gone.

use crate::bytes::{Bytes, Reader};
use sframe_format::derive::FdeIndex;
use sframe_format::{Abi, Endian, FrameAddress, Registers, UnwindError};
use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The first word of a file, in the byte order of the machine that wrote it.
const MAGIC: u32 = 0x4a69_5444;
/// Kinds of records.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const LINES: u32 = 2;
const FRAMES: u32 = 4;
/// Size of what each record begins with: kind, size and time.
const RECORD: usize = 16;
/// In place of a file's name: that of the line before.
const SAME_NAME: &[u8] = &[0xff];
/// perf puts code into ELF files, behind a header of this size. V8 counts the addresses of lines from there.
const V8_EXCESS: u64 = 0x40;

/// The file of a process.
pub struct JitDump {
    /// Its path.
    pub path: Arc<str>,
    file: File,
    abi: Abi,
    read: RefCell<Made>,
}

/// What has been read of a file.
#[derive(Default)]
pub struct Made {
    bytes: Bytes,
    /// The byte order. `None`: the header has not been read.
    endian: Option<Endian>,
    /// Offset of the first record that has not been read.
    next: usize,
    functions: BTreeMap<u64, Function>,
    /// Lines and frames that belong to the next function.
    lines: Option<Range<usize>>,
    frames: Option<Range<usize>>,
}

/// A function. Ranges of numbers of type `usize` are places in the file.
#[derive(Clone)]
struct Function {
    end: u64,
    /// Where it was made, if it has been moved since.
    made_at: u64,
    /// Its number.
    index: u64,
    name: Range<usize>,
    lines: Option<Range<usize>>,
    frames: Option<Range<usize>>,
}

/// The name and the place of an address.
pub struct Found<'a> {
    /// The name of the function.
    pub name: &'a [u8],
    /// Offset in the function.
    pub offset: u64,
    /// Source file and line, if the file says so.
    pub line: Option<(&'a [u8], u32)>,
}

/// Whether a mapped file is a jitdump by its name, `jit-PID.dump`.
pub fn is_name(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let number = name.strip_prefix(b"jit-").and_then(|rest| rest.strip_suffix(b".dump"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

impl JitDump {
    /// Opens a file. It may still be empty: programs keep what they write in memory for a while.
    pub fn open(path: &Path, name: &str, abi: Abi) -> Option<Self> {
        let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
        Some(Self { path: name.into(), file, abi, read: RefCell::default() })
    }

    /// What the file says now.
    pub fn read(&self) -> Ref<'_, Made> {
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        let mut read = self.read.borrow_mut();
        if length > read.next as u64 {
            // Records that are being written are read the next time.
            if length > read.bytes.len() as u64
                && let Ok(bytes) = Bytes::map(&self.file)
            {
                read.bytes = bytes;
            }
            while read.record().is_some() {}
        }
        drop(read);
        self.read.borrow()
    }

    /// Whether the file says how the code at an address is left.
    pub fn describes(&self, address: u64) -> bool {
        self.read().function_at(address).is_some_and(|(_, function)| function.frames.is_some())
    }

    /// Steps from the frame at `address` to its caller. `None`: the file does not say how.
    pub fn step_at<F: FnMut(u64) -> Result<u64, ()>>(
        &self,
        address: u64,
        topmost: bool,
        registers: &mut Registers,
        read_word: &mut F,
    ) -> Option<Result<Option<FrameAddress>, UnwindError>> {
        let read = self.read();
        let (start, function) = read.function_at(address)?;
        let frames = read.bytes.get(function.frames.clone()?)?;
        // The section follows the code.
        let section = function.made_at.checked_add((function.end - start).checked_next_multiple_of(8)?)?;
        let fdes = FdeIndex::new(self.abi, frames, section, None);
        fdes.step_at(address - start + function.made_at, topmost, registers, read_word)
    }
}

impl Made {
    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<Found<'_>> {
        let (start, function) = self.function_at(address)?;
        let (name, offset) = (self.bytes.get(function.name.clone())?, address - start);
        let excess = if name.starts_with(b"JS:") { V8_EXCESS } else { 0 };
        let line = function.lines.clone().and_then(|lines| {
            let place = (offset + function.made_at).checked_add(excess)?;
            line_at(self.bytes.get(lines)?, self.endian?, place)
        });
        Some(Found { name, offset, line })
    }

    fn function_at(&self, address: u64) -> Option<(u64, &Function)> {
        let (&start, function) = self.functions.range(..=address).next_back()?;
        (address < function.end).then_some((start, function))
    }

    /// Reads the next record. `None`: it is not there, or not whole.
    fn record(&mut self) -> Option<()> {
        let bytes = self.bytes.clone();
        let endian = match self.endian {
            Some(endian) => endian,
            None => self.header(&bytes)?,
        };
        let start = self.next;
        let mut header = Reader::new(bytes.get(start..)?, endian);
        let (kind, size) = (header.u32()?, header.u32()? as usize);
        let end = start.checked_add(size).filter(|_| size >= RECORD)?;
        let body = bytes.get(start + RECORD..end)?;
        self.next = end;
        // What a damaged record does not say is not known.
        let _ = self.body(kind, Reader::new(body, endian), end);
        Some(())
    }

    /// Reads the header of the file. `None`: it is not there, or the file is no jitdump.
    fn header(&mut self, bytes: &[u8]) -> Option<Endian> {
        let endian = match bytes.first_chunk()? {
            first if u32::from_le_bytes(*first) == MAGIC => Endian::Little,
            first if u32::from_be_bytes(*first) == MAGIC => Endian::Big,
            _ => return None,
        };
        let mut reader = Reader::new(&bytes[4..], endian);
        let (_version, size) = (reader.u32()?, reader.u32()?);
        (self.endian, self.next) = (Some(endian), size as usize);
        Some(endian)
    }

    /// Reads the body of a record, which ends at an offset of the file.
    fn body(&mut self, kind: u32, mut reader: Reader<'_>, end_of_record: usize) -> Option<()> {
        match kind {
            LOAD => {
                let (_pid, _tid, _vma) = (reader.u32()?, reader.u32()?, reader.u64()?);
                let (start, size, index) = (reader.u64()?, reader.u64()?, reader.u64()?);
                let from = end_of_record - reader.rest.len();
                let length = memchr::memchr(0, reader.rest)?;
                let (lines, frames) = (self.lines.take(), self.frames.take());
                let end = start.checked_add(size).filter(|&end| end > start)?;
                let name = from..from + length;
                self.add(start, Function { end, made_at: start, index, name, lines, frames });
            }
            MOVE => {
                let (_pid, _tid, _vma) = (reader.u32()?, reader.u32()?, reader.u64()?);
                let (old, new, size, index) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
                let moved = self.functions.get(&old).filter(|function| function.index == index)?.clone();
                self.functions.remove(&old);
                self.add(new, Function { end: new.checked_add(size)?, ..moved });
            }
            LINES => {
                let _start = reader.u64()?;
                self.lines = Some(end_of_record - reader.rest.len()..end_of_record);
            }
            FRAMES => {
                let (size, header, _mapped) = (reader.u64()?, reader.u64()?, reader.u64()?);
                let size = usize::try_from(size.checked_sub(header)?).ok()?;
                let from = end_of_record - reader.rest.len();
                reader.take(size)?;
                self.frames = (size > 0).then_some(from..from + size);
            }
            _ => {}
        }
        Some(())
    }

    /// Adds a function in place of those that it overlaps.
    fn add(&mut self, start: u64, function: Function) {
        let overlapped = self.functions.range(..function.end).rev().take_while(|(_, old)| old.end > start);
        for old in overlapped.map(|(&old, _)| old).collect::<Vec<_>>() {
            self.functions.remove(&old);
        }
        self.functions.insert(start, function);
    }
}

/// The last line that starts at or before an address: its file and number. The number of lines stands before
/// them. Some versions of V8 write freed memory in place of names, so lines count only if all can be read.
fn line_at(lines: &[u8], endian: Endian, address: u64) -> Option<(&[u8], u32)> {
    let mut reader = Reader::new(lines, endian);
    let mut found: Option<(u64, &[u8], u32)> = None;
    let mut last: &[u8] = &[];
    for _ in 0..reader.u64()? {
        let (at, line, _discriminator) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let name = reader.take(memchr::memchr(0, reader.rest)?)?;
        reader.take(1)?;
        if name != SAME_NAME {
            let is_text = |text: &str| !text.is_empty() && !text.contains(char::is_control);
            std::str::from_utf8(name).ok().filter(|text| is_text(text))?;
            last = name;
        }
        if at <= address && found.is_none_or(|(before, ..)| before <= at) {
            found = Some((at, last, line));
        }
    }
    // Records may be padded.
    let is_whole = reader.rest.len() < size_of::<u64>();
    found.filter(|_| is_whole).map(|(_, name, line)| (name, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of a kind.
    fn record(kind: u32, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let size = (RECORD + body.len()) as u32;
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &[0; 8], &body].concat()
    }

    fn words(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn load(start: u64, size: u64, index: u64, name: &str) -> Vec<u8> {
        let code = vec![0x90; size as usize];
        record(LOAD, &[&words(&[0, start, start, size, index]), name.as_bytes(), &[0], &code])
    }

    fn header() -> Vec<u8> {
        [&MAGIC.to_le_bytes()[..], &1u32.to_le_bytes(), &40u32.to_le_bytes(), &[0; 28]].concat()
    }

    fn name(dump: &JitDump, address: u64) -> Option<(String, u64)> {
        dump.read().at(address).map(|found| (String::from_utf8_lossy(found.name).into_owned(), found.offset))
    }

    #[test]
    fn the_last_function_at_a_place_holds_and_functions_move() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jit-5.dump");
        let mut whole = [header(), load(0x1000, 32, 1, "old"), load(0x2000, 16, 2, "moved")].concat();
        std::fs::write(&path, b"").unwrap();
        let dump = JitDump::open(&path, "jit-5.dump", Abi::Amd64).unwrap();
        assert_eq!(name(&dump, 0x101f), None);
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(name(&dump, 0x101f), Some(("old".into(), 31)));
        whole.extend(load(0x1010, 16, 3, "new"));
        whole.extend(record(MOVE, &[&words(&[0, 0x2000, 0x2000, 0x3000, 16, 2])]));
        let whole_length = whole.len();
        whole.extend(&load(0x4000, 16, 4, "cut")[..40]);
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(name(&dump, 0x101f), Some(("new".into(), 15)));
        assert_eq!(name(&dump, 0x1000), None);
        assert_eq!(name(&dump, 0x3008), Some(("moved".into(), 8)));
        assert_eq!(name(&dump, 0x2000), None);
        assert_eq!(name(&dump, 0x4000), None);
        whole.truncate(whole_length);
        whole.extend(load(0x4000, 16, 4, "whole"));
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(name(&dump, 0x4000), Some(("whole".into(), 0)));
    }

    #[test]
    fn lines_and_names_of_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jit-5.dump");
        let line = |at: u64, line: u32, name: &[u8]| {
            [&words(&[at])[..], &line.to_le_bytes(), &[0; 4], name, &[0]].concat()
        };
        let file = |names: &[&[u8]; 3]| {
            let lines =
                [line(0x1000, 7, names[0]), line(0x1008, 9, names[1]), line(0x1010, 3, names[2])].concat();
            [header(), record(LINES, &[&words(&[0x1000, 3]), &lines]), load(0x1000, 32, 1, "f")].concat()
        };
        std::fs::write(&path, file(&[b"a.js", SAME_NAME, b"b.js"])).unwrap();
        let dump = JitDump::open(&path, "jit-5.dump", Abi::Amd64).unwrap();
        let line = |address| dump.read().at(address).unwrap().line.map(|(file, line)| (file.to_vec(), line));
        assert_eq!(line(0x100f), Some((b"a.js".to_vec(), 9)));
        assert_eq!(line(0x1010), Some((b"b.js".to_vec(), 3)));
        // A name that is no text makes the others doubtful, too.
        std::fs::write(&path, file(&[b"a.js", SAME_NAME, b"\xcb9\0\x11b.js"])).unwrap();
        let dump = JitDump::open(&path, "jit-5.dump", Abi::Amd64).unwrap();
        assert!(dump.read().at(0x1000).unwrap().line.is_none());
    }

    #[test]
    fn only_files_of_that_name_and_form_are_taken() {
        assert!(is_name(b"/tmp/x/jit-12.dump") && is_name(b"jit-1.dump"));
        assert!(!is_name(b"/tmp/jit-.dump") && !is_name(b"/tmp/ajit-1.dump") && !is_name(b"/jit-1.dump/a"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jit-5.dump");
        // The program has not written anything yet, and then writes something else.
        for text in [&b""[..], b"nothing at all"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(name(&JitDump::open(&path, "", Abi::Amd64).unwrap(), 0x1000), None);
        }
        assert!(JitDump::open(folder.path(), "", Abi::Amd64).is_none());
        // Nothing in a damaged file makes it panic.
        let whole =
            [header(), load(0x1000, 32, 1, "f"), record(FRAMES, &[&words(&[96, 20, 96]), &[0; 96]])].concat();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            std::fs::write(&path, damaged).unwrap();
            if let Some(dump) = JitDump::open(&path, "", Abi::Amd64) {
                let mut registers = Registers::new(0, 0, None);
                let _ = name(&dump, 0x1000);
                let _ = dump.step_at(0x1000, true, &mut registers, &mut |_| Err(()));
            }
        }
    }
}
