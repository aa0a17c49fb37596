//! Many samples as one tree of stacks, with names for its frames.
//!
//! The profile stores each frame once. It stores a stack as its innermost frame and the stack of its caller,
//! so many samples share the room of their common callers. It looks up each address among symbols only once,
//! when all samples are in.

use crate::files::Files;
use crate::kernel::Kernel;
pub use crate::name::Name;
use crate::namer::Namer;
use crate::process::Place;
use crate::session::{Frame, Stack};
use crate::statistics::End;
use foldhash::fast::FixedState;
use hashbrown::hash_table::Entry;
use hashbrown::{HashMap, HashTable};
use sframe_format::Source;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

/// Stands for no stack: the caller of the outermost frame.
pub const NONE: u32 = u32::MAX;

/// A frame that samples share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKey {
    /// What is there.
    pub place: Place,
    /// The address where it was found, or 0 if addresses are not kept.
    pub address: u64,
    /// Whether it is a return address. The place is then that of the call.
    pub returns: bool,
    /// How it was found. `None`: it was recorded.
    pub source: Option<Source>,
}

impl Hash for FrameKey {
    /// How frames were found hardly tells them apart.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place.hash(state);
        state.write_u64(self.address);
    }
}

/// A stack: its innermost frame, and the stack of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Number of the caller's stack, or [`NONE`].
    pub caller: u32,
    /// Number of the frame.
    pub frame: u32,
}

/// A thread that was sampled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Thread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name of the process.
    pub process: String,
    /// Name of the thread.
    pub name: String,
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number of the thread.
    pub thread: u32,
    /// Number of the stack, or [`NONE`].
    pub stack: u32,
    /// Number of the event.
    pub event: u32,
    /// Processor.
    pub cpu: Option<u32>,
    /// The time, in nanoseconds.
    pub time: Option<u64>,
    /// How many events the sample stands for.
    pub period: u64,
    /// Where the walk ended.
    pub end: End,
}

/// Samples.
#[derive(Default)]
pub struct Profile {
    keep_addresses: bool,
    /// Frames by number.
    pub frames: Vec<FrameKey>,
    frame_numbers: HashTable<u32>,
    /// Stacks by number. A caller's number is smaller than those of its callees.
    pub stacks: Vec<Node>,
    /// For each stack, the callee that was seen first, or [`NONE`]. Most stacks have no other callee.
    first_callees: Vec<u32>,
    /// The other callees, and the outermost stacks.
    other_callees: HashTable<u32>,
    /// Threads by number.
    pub threads: Vec<Thread>,
    thread_numbers: HashMap<Thread, u32, FixedState>,
    /// The frames of the last sample, outermost first, each with its stack. The next sample shares many of
    /// them.
    last: Vec<(FrameKey, u32)>,
    /// Samples in the order of arrival.
    pub rows: Vec<Row>,
    /// Names of the events.
    pub events: Vec<String>,
    /// How complete the samples are, for readers of the profile.
    pub notes: Vec<String>,
    /// When the recording began, as people count time. `None`: nobody knows. The times of samples count from
    /// another moment, mostly the machine's start.
    pub begun: Option<SystemTime>,
}

impl Profile {
    /// A profile without samples. With `keep_addresses`, a place in a file that two processes have at
    /// different addresses becomes two frames.
    pub fn new(keep_addresses: bool) -> Self {
        Self { keep_addresses, ..Self::default() }
    }

    /// Sets when the recording began, if nobody knows, by when it ended.
    pub fn has_ended(&mut self, end: SystemTime) {
        let times = || self.rows.iter().filter_map(|row| row.time);
        let length = times().max().unwrap_or(0) - times().min().unwrap_or(0);
        self.begun = self.begun.or_else(|| end.checked_sub(Duration::from_nanos(length)));
    }

    /// Sorts the samples by their time, if all have one: those of threads that wait, and time that was not
    /// sampled, arrive later than others.
    pub(crate) fn sort(&mut self) {
        if self.rows.iter().all(|row| row.time.is_some()) {
            self.rows.sort_by_key(|row| row.time);
        }
    }

