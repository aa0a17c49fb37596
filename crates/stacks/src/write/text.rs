//! Stacks as `perf script` prints them: a line for the sample, one for each frame, an empty one. Where a stack does not
//! reach its root, a last line says why.

use super::named::Named;
use crate::profile::Name;
use std::io;

/// Writes all samples.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let profile = named.profile;
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
            let Some(key) = profile.frames.get(frame as usize) else { continue };
            for name in named.names.of(frame) {
                write_frame(key.address, name, to)?;
            }
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
