//! An array with one JSON object for each sample. Addresses are texts, for readers without 64-bit integers.

use crate::named::Named;
use serde::Serialize;
use sframe_format::Source;
use std::io;

#[derive(Serialize)]
struct Sample<'a> {
    process: &'a str,
    thread: &'a str,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    event: &'a str,
    period: u64,
    rooted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    address: String,
    source: &'a str,
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inlined: bool,
}

/// Writes all samples.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let profile = named.profile;
    to.write_all(b"[")?;
    let mut separator: &[u8] = b"\n";
    for row in &profile.rows {
        let Some(thread) = profile.threads.get(row.thread as usize) else { continue };
        let frames = profile.frames_of(row.stack).flat_map(|frame| frames_of(named, frame)).collect();
        let sample = Sample {
            process: &thread.process,
            thread: &thread.name,
            pid: thread.pid,
            tid: thread.tid,
            cpu: row.cpu,
            time: row.time,
            event: profile.event(row.event),
            period: row.period,
            rooted: row.end.is_rooted(),
            stopped: (!row.end.is_rooted()).then(|| named.end(row)),
            frames,
        };
        to.write_all(separator)?;
        serde_json::to_writer(&mut *to, &sample)?;
        separator = b",\n";
    }
    to.write_all(b"\n]\n")
}

fn frames_of(named: Named<'_>, frame: u32) -> impl Iterator<Item = Frame<'_>> {
    let key = named.profile.frames.get(frame as usize);
    let address = key.map_or(0, |key| key.address);
    let source = key.and_then(|key| key.source).map_or("recorded", Source::name);
    named.names.of(frame).iter().map(move |name| Frame {
        address: format!("{address:#x}"),
        source,
        function: &name.function,
        offset: name.offset,
        file: &name.file,
        line: name.place.as_ref().map(|(file, line)| format!("{file}:{line}")),
        inlined: name.inlined,
    })
}