    /// Whether addresses are kept.
    pub fn keeps_addresses(&self) -> bool {
        self.keep_addresses
    }

    /// A profile of its parts. Callers must have smaller numbers than their callees.
    pub(crate) fn of_parts(
        (frames, stacks): (Vec<FrameKey>, Vec<Node>),
        threads: Vec<Thread>,
        rows: Vec<Row>,
    ) -> Self {
        Self { keep_addresses: true, frames, stacks, threads, rows, ..Self::default() }
    }

    /// Adds a sample.
    pub fn add(&mut self, stack: &Stack<'_>) {
        let kept = self.keep_addresses;
        let keys = stack.frames.iter().rev().map(|&Frame { address, place, returns, source }| {
            let address = if kept { address } else { 0 };
            FrameKey { place, address, returns, source }
        });
        let same = self.last.iter().zip(keys.clone()).take_while(|((last, _), key)| last == key).count();
        self.last.truncate(same);
        let mut at = self.last.last().map_or(NONE, |&(_, stack)| stack);
        for key in keys.skip(same) {
            at = self.callee(at, key);
            self.last.push((key, at));
        }
        let thread = self.thread(stack);
        self.rows.push(Row {
            thread,
            stack: at,
            event: stack.event as u32,
            cpu: stack.cpu,
            time: stack.time,
            period: stack.period,
            end: stack.end,
        });
    }

    /// The number of the stack in which `caller` calls the frame `key`.
    fn callee(&mut self, caller: u32, key: FrameKey) -> u32 {
        let first = self.first_callees.get(caller as usize).copied();
        let node = first.and_then(|first| self.stacks.get(first as usize));
        if let Some(node) = node
            && self.frames.get(node.frame as usize) == Some(&key)
        {
            return first.unwrap_or(NONE);
        }
        let frame = number(&mut self.frames, &mut self.frame_numbers, key);
        let (node, next) = (Node { caller, frame }, self.stacks.len() as u32);
        let callee = match self.first_callees.get_mut(caller as usize) {
            Some(first) if *first == NONE => {
                self.stacks.push(node);
                *first = next;
                next
            }
            _ => number(&mut self.stacks, &mut self.other_callees, node),
        };
        if callee == next {
            self.first_callees.push(NONE);
        }
        callee
    }

    /// The number of a sample's thread.
    fn thread(&mut self, stack: &Stack<'_>) -> u32 {
        let is_same = |thread: &Thread| {
            (thread.pid, thread.tid) == (stack.pid, stack.tid)
                && (thread.process.as_bytes(), thread.name.as_bytes()) == (stack.process, stack.thread)
        };
        if let Some(Row { thread, .. }) = self.rows.last()
            && self.threads.get(*thread as usize).is_some_and(is_same)
        {
            return *thread;
        }
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let thread =
            Thread { pid: stack.pid, tid: stack.tid, process: text(stack.process), name: text(stack.thread) };
        let next = self.threads.len() as u32;
        match self.thread_numbers.get(&thread) {
            Some(&number) => number,
            None => {
                self.thread_numbers.insert(thread.clone(), next);
                self.threads.push(thread);
                next
            }
        }
    }

    /// The frames of a stack, innermost first.
    pub fn frames_of(&self, stack: u32) -> impl Iterator<Item = u32> {
        let mut at = stack;
        std::iter::from_fn(move || {
            let node = self.stacks.get(at as usize)?;
            at = node.caller;
            Some(node.frame)
        })
    }

    /// About how many bytes of memory the samples take. Their names come on top of that.
    pub fn size(&self) -> u64 {
        // A stack has a place among the callees and in a table, a frame in a table.
        let stack = size_of::<Node>() + 3 * size_of::<u32>();
        let frame = size_of::<FrameKey>() + 2 * size_of::<u32>();
        let thread = 2 * size_of::<Thread>();
        let all = self.rows.len() * size_of::<Row>()
            + self.stacks.len() * stack
            + self.frames.len() * frame
            + self.threads.len() * thread;
        all as u64
    }

