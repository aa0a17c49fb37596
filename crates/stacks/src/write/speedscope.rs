//! The file format of speedscope: a list of frames, and for each thread its samples with their weights.
//!
//! Samples of a thread stand in the order of time. Nanoseconds are weights of samples whose events count
//! them; of other events, each sample weighs one.

use crate::named::Named;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    name: &'a str,
    exporter: &'a str,
    active_profile_index: usize,
    shared: Shared<'a>,
    profiles: Vec<Profile<'a>>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    name: String,
    unit: &'a str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Writes all samples: a profile for each thread and event.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut frames = Frames::default();
    let mut order: Vec<_> = named.profile.rows.iter().collect();
    order.sort_by_key(|row| row.time);
    let mut profiles: BTreeMap<(u32, u32), Profile<'_>> = BTreeMap::new();
    for row in order {
        let Some(thread) = named.profile.threads.get(row.thread as usize) else { continue };
        let event = named.profile.event(row.event);
        let timed = matches!(event, "cpu-clock" | "task-clock" | "off-cpu");
        let profile = profiles.entry((row.thread, row.event)).or_insert_with(|| Profile {
            kind: "sampled",
            name: format!("{} {}/{}: {event}", thread.name, thread.pid, thread.tid),
            unit: if timed { "nanoseconds" } else { "none" },
            start_value: 0,
            end_value: 0,
            samples: Vec::new(),
            weights: Vec::new(),
        });
        let weight = if timed { row.period } else { 1 };
        profile.end_value = profile.end_value.saturating_add(weight);
        profile.weights.push(weight);
        let numbers: Vec<u32> = named.profile.frames_of(row.stack).collect();
        let names = numbers.iter().rev().flat_map(|&frame| named.names.of(frame).iter().rev());
        let stack = names.map(|name| {
            let place = name.place.as_ref();
            let file = place.map_or(&*name.file, |(file, _)| file);
            frames.number(Frame { name: &name.function, file: Some(file), line: place.map(|place| place.1) })
        });
        profile.samples.push(stack.collect());
    }
    let file = File {
        schema: SCHEMA,
        name: named.title,
        exporter: concat!("sframe ", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        shared: Shared { frames: frames.all },
        profiles: profiles.into_values().collect(),
    };
    serde_json::to_writer(&mut *to, &file)?;
    to.write_all(b"\n")
}

#[derive(Default)]
struct Frames<'a> {
    all: Vec<Frame<'a>>,
    numbers: BTreeMap<Frame<'a>, usize>,
}

impl<'a> Frames<'a> {
    fn number(&mut self, frame: Frame<'a>) -> usize {
        if let Some(&number) = self.numbers.get(&frame) {
            return number;
        }
        let number = self.all.len();
        self.numbers.insert(frame.clone(), number);
        self.all.push(frame);
        number
    }
}
