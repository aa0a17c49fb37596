//! The file that `perf record --call-graph` writes: for perf report, hotspot, and whatever else reads it.
//!
//! Such a file has addresses and no names, because its readers look into the files of the program
//! themselves. So this writer gives each process the mappings that its frames need: a record for the segment
//! around a frame, just before the first sample with that frame. Samples have whole call chains, so a reader
//! without unwinder shows the stacks that were found here. What only this crate knows gets lost: names of
//! code that a process made while it ran (perf reads `/tmp/perf-PID.map` for them), and why stacks ended.
//!
//! perf's `perf.data-file-format.txt` and `include/uapi/linux/perf_event.h` describe the format. Everything
//! is little-endian; readers take either byte order.

use crate::event::{format, kind};
use crate::files::FileId;
use crate::image::Segment;
use crate::name::NOT_SAMPLED;
use crate::named::Named;
use crate::process::Place;
use crate::profile::{FrameKey, Row, Thread};
use crate::recording::feature;
use hashbrown::{HashMap, HashSet};
use std::io;

/// The fields of a sample, apart from the call chain in this order: identifier, instruction, process and
/// thread, time, processor, period.
const FIELDS: u64 = format::IDENTIFIER
    | format::IP
    | format::TID
    | format::TIME
    | format::CPU
    | format::PERIOD
    | format::CALLCHAIN;
/// Bits of an event's attribute: records for mappings and for names of processes; every record ends with
/// process, time, processor and identifier.
const FLAGS: u64 = 1 << 8 | 1 << 9 | 1 << 18 | 1 << 23 | 1 << 24;
/// Size of an attribute in its first version.
const ATTRIBUTE: u32 = 64;
const HEADER: u64 = 104;
/// The size of a record has two bytes. So many addresses fit in a sample beside its other fields.
const MOST_ADDRESSES: usize = (u16::MAX as usize - 64) / 8;

const KERNEL: u16 = 1;
const USER: u16 = 2;
const EXECUTED: u16 = 1 << 13;
const HAS_BUILD_ID: u16 = 1 << 14;
/// What stands in a chain before addresses of the kernel, and of the process (`PERF_CONTEXT_KERNEL` and
/// `PERF_CONTEXT_USER`).
const IN_KERNEL: u64 = 128u64.wrapping_neg();
const IN_PROCESS: u64 = 512u64.wrapping_neg();

const PAGE: u64 = 0x1000;
const READ_AND_EXECUTE: u32 = 5;
const PRIVATE: u32 = 2;
/// The distance of files whose addresses in memory are not known.
const FILE_DISTANCE: u64 = 1 << 36;

/// Writes all samples.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut data = Data { named, records: Vec::new(), processes: HashMap::new(), threads: HashMap::new() };
    let mut order: Vec<&Row> = named.profile.rows.iter().collect();
    order.sort_by_key(|row| row.time);
    order.into_iter().for_each(|row| data.add(row));
    let events: Vec<&str> =
        (0..named.profile.events.len().max(1)).map(|number| named.profile.event(number as u32)).collect();
    to.write_all(&head(&events, data.records.len() as u64))?;
    to.write_all(&data.records)?;
    let machine = data.named.modules.machine().unwrap_or(std::env::consts::ARCH);
    to.write_all(&features(&events, machine, HEADER + described(&events) + data.records.len() as u64))
}

/// The records so far.
struct Data<'a> {
    named: Named<'a>,
    records: Vec<u8>,
    processes: HashMap<u32, Process<'a>>,
    /// The name of each thread.
    threads: HashMap<u32, &'a str>,
}

/// What readers know of a process.
struct Process<'a> {
    name: &'a str,
    /// Stacks whose frames all have mappings.
    stacks: HashSet<u32>,
    /// Starts of mappings.
    mapped: HashSet<u64>,
}

impl<'a> Data<'a> {
    fn add(&mut self, row: &Row) {
        let Some(thread) = self.named.profile.threads.get(row.thread as usize) else { return };
        let at = Moment { pid: thread.pid, tid: thread.tid, row: *row };
        self.name(thread, &at);
        self.map_stack(&at);
        self.sample(&at);
    }

    /// Adds records for the names of a sample's process and thread if they are new.
    fn name(&mut self, thread: &'a Thread, at: &Moment) {
        let known = self.processes.get(&thread.pid);
        if known.is_none_or(|known| known.name != thread.process) {
            let misc = if known.is_some() { EXECUTED } else { 0 };
            let process = Process { name: &thread.process, stacks: HashSet::new(), mapped: HashSet::new() };
            self.processes.insert(thread.pid, process);
            self.threads.insert(thread.pid, &thread.process);
            self.names(misc, thread.pid, &thread.process, at);
        }
        if self.threads.insert(thread.tid, &thread.name) != Some(&thread.name) {
            self.names(0, thread.tid, &thread.name, at);
        }
    }