    /// The name of an event.
    pub fn event(&self, number: u32) -> &str {
        self.events.get(number as usize).map_or("samples", String::as_str)
    }
}

/// The number of a value among `values`. Appends the value if it is new. The table holds only numbers,
/// because memory that is written for the first time costs page faults.
fn number<T: Copy + Eq + Hash>(values: &mut Vec<T>, numbers: &mut HashTable<u32>, value: T) -> u32 {
    let hash = |value: &T| FixedState::default().hash_one(value);
    let is_same = |&number: &u32| values.get(number as usize) == Some(&value);
    let hash_of = |&number: &u32| values.get(number as usize).map_or(0, hash);
    match numbers.entry(hash(&value), is_same, hash_of) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(place) => {
            let next = values.len() as u32;
            place.insert(next);
            values.push(value);
            next
        }
    }
}

/// Names of all frames of a profile.
#[derive(Clone, Default)]
pub struct Names {
    all: Vec<Name>,
    /// For each frame, where its names are.
    places: Vec<Range<usize>>,
    /// Frames in files, the first one of each place: processes have the same files at different addresses.
    in_files: HashTable<u32>,
}

impl Names {
    /// Looks up all frames. With `inlined`, also looks up inlined functions and source lines.
    pub fn new(profile: &Profile, files: &Files, kernel: &Kernel, inlined: bool) -> Self {
        let count = profile.frames.len();
        // Most frames have one name. Inlined functions come on top of that.
        let (all, places) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut all = Self { all, places, ..Self::default() };
        all.extend(profile, (files, kernel), inlined, (&mut Namer::default(), None));
        all
    }

    /// Looks up frames that have no names yet, up to a moment: whoever records while names are looked up has
    /// to read samples in between. Returns whether all frames have names.
    pub fn extend(
        &mut self,
        profile: &Profile,
        (files, kernel): (&Files, &Kernel),
        inlined: bool,
        (namer, until): (&mut Namer, Option<Instant>),
    ) -> bool {
        for frame in profile.frames.iter().skip(self.places.len()) {
            if until.is_some_and(|until| Instant::now() >= until) {
                return false;
            }
            let names = self.known(profile, frame).unwrap_or_else(|| {
                let start = self.all.len();
                namer.add((files, kernel), (frame.place, frame.returns), inlined, &mut self.all);
                start..self.all.len()
            });
            self.places.push(names);
        }
        true
    }

    /// The names of the next frame of a profile, if another one at the same place in a file has them.
    fn known(&mut self, profile: &Profile, frame: &FrameKey) -> Option<Range<usize>> {
        let Place::File(..) = frame.place else { return None };
        let key = |frame: &FrameKey| (frame.place, frame.returns);
        let hash = |frame: &FrameKey| FixedState::default().hash_one(key(frame));
        let of = |number: u32| profile.frames.get(number as usize);
        let is_same = |&number: &u32| of(number).is_some_and(|other| key(other) == key(frame));
        match self.in_files.entry(hash(frame), is_same, |&number| of(number).map_or(0, hash)) {
            Entry::Occupied(first) => self.places.get(*first.get() as usize).cloned(),
            Entry::Vacant(place) => {
                place.insert(self.places.len() as u32);
                None
            }
        }
    }

    /// Adds the names of the next frame, innermost first.
    pub(crate) fn push(&mut self, names: impl IntoIterator<Item = Name>) {
        let start = self.all.len();
        self.all.extend(names);
        self.places.push(start..self.all.len());
    }

    /// The number of frames.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// All names. Some frames share theirs.
    pub(crate) fn all(&self) -> &[Name] {
        &self.all
    }

    /// Where the names of a frame are among all, innermost first. There is at least one.
    pub(crate) fn place_of(&self, frame: u32) -> Range<usize> {
        self.places.get(frame as usize).cloned().unwrap_or_default()
    }

    /// The names of a frame, innermost first. There is at least one.
    pub fn of(&self, frame: u32) -> &[Name] {
        &self.all[self.place_of(frame)]
    }
}
