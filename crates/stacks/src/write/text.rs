//! Stacks as `perf script` prints them: a line for the sample, one for each frame, and an empty one. If a
//! stack does not reach its root, another line at the end says why.

use crate::digits::{decimal, hexadecimal};
use crate::named::Named;
use crate::profile::{Name, Row, Thread};
use crate::statistics::End;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Most lines have fewer bytes. Those of Rust and C++ are long.
const LONG_LINE: usize = 256;
/// Bytes to write at a time. So many stay in a processor's cache.
const AT_A_TIME: usize = 1 << 18;

/// Lines that many samples share.
struct Lines<'a> {
    named: Named<'a>,
    /// The lines of all frames so far. Room that stays empty costs nothing, and moving to a larger one would.
    bytes: Vec<u8>,
    /// For each frame, where its lines are. Empty: nobody has asked for them.
    frames: Vec<Range<usize>>,
    /// For each name, where what follows the address of a frame is in the lines of the first one.
    names: Vec<Range<usize>>,
    /// Why stacks ended, by end.
    ends: BTreeMap<End, Vec<u8>>,
}

impl<'a> Lines<'a> {
    fn new(named: Named<'a>) -> Self {
        let (frames, names) = (named.profile.frames.len(), named.names.all().len());
        Self {
            named,
            bytes: Vec::with_capacity(frames.max(names) * LONG_LINE),
            frames: vec![0..0; frames],
            names: vec![0..0; names],
            ends: BTreeMap::new(),
        }
    }

    /// The lines of a frame.
    fn of(&mut self, frame: u32) -> &[u8] {
        let number = frame as usize;
        if self.frames.get(number).is_some_and(Range::is_empty) {
            self.frames[number] = self.add(frame);
        }
        self.frames.get(number).map_or(&[], |place| &self.bytes[place.clone()])
    }

    /// Adds the lines of a frame.
    #[cold]
    fn add(&mut self, frame: u32) -> Range<usize> {
        let Self { named: Named { profile, names, .. }, bytes, names: known, .. } = self;
        let (start, address) = (bytes.len(), profile.frames.get(frame as usize).map_or(0, |key| key.address));
        for number in names.place_of(frame) {
            bytes.push(b'\t');
            hexadecimal(address, 16, bytes);
            let (place, rest) = (&mut known[number], bytes.len());
            if place.start == place.end {
                add_rest(&names.all()[number], bytes);
                *place = rest..bytes.len();
            } else {
                bytes.extend_from_within(place.clone());
            }
        }
        start..bytes.len()
    }

    /// The line that says why a sample's stack ended.
    fn end(&mut self, row: &Row) -> &[u8] {
        self.ends.entry(row.end).or_insert_with(|| {
            let mut line = b"\t# stopped: ".to_vec();
            add_name(&self.named.end(row), &mut line);
            line.push(b'\n');
            line
        })
    }
}

/// Writes all samples.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let profile = named.profile;
    let mut lines = Lines::new(named);
    let mut text = Vec::with_capacity(AT_A_TIME + AT_A_TIME / 4);
    for row in &profile.rows {
        let Some(thread) = profile.threads.get(row.thread as usize) else { continue };
        add_head(row, thread, profile.event(row.event), &mut text);
        for frame in profile.frames_of(row.stack) {
            text.extend_from_slice(lines.of(frame));
        }
        if !row.end.is_rooted() {
            text.extend_from_slice(lines.end(row));
        }
        text.push(b'\n');
        if text.len() >= AT_A_TIME {
            to.write_all(&text)?;
            text.clear();
        }
    }
    to.write_all(&text)
}

/// Adds a name. Control characters, which a terminal would obey and which would look like lines, become
/// spaces.
fn add_name(name: &str, to: &mut Vec<u8>) {
    // The two-byte control characters begin with 0xc2. Looking at all bytes, processors do many at once.
    let is_plain = |byte: u8| byte >= b' ' && byte != 0x7f && byte != 0xc2;
    if name.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
        return to.extend_from_slice(name.as_bytes());
    }
    for letter in name.chars() {
        let shown = if letter.is_control() { ' ' } else { letter };
        to.extend_from_slice(shown.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

fn add_head(row: &Row, thread: &Thread, event: &str, to: &mut Vec<u8>) {
    // A line that begins with a blank is a frame, and an event without a name is none.
    add_name(shown(&thread.name, ":-1"), to);
    to.push(b' ');
    decimal(thread.pid.into(), 0, to);
    to.push(b'/');
    decimal(thread.tid.into(), 0, to);
    if let Some(cpu) = row.cpu {
        to.extend_from_slice(b" [");
        decimal(cpu.into(), 3, to);
        to.push(b']');
    }
    if let Some(time) = row.time {
        to.push(b' ');
        decimal(time / 1_000_000_000, 0, to);
        to.push(b'.');
        decimal(time / 1000 % 1_000_000, 6, to);
        to.push(b':');
    }
    to.push(b' ');
    decimal(row.period, 0, to);
    to.push(b' ');
    add_name(shown(event, "samples"), to);
    to.extend_from_slice(b":\n");
}

/// A name without the blanks around it, or another one if nothing is left.
fn shown<'a>(name: &'a str, otherwise: &'a str) -> &'a str {
    let name = name.trim_matches(|letter: char| letter.is_control() || letter.is_whitespace());
    if name.is_empty() { otherwise } else { name }
}

/// Adds what follows the address of a frame.
fn add_rest(name: &Name, to: &mut Vec<u8>) {
    to.push(b' ');
    add_name(&name.function, to);
    if let Some(offset) = name.offset {
        to.extend_from_slice(b"+0x");
        hexadecimal(offset, 0, to);
    }
    to.extend_from_slice(b" (");
    add_name(if name.inlined { "inlined" } else { &name.file }, to);
    to.push(b')');
    if let Some((source, line)) = &name.place {
        to.push(b' ');
        add_name(source, to);
        to.push(b':');
        decimal((*line).into(), 0, to);
    }
    to.push(b'\n');
}