    fn names(&mut self, misc: u16, tid: u32, name: &str, at: &Moment) {
        let mut body = halves(&[at.pid, tid]);
        body.extend(text(name));
        body.extend(at.trailer());
        record(&mut self.records, kind::COMM, misc, &body);
    }

    /// Adds the mappings that the frames of a sample need.
    fn map_stack(&mut self, at: &Moment) {
        let profile = self.named.profile;
        let mut stack = at.row.stack;
        while let Some(node) = profile.stacks.get(stack as usize) {
            let Some(process) = self.processes.get_mut(&at.pid) else { return };
            if !process.stacks.insert(stack) {
                return;
            }
            if let Some(mapping) =
                profile.frames.get(node.frame as usize).and_then(|frame| self.named.mapping(frame))
                && process.mapped.insert(mapping.start)
            {
                record(&mut self.records, kind::MMAP2, mapping.misc(), &mapping.body(at));
            }
            stack = node.caller;
        }
    }

    fn sample(&mut self, at: &Moment) {
        let profile = self.named.profile;
        let frames = profile.frames_of(at.row.stack);
        let frames = frames.filter_map(|frame| profile.frames.get(frame as usize));
        let (mut chain, mut context, mut first) = (Vec::new(), None, None);
        for frame in frames {
            let here = if matches!(frame.place, Place::Kernel(_)) { KERNEL } else { USER };
            if context.replace(here) != Some(here) {
                chain.push(if here == KERNEL { IN_KERNEL } else { IN_PROCESS });
            }
            first.get_or_insert((here, address(frame)));
            chain.push(address(frame));
        }
        chain.truncate(MOST_ADDRESSES);
        let (misc, ip) = first.unwrap_or((USER, 0));
        let row = &at.row;
        let mut body = words(&[at.identifier(), ip]);
        body.extend(halves(&[at.pid, at.tid]));
        body.extend(words(&[at.time(), at.processor(), row.period, chain.len() as u64]));
        body.extend(words(&chain));
        record(&mut self.records, kind::SAMPLE, misc, &body);
    }
}

/// When and where something happened.
struct Moment {
    pid: u32,
    tid: u32,
    row: Row,
}

impl Moment {
    fn time(&self) -> u64 {
        self.row.time.unwrap_or(0)
    }

    fn processor(&self) -> u64 {
        self.row.cpu.unwrap_or(0).into()
    }

    /// The identifier of the event.
    fn identifier(&self) -> u64 {
        u64::from(self.row.event) + 1
    }

    /// The fields at the end of records that are no samples.
    fn trailer(&self) -> Vec<u8> {
        let mut bytes = halves(&[self.pid, self.tid]);
        bytes.extend(words(&[self.time(), self.processor(), self.identifier()]));
        bytes
    }
}

/// A mapping in a process.
struct Mapping<'a> {
    start: u64,
    length: u64,
    offset: u64,
    path: &'a str,
    build_id: Vec<u8>,
}

impl Mapping<'_> {
    fn misc(&self) -> u16 {
        if self.build_id.is_empty() { USER } else { USER | HAS_BUILD_ID }
    }

    fn body(&self, at: &Moment) -> Vec<u8> {
        // The build-id, or numbers of device and inode, which are not known.
        let mut identity = [0; 24];
        identity[0] = self.build_id.len() as u8;
        identity[4..4 + self.build_id.len()].copy_from_slice(&self.build_id);
        let mut body = halves(&[at.pid, at.pid]);
        body.extend(words(&[self.start, self.length, self.offset]));
        body.extend(identity);
        body.extend(halves(&[READ_AND_EXECUTE, PRIVATE]));
        body.extend(text(self.path));
        body.extend(at.trailer());
        body
    }
}

impl<'a> Named<'a> {
    /// The mapping around a frame. `None`: nothing is mapped there, or it is the kernel.
    fn mapping(&self, frame: &FrameKey) -> Option<Mapping<'a>> {
        let start = address(frame) & !(PAGE - 1);
        match frame.place {
            Place::File(file, inside) => {
                let module = self.modules.get(file)?;
                let bias = bias(frame, file, inside);
                let segment = module.code.iter().find(|segment| segment.contains(inside));
                let whole = segment.copied().unwrap_or(Segment {
                    address: inside & !(PAGE - 1),
                    offset: inside & !(PAGE - 1),
                    size: PAGE,
                });
                let before = whole.address % PAGE;
                Some(Mapping {
                    start: bias.wrapping_add(whole.address - before),
                    length: whole.size.saturating_add(before).next_multiple_of(PAGE),
                    offset: whole.offset.saturating_sub(before),
                    path: &module.path,
                    build_id: module.build_id.as_deref().and_then(binary).unwrap_or_default(),
                })
            }
            Place::Anonymous(..) => {
                Some(Mapping { start, length: PAGE, offset: start, path: "//anon", build_id: Vec::new() })
            }
            Place::NotSampled => {
                Some(Mapping { start: 0, length: PAGE, offset: 0, path: NOT_SAMPLED, build_id: Vec::new() })
            }
            Place::Unmapped(_) | Place::Kernel(_) => None,
        }
    }
}

