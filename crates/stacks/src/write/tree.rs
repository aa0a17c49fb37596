//! The samples of one or two profiles as one tree by the names of their functions, for the page and for
//! pictures.

use super::numbers::Numbers;
use crate::functions::same_file;
use crate::named::Named;
use crate::process::Place;
use crate::profile::{NONE, Row};
use crate::renamed::Renamed;
use crate::statistics::End;
use hashbrown::HashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of slots that the time of a recording has.
const SLOTS: u64 = 1000;

/// An event.
#[derive(Serialize, PartialEq, Eq, Hash, Clone, Copy)]
pub struct Event<'a> {
    pub name: &'a str,
    /// Whether its weights are nanoseconds.
    pub timed: bool,
}

#[derive(Serialize, PartialEq, Eq, Hash, Clone, Copy)]
pub struct Thread<'a> {
    pub process: &'a str,
    pub pid: u32,
    pub tid: u32,
    pub name: &'a str,
}

/// Functions in the tree. The kind is 0 for user code, 1 for the kernel, 2 for inlined functions, 3 for
/// threads, and 4 for the missing part of a stack that does not reach its root.
#[derive(Default, Serialize)]
pub struct Nodes {
    pub parent: Vec<i64>,
    pub name: Vec<u32>,
    pub file: Vec<u32>,
    pub kind: Vec<u8>,
}

#[derive(Default, Serialize)]
pub struct Rows {
    pub side: Vec<u8>,
    pub thread: Vec<u32>,
    pub event: Vec<u32>,
    pub node: Vec<u32>,
    pub line: Vec<u32>,
    pub slot: Vec<u32>,
    pub samples: Vec<u64>,
    pub rooted: Vec<u64>,
    pub weight: Vec<u64>,
}

pub const KERNEL: u8 = 1;
pub const INLINED: u8 = 2;
pub const THREAD: u8 = 3;
pub const CUT: u8 = 4;

/// The tree and the samples of all sides.
#[derive(Default)]
pub struct Tree<'a> {
    pub nodes: Nodes,
    /// Numbers of nodes by parent, name, file and kind.
    numbers: HashMap<(i64, u32, u32, u8), u32>,
    pub names: Numbers<&'a str>,
    pub files: Numbers<&'a str>,
    pub lines: Numbers<String>,
    pub events: Numbers<Event<'a>>,
    pub threads: Numbers<Thread<'a>>,
    pub rows: Rows,
    pub length: u64,
    /// If it has samples of two profiles, whose functions are compared: which files are which.
    pub renamed: Option<Renamed<'a>>,
}

/// What the samples of a row share.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    thread: u32,
    event: u32,
    node: u32,
    line: u32,
    slot: u32,
}

impl<'a> Tree<'a> {
    /// Adds the samples of a profile.
    pub fn add(&mut self, side: u8, named: Named<'a>) {
        let profile = named.profile;
        self.names.number("all");
        self.files.number("");
        self.lines.number(String::new());
        let root = self.enter(-1, ("all", "", THREAD));
        let times = profile.rows.iter().filter_map(|row| row.time);
        let (first, end) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
        let length = end - first;
        self.length = self.length.max(length);
        let slot =
            |time: u64| (u128::from(time - first) * u128::from(SLOTS - 1) / u128::from(length.max(1))) as u32;
        // Nodes of stacks below each thread.
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        let mut sums: BTreeMap<Key, [u64; 3]> = BTreeMap::new();
        for row in &profile.rows {
            let Some(thread) = profile.threads.get(row.thread as usize) else { continue };
            let name = self.renamed.as_ref().map_or(&*thread.name, |renamed| renamed.thread(&thread.name));
            let of_thread = Thread { process: &thread.process, pid: thread.pid, tid: thread.tid, name };
            let name = if name.is_empty() { "[unnamed]" } else { name };
            let mut base = self.enter(root.into(), (name, "", THREAD));
            if !matches!(row.end, End::Root | End::Recorded | End::NotSampled) {
                base = self.enter(base.into(), ("[stack cut off]", "", CUT));
            }
            let node = self.stack(named, base, row.stack, &mut known);
            let event = event(named, row);
            let key = Key {
                thread: self.threads.number(of_thread),
                event: self.events.number(event),
                node,
                line: self.line(named, row),
                slot: row.time.map_or(0, slot),
            };
            let sum = sums.entry(key).or_default();
            sum[0] += u64::from(row.end != End::NotSampled);
            sum[1] += u64::from(row.end.is_rooted());
            sum[2] = sum[2].saturating_add(row.period);
        }
        for (key, [samples, rooted, weight]) in sums {
            let rows = &mut self.rows;
            rows.side.push(side);
            rows.thread.push(key.thread);
            rows.event.push(key.event);
            rows.node.push(key.node);
            rows.line.push(key.line);
            rows.slot.push(key.slot);
            rows.samples.push(samples);
            rows.rooted.push(rooted);
            rows.weight.push(weight);
        }
    }

    /// The node of a stack below `base`. It does not recurse, because stacks are thousands deep.
    fn stack(
        &mut self,
        named: Named<'a>,
        base: u32,
        stack: u32,
        known: &mut HashMap<(u32, u32), u32>,
    ) -> u32 {
        let (mut at, mut left) = (stack, Vec::new());
        let mut node = loop {
            if at == NONE {
                break base;
            }
            if let Some(&node) = known.get(&(base, at)) {
                break node;
            }
            let Some(step) = named.profile.stacks.get(at as usize) else { break base };
            left.push((at, step.frame));
            at = step.caller;
        };
        for (stack, frame) in left.into_iter().rev() {
            let key = named.profile.frames.get(frame as usize);
            let kernel = key.is_some_and(|key| matches!(key.place, Place::Kernel(_)));
            for name in named.names.of(frame).iter().rev() {
                let kind = if name.inlined { INLINED } else { u8::from(kernel) * KERNEL };
                // Another run, and another build, have their files elsewhere.
                let file = match &self.renamed {
                    Some(renamed) => renamed.file(same_file(&name.file)),
                    None => &name.file,
                };
                node = self.enter(node.into(), (&name.function, file, kind));
            }
            known.insert((base, stack), node);
        }
        node
    }

    /// The source line that runs.
    fn line(&mut self, named: Named<'a>, row: &Row) -> u32 {
        let frame = named.profile.frames_of(row.stack).next();
        let name = frame.and_then(|frame| named.names.of(frame).first());
        match name.and_then(|name| name.place.as_ref()) {
            Some((file, line)) => self.lines.number(format!("{file}:{line}")),
            None => 0,
        }
    }

    fn enter(&mut self, parent: i64, (name, file, kind): (&'a str, &'a str, u8)) -> u32 {
        let (name, file) = (self.names.number(name), self.files.number(file));
        let next = self.nodes.parent.len() as u32;
        let number = *self.numbers.entry((parent, name, file, kind)).or_insert(next);
        if number == next {
            self.nodes.parent.push(parent);
            self.nodes.name.push(name);
            self.nodes.file.push(file);
            self.nodes.kind.push(kind);
        }
        number
    }
}

fn event<'a>(named: Named<'a>, row: &Row) -> Event<'a> {
    let name = named.profile.event(row.event);
    Event { name, timed: matches!(name, "cpu-clock" | "task-clock" | "off-cpu") }
}
