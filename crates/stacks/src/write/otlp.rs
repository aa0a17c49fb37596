//! The profiles of OpenTelemetry: the message `ProfilesData` of version 1.9 of its `profiles.proto`
//! (`opentelemetry.proto.profiles.v1development`).
//!
//! All texts, functions, mappings, locations, stacks and attributes are in the dictionary, whose tables begin
//! with a value of zeros. A thread's attributes are those of its samples. There is a profile for each event,
//! because a profile has values of one kind. The times of samples are those of the clock of the recording,
//! which counts from some other moment, so they are left out.

use super::numbers::Numbers;
use super::pprof::kind_and_unit;
use super::protobuf::Message;
use crate::modules::Module;
use crate::named::Named;
use crate::process::Place;
use std::collections::BTreeMap;
use std::io;

/// Fields of `ProfilesDictionary`.
mod dictionary {
    pub const MAPPING: u32 = 1;
    pub const LOCATION: u32 = 2;
    pub const FUNCTION: u32 = 3;
    pub const LINK: u32 = 4;
    pub const STRING: u32 = 5;
    pub const ATTRIBUTE: u32 = 6;
    pub const STACK: u32 = 7;
}

/// The attribute of a mapping with its build-id, and those of samples (OpenTelemetry, "Semantic
/// conventions").
const BUILD_ID: &str = "process.executable.build_id.gnu";
const NAMES: [&str; 4] = ["process.pid", "process.executable.name", "thread.id", "thread.name"];

/// A value of an attribute.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Value {
    Text(String),
    Number(u64),
}

#[derive(Default)]
struct Dictionary {
    texts: Numbers<String>,
    functions: Numbers<(u32, u32)>,
    attributes: Numbers<Option<(u32, Value)>>,
    mappings: Numbers<Option<Module>>,
    tables: Message,
}

/// Writes all samples.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut dictionary = Dictionary::default();
    dictionary.texts.number(String::new());
    dictionary.functions.number((0, 0));
    dictionary.attributes.number(None);
    dictionary.mappings.number(None);
    let mut profiles = Message::default();
    let events = named.profile.events.len().max(1) as u32;
    (0..events)
        .for_each(|event| profiles.nested(2, |profile| add_profile(named, event, &mut dictionary, profile)));
    dictionary.add_locations(named);
    dictionary.add_tables();
    let mut message = Message::default();
    message.nested(1, |resource| {
        resource.nested(2, |scope| {
            scope.nested(1, |scope| {
                scope.bytes(1, b"sframe");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            scope.0.extend_from_slice(&profiles.0);
        });
    });
    message.bytes(2, &dictionary.tables.0);
    to.write_all(&message.0)
}

/// Adds the samples of an event: those with the same stack and thread are one.
fn add_profile(named: Named<'_>, event: u32, dictionary: &mut Dictionary, profile: &mut Message) {
    let rows = named.profile.rows.iter().filter(|row| row.event == event);
    let [kind, unit] = kind_and_unit(named.profile.event(event)).map(|text| dictionary.text(text));
    let mut value_type = Message::default();
    value_type.number(1, kind.into());
    value_type.number(2, unit.into());
    let mut sums: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for row in rows.clone() {
        let sum = sums.entry((row.thread, row.stack)).or_default();
        *sum = sum.saturating_add(row.period);
    }
    profile.bytes(1, &value_type.0);
    for ((thread, stack), sum) in sums {
        let Some(thread) = named.profile.threads.get(thread as usize) else { continue };
        let values = [
            Value::Number(thread.pid.into()),
            Value::Text(thread.process.clone()),
            Value::Number(thread.tid.into()),
            Value::Text(thread.name.clone()),
        ];
        let attributes = NAMES.into_iter().zip(values).map(|(name, value)| dictionary.attribute(name, value));
        let attributes: Vec<u64> = attributes.collect();
        profile.nested(2, |sample| {
            // Stacks without frames are the one of zeros.
            sample.number(1, u64::from(stack.wrapping_add(1)));
            sample.packed(2, attributes);
            sample.packed(4, [sum]);
        });
    }
    let times = rows.clone().filter_map(|row| row.time);
    let length = times.clone().max().unwrap_or(0) - times.min().unwrap_or(0);
    profile.number(4, length);
    profile.bytes(5, &value_type.0);
    profile.number(6, rows.map(|row| row.period).next().unwrap_or(1));
}

impl Dictionary {
    fn text(&mut self, text: &str) -> u32 {
        self.texts.number(text.to_owned())
    }

    fn attribute(&mut self, name: &str, value: Value) -> u64 {
        let name = self.text(name);
        self.attributes.number(Some((name, value))).into()
    }

    /// Adds a location for each frame, and a stack for each stack. Their tables begin with a value of zeros.
    fn add_locations(&mut self, named: Named<'_>) {
        self.tables.nested(dictionary::LOCATION, |_| ());
        for (number, key) in (0..).zip(&named.profile.frames) {
            let (mapping, address) = match key.place {
                Place::File(id, address) => (named.modules.get(id).cloned(), address),
                Place::Kernel(address) => {
                    let path = "[kernel.kallsyms]".to_owned();
                    (Some(Module { path, end: u64::MAX, ..Module::default() }), address)
                }
                Place::Anonymous(_, address) | Place::Unmapped(address) => (None, address),
                Place::NotSampled => (None, 0),
            };
            let mapping = self.mappings.number(mapping);
            let mut lines = Message::default();
            for name in named.names.of(number) {
                let (source, line) =
                    name.place.as_ref().map_or(("", 0), |(file, line)| (file.as_str(), *line));
                let (function, source) = (self.text(&name.function), self.text(source));
                let function = self.functions.number((function, source));
                lines.nested(3, |inside| {
                    inside.number(1, function.into());
                    inside.number(2, line.into());
                });
            }
            self.tables.nested(dictionary::LOCATION, |location| {
                location.number(1, mapping.into());
                location.number(2, address);
                location.0.extend_from_slice(&lines.0);
            });
        }
        self.tables.nested(dictionary::STACK, |_| ());
        for stack in 0..named.profile.stacks.len() as u32 {
            let frames = named.profile.frames_of(stack).map(|frame| u64::from(frame) + 1);
            self.tables.nested(dictionary::STACK, |message| message.packed(1, frames));
        }
    }

    fn add_tables(&mut self) {
        for mapping in std::mem::take(&mut self.mappings).all {
            let mut message = Message::default();
            if let Some(Module { path, build_id, end, .. }) = mapping {
                message.number(2, end);
                message.number(4, self.text(&path).into());
                if let Some(id) = build_id {
                    message.packed(5, [self.attribute(BUILD_ID, Value::Text(id))]);
                }
            }
            self.tables.bytes(dictionary::MAPPING, &message.0);
        }
        for &(name, source) in &self.functions.all {
            self.tables.nested(dictionary::FUNCTION, |function| {
                function.number(1, name.into());
                function.number(2, name.into());
                function.number(3, source.into());
            });
        }
        self.tables.nested(dictionary::LINK, |_| ());
        for attribute in &self.attributes.all {
            self.tables.nested(dictionary::ATTRIBUTE, |message| {
                let Some((name, value)) = attribute else { return };
                message.number(1, u64::from(*name));
                // `AnyValue`: a text has the number 1, an integer the number 3.
                message.nested(2, |any| match value {
                    Value::Text(text) => any.bytes(1, text.as_bytes()),
                    Value::Number(number) => any.number(3, *number),
                });
            });
        }
        for text in &self.texts.all {
            self.tables.bytes(dictionary::STRING, text.as_bytes());
        }
    }
}