/// Where a frame was found in memory. Callers are there at their return addresses, as in the kernel's chains.
fn address(frame: &FrameKey) -> u64 {
    let returns = u64::from(frame.returns);
    match frame.place {
        _ if frame.address != 0 => frame.address,
        Place::File(file, inside) => bias(frame, file, inside).wrapping_add(inside).wrapping_add(returns),
        Place::Anonymous(_, address) | Place::Unmapped(address) | Place::Kernel(address) => {
            address.wrapping_add(returns)
        }
        Place::NotSampled => 0,
    }
}

/// The difference from a file's own addresses to those in memory. If the profile does not have it, each file
/// gets a place of its own.
fn bias(frame: &FrameKey, file: FileId, inside: u64) -> u64 {
    match frame.address {
        0 => (u64::from(file.0) + 1).wrapping_mul(FILE_DISTANCE),
        address => address.wrapping_sub(frame.returns.into()).wrapping_sub(inside),
    }
}

/// A build-id of hexadecimal digits, if it has one of the lengths that a record can hold.
fn binary(digits: &str) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    bytes.filter(|bytes| bytes.len() <= 20)
}

/// The header, the identifiers of events, and their attributes.
fn head(events: &[&str], size: u64) -> Vec<u8> {
    let count = events.len() as u64;
    let (entry, identifiers) = (u64::from(ATTRIBUTE) + 16, HEADER);
    let attributes = identifiers + 8 * count;
    let data = HEADER + described(events);
    let mut bytes = b"PERFILE2".to_vec();
    bytes.extend(words(&[HEADER, entry, attributes, entry * count, data, size, 0, 0]));
    bytes.extend(words(&[1 << feature::ARCH | 1 << feature::EVENT_DESC, 0, 0, 0]));
    bytes.extend((1..=count).flat_map(u64::to_le_bytes));
    for (event, place) in events.iter().zip((identifiers..).step_by(8)) {
        bytes.extend(attribute(event));
        bytes.extend(words(&[place, 8]));
    }
    bytes
}

/// Size of the identifiers and attributes of events.
fn described(events: &[&str]) -> u64 {
    (8 + u64::from(ATTRIBUTE) + 16) * events.len() as u64
}

/// `perf_event_attr` in its first version. The names of all events stand in a feature, so those that are not
/// software clocks may be called dummies here.
fn attribute(event: &str) -> Vec<u8> {
    const SOFTWARE: u32 = 1;
    let config = match event {
        "cpu-clock" => 0,
        "task-clock" => 1,
        _ => 9,
    };
    let mut bytes = halves(&[SOFTWARE, ATTRIBUTE]);
    bytes.extend(words(&[config, 1, FIELDS, 0, FLAGS, 0, 0]));
    bytes
}

/// The places of features, and the features: the machine, and the events with their names. They begin at
/// `start` in the file.
fn features(events: &[&str], machine: &str, start: u64) -> Vec<u8> {
    let long = |text: &str| {
        let size = (text.len() + 1).next_multiple_of(64);
        let mut bytes = (size as u32).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(4 + size, 0);
        bytes
    };
    let machine = long(machine);
    let mut descriptions = halves(&[events.len() as u32, ATTRIBUTE]);
    for (event, identifier) in events.iter().zip(1u64..) {
        descriptions.extend(attribute(event));
        descriptions.extend(halves(&[1]));
        descriptions.extend(long(event));
        descriptions.extend(words(&[identifier]));
    }
    let first = start + 2 * 16;
    let second = first + machine.len() as u64;
    let mut bytes = words(&[first, machine.len() as u64, second, descriptions.len() as u64]);
    bytes.extend(machine);
    bytes.extend(descriptions);
    bytes
}

/// Adds a record. One that is too long for its size field is left out, as it can only be a path's.
fn record(records: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8]) {
    let Ok(size) = u16::try_from(body.len() + 8) else { return };
    records.extend(kind.to_le_bytes());
    records.extend(misc.to_le_bytes());
    records.extend(size.to_le_bytes());
    records.extend(body);
}

/// A name with zeros behind it, up to a multiple of eight bytes.
fn text(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((name.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn halves(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
