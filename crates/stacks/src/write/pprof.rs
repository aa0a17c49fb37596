//! The format of `pprof`: the message `Profile` of its `profile.proto`, compressed by gzip.
//!
//! Samples with the same stack and thread are one, with a sum for each event.

use super::protobuf::Message;
use crate::named::Named;
use crate::process::Place;
use crate::profile::Profile;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io;
use std::io::Write as _;

/// Fields of `Profile`.
mod profile {
    pub const SAMPLE_TYPE: u32 = 1;
    pub const SAMPLE: u32 = 2;
    pub const MAPPING: u32 = 3;
    pub const LOCATION: u32 = 4;
    pub const FUNCTION: u32 = 5;
    pub const STRING_TABLE: u32 = 6;
    pub const PERIOD_TYPE: u32 = 11;
    pub const PERIOD: u32 = 12;
    pub const COMMENT: u32 = 13;
}

/// Writes all samples.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut message = Message::default();
    let mut texts = Texts::default();
    let profile = named.profile;
    let samples = ["samples", "count"].map(|text| texts.number(text));
    let events: Vec<[u64; 2]> = (0..count_of_events(profile))
        .map(|number| kind_and_unit(profile.event(number)).map(|text| texts.number(text)))
        .collect();
    for [kind, unit] in [samples].into_iter().chain(events.iter().copied()) {
        message.nested(profile::SAMPLE_TYPE, |value| {
            value.number(1, kind);
            value.number(2, unit);
        });
    }
    write_samples(named, &mut message, &mut texts);
    let mut functions = Functions::default();
    let mut mappings = Mappings::default();
    for (number, key) in (1..).zip(&profile.frames) {
        let mapping = mappings.number(named, key.place);
        let address = match key.place {
            Place::File(_, address) | Place::Anonymous(_, address) => address,
            Place::Unmapped(address) | Place::Kernel(address) => address,
            Place::NotSampled => 0,
        };
        message.nested(profile::LOCATION, |location| {
            location.number(1, number);
            location.number(2, mapping);
            location.number(3, address);
            for name in named.names.of(number as u32 - 1) {
                let (source, line) =
                    name.place.as_ref().map_or(("", 0), |(file, line)| (file.as_str(), *line));
                let function = functions.number(texts.number(&name.function), texts.number(source));
                location.nested(4, |inside| {
                    inside.number(1, function);
                    inside.number(2, line.into());
                });
            }
        });
    }
    mappings.write(&mut message, &mut texts);
    functions.write(&mut message);
    message.nested(profile::PERIOD_TYPE, |value| {
        let [kind, unit] = events.first().copied().unwrap_or(samples);
        value.number(1, kind);
        value.number(2, unit);
    });
    message.number(profile::PERIOD, profile.rows.first().map_or(1, |row| row.period));
    let title = texts.number(named.title);
    message.number(profile::COMMENT, title);
    for text in &texts.all {
        message.bytes(profile::STRING_TABLE, text.as_bytes());
    }
    let mut compressed = GzEncoder::new(to, Compression::default());
    compressed.write_all(&message.0)?;
    compressed.finish()?;
    Ok(())
}

/// The number of events. Samples of an event without a name are there, too.
fn count_of_events(profile: &Profile) -> u32 {
    profile.events.len().max(1) as u32
}

/// The names of what an event counts, and of its unit. Tools know processor time as `cpu`.
pub fn kind_and_unit(event: &str) -> [&str; 2] {
    match event {
        "cpu-clock" | "task-clock" => ["cpu", "nanoseconds"],
        "off-cpu" => [event, "nanoseconds"],
        _ => [event, "count"],
    }
}

/// Writes the samples. Those with the same stack and thread become one, with their number and a sum for each
/// event.
fn write_samples(named: Named<'_>, message: &mut Message, texts: &mut Texts) {
    let events = count_of_events(named.profile) as usize;
    let mut sums: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    for row in &named.profile.rows {
        let sum = sums.entry((row.thread, row.stack)).or_insert_with(|| vec![0; 1 + events]);
        sum[0] += 1;
        if let Some(sum) = sum.get_mut(1 + row.event as usize) {
            *sum = sum.saturating_add(row.period);
        }
    }
    let labels = ["process", "thread", "pid", "tid"].map(|label| texts.number(label));
    for ((thread, stack), sums) in sums {
        let Some(thread) = named.profile.threads.get(thread as usize) else { continue };
        let (process, name) = (texts.number(&thread.process), texts.number(&thread.name));
        message.nested(profile::SAMPLE, |sample| {
            for frame in named.profile.frames_of(stack) {
                sample.number(1, u64::from(frame) + 1);
            }
            sums.iter().for_each(|&sum| sample.number(2, sum));
            for (label, text) in [(labels[0], process), (labels[1], name)] {
                sample.nested(3, |inside| {
                    inside.number(1, label);
                    inside.number(2, text);
                });
            }
            for (label, number) in [(labels[2], thread.pid), (labels[3], thread.tid)] {
                sample.nested(3, |inside| {
                    inside.number(1, label);
                    inside.number(3, number.into());
                });
            }
        });
    }
}

/// The table of texts. Number 0 is the empty text.
struct Texts {
    all: Vec<String>,
    numbers: BTreeMap<String, u64>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { all: vec![String::new()], numbers: BTreeMap::from([(String::new(), 0)]) }
    }
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

/// Functions by the numbers of their name and source file.
#[derive(Default)]
struct Functions(BTreeMap<(u64, u64), u64>);

impl Functions {
    fn number(&mut self, name: u64, source: u64) -> u64 {
        let next = self.0.len() as u64 + 1;
        *self.0.entry((name, source)).or_insert(next)
    }

    fn write(&self, message: &mut Message) {
        for (&(name, source), &number) in &self.0 {
            message.nested(profile::FUNCTION, |function| {
                function.number(1, number);
                function.number(2, name);
                function.number(3, name);
                function.number(4, source);
            });
        }
    }
}

/// Files, as mappings at their own addresses.
#[derive(Default)]
struct Mappings(BTreeMap<String, (u64, Option<String>, u64)>);

impl Mappings {
    fn number(&mut self, named: Named<'_>, place: Place) -> u64 {
        let (path, build_id, end) = match place {
            Place::File(id, _) => match named.modules.get(id) {
                Some(module) => (module.path.clone(), module.build_id.clone(), module.end),
                None => return 0,
            },
            Place::Kernel(_) => ("[kernel.kallsyms]".into(), None, u64::MAX),
            Place::Anonymous(..) | Place::Unmapped(_) | Place::NotSampled => return 0,
        };
        let next = self.0.len() as u64 + 1;
        self.0.entry(path).or_insert((next, build_id, end)).0
    }

    fn write(&self, message: &mut Message, texts: &mut Texts) {
        for (path, (number, build_id, end)) in &self.0 {
            let (path, build_id) = (texts.number(path), texts.number(build_id.as_deref().unwrap_or("")));
            message.nested(profile::MAPPING, |mapping| {
                mapping.number(1, *number);
                mapping.number(3, *end);
                mapping.number(5, path);
                mapping.number(6, build_id);
                // The functions of this mapping's locations have names.
                mapping.number(7, 1);
            });
        }
    }
}
