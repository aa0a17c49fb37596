//! Stacks as `perf script` prints them: a line for the sample, one for each frame, an empty one. Where a stack does not
//! reach its root, a last line says why.

use super::named::Named;
use crate::profile::Name;
use std::io;
use std::ops::Range;

/// Bytes of a usual line.
const USUAL_LINE: usize = 128;

/// The lines of frames, which many samples have in common.
struct Lines {
    text: Vec<u8>,
    /// For each frame, where in the text they are; nothing yet if empty.
    places: Vec<Range<usize>>,
}

impl Lines {
    fn of(&mut self, frame: u32, named: &Named<'_>) -> io::Result<&[u8]> {
        let index = frame as usize;
        let Some(place) = self.places.get_mut(index) else { return Ok(&[]) };
        if place.start == place.end
            && let Some(key) = named.profile.frames.get(index)
        {
            place.start = self.text.len();
            for name in named.names.of(frame) {
                write_frame(key.address, name, &mut self.text)?;
            }
            place.end = self.text.len();
        }
        Ok(&self.text[place.clone()])
    }
}

/// Writes all samples.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let profile = named.profile;
    let count = profile.frames.len();
    let mut lines = Lines { text: Vec::with_capacity(count * USUAL_LINE), places: vec![0..0; count] };
    for row in &profile.rows {
        let Some(thread) = profile.threads.get(row.thread as usize) else { continue };
        let name = if thread.name.is_empty() { ":-1" } else { &thread.name };
        write!(to, "{name} {}/{}", thread.pid, thread.tid)?;
        if let Some(cpu) = row.cpu {
            write!(to, " [{cpu:03}]")?;
        }
        if let Some(time) = row.time {
            write!(to, " {}.{:06}:", time / 1_000_000_000, time / 1000 % 1_000_000)?;
        }
        writeln!(to, " {} {}:", row.period, profile.event(row.event))?;
        for frame in profile.frames_of(row.stack) {
            to.write_all(lines.of(frame, &named)?)?;
        }
        if !row.end.is_rooted() {
            writeln!(to, "\t# stopped: {}", named.end(row))?;
        }
        writeln!(to)?;
    }
    Ok(())
}

fn write_frame(address: u64, name: &Name, to: &mut dyn io::Write) -> io::Result<()> {
    write!(to, "\t{address:16x} {}", name.function)?;
    if let Some(offset) = name.offset {
        write!(to, "+{offset:#x}")?;
    }
    write!(to, " ({})", if name.inlined { "inlined" } else { &name.file })?;
    if let Some((source, line)) = &name.place {
        write!(to, " {source}:{line}")?;
    }
    writeln!(to)
}
