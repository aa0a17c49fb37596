//! Stacks as `perf script` prints them: a line for the sample, one for each frame, and an empty one. If a
//! stack does not reach its root, another line at the end says why.

use crate::digits::{decimal, hexadecimal};
use crate::named::Named;
use crate::profile::{Name, Row, Thread};
use crate::statistics::End;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Bytes of a typical line.
const USUAL_LINE: usize = 128;
/// Bytes to write at a time. So many stay in a processor's cache.
const AT_A_TIME: usize = 1 << 18;

/// Lines that many samples share.
struct Lines<'a> {
    named: Named<'a>,
    /// For each frame, its lines.
    frames: Texts,
    /// For each name, what follows the address of a frame.
    names: Texts,
    /// Why stacks ended, by end.
    ends: BTreeMap<End, Vec<u8>>,
}

/// Texts by number, in one memory.
struct Texts {
    bytes: Vec<u8>,
    /// Where each of them is. Empty if it has not been written yet.
    places: Vec<Range<usize>>,
}

impl Texts {
    fn new(count: usize, usual_length: usize) -> Self {
        Self { bytes: Vec::with_capacity(count * usual_length), places: vec![0..0; count] }
    }

    /// The text with a number, which `write` appends if it has not been written yet.
    fn get(&mut self, number: usize, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let Some(place) = self.places.get_mut(number) else { return &[] };
        if place.start == place.end {
            place.start = self.bytes.len();
            write(&mut self.bytes);
            place.end = self.bytes.len();
        }
        &self.bytes[place.clone()]
    }
}

impl Lines<'_> {
    /// The lines of a frame.
    fn of(&mut self, frame: u32) -> &[u8] {
        let Self { named: Named { profile, names, .. }, frames, names: texts, .. } = self;
        frames.get(frame as usize, |to| {
            let address = profile.frames.get(frame as usize).map_or(0, |key| key.address);
            for number in names.place_of(frame) {
                to.push(b'\t');
                hexadecimal(address, 16, to);
                to.extend_from_slice(texts.get(number, |to| add_rest(&names.all()[number], to)));
            }
        })
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
    let frames = Texts::new(profile.frames.len(), USUAL_LINE);
    let names = Texts::new(named.names.all().len(), USUAL_LINE);
    let mut lines = Lines { named, frames, names, ends: BTreeMap::new() };
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
    // The two-byte control characters begin with 0xc2.
    if name.bytes().all(|byte| !byte.is_ascii_control() && byte != 0xc2) {
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
