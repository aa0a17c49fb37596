//! Tracks which process has mapped which file where.
//!
//! A forked process copies its parent's mappings, and a process that executes another program loses its own.
//! The events may lack a beginning (a process that ran before), a middle (lost records) or an end.

use crate::bytes::Bytes;
use crate::event::Mapped;
use crate::files::{FileId, Files, MappedFile};
use crate::jit_dump;
use crate::name::NOT_SAMPLED;
use crate::running::Running;
use hashbrown::{HashMap, HashSet};
use sframe_format::{Abi, Module, ModuleId, Unwinder};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// How many threads are remembered that have ended.
const MOST_ENDED: usize = 64;

/// A process.
#[derive(Clone)]
pub struct Process {
    pid: u32,
    /// The files that it has mapped.
    unwinder: Unwinder<Bytes>,
    /// Executable memory that belongs to no file: first address and end.
    anonymous: BTreeMap<u64, u64>,
    /// Where the page ends that stands for time that was not sampled, in a recording of this crate.
    not_sampled: Option<u64>,
    threads: HashSet<u32>,
    /// The name of its first thread.
    pub name: Vec<u8>,
    /// Whether it executes another program, of which no instruction has been seen to run. Until one does, its
    /// registers are those of the program before.
    pub(crate) executing: bool,
}

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A file, at this address in the file.
    File(FileId, u64),
    /// Memory of no file: code that a process made while it ran.
    Anonymous(u32, u64),
    /// Nothing known.
    Unmapped(u64),
    /// The kernel.
    Kernel(u64),
    /// Wherever the thread was: this time was not sampled.
    NotSampled,
}

impl Hash for Place {
    /// Profiles look up many places. Their kinds are not worth the time: addresses tell them apart.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (owner, address) = match *self {
            Self::File(FileId(file), address) => (file, address),
            Self::Anonymous(pid, address) => (pid, address),
            Self::Unmapped(address) | Self::Kernel(address) => (0, address),
            Self::NotSampled => (0, 0),
        };
        state.write_u32(owner);
        state.write_u64(address);
    }
}

/// The file of the last address.
#[derive(Clone, Copy, Debug)]
pub struct Last {
    start: u64,
    length: u64,
    bias: u64,
    file: FileId,
}

impl Default for Last {
    fn default() -> Self {
        Self { start: 0, length: 0, bias: 0, file: FileId(0) }
    }
}

impl Process {
    fn new(pid: u32, abi: Abi, follow_frame_pointers: bool) -> Self {
        let mut unwinder = Unwinder::new(abi);
        unwinder.follow_frame_pointers(follow_frame_pointers);
        Self {
            pid,
            unwinder,
            anonymous: BTreeMap::new(),
            not_sampled: None,
            threads: HashSet::new(),
            name: Vec::new(),
            executing: false,
        }
    }

    /// The unwinder over its files.
    pub fn unwinder(&self) -> &Unwinder<Bytes> {
        &self.unwinder
    }

    /// Does the work of [`Process::place`]. `last` is the file that was found last: neighbours in a stack
    /// often belong to one file.
    #[inline]
    pub fn place_after(&self, last: &mut Last, address: u64) -> Place {
        if address.wrapping_sub(last.start) < last.length {
            return Place::File(last.file, address.wrapping_sub(last.bias));
        }
        if let Some(module) = self.unwinder.module_at(address) {
            let (range, file) = (module.range(), FileId(module.id().0 as u32));
            *last = Last { start: range.start, length: range.end - range.start, bias: module.bias(), file };
            return Place::File(file, address.wrapping_sub(module.bias()));
        }
        self.place_of_no_file(address)
    }

    /// What is at an address.
    #[inline]
    pub fn place(&self, address: u64) -> Place {
        if let Some(module) = self.unwinder.module_at(address) {
            return Place::File(FileId(module.id().0 as u32), address.wrapping_sub(module.bias()));
        }
        self.place_of_no_file(address)
    }

    fn place_of_no_file(&self, address: u64) -> Place {
        match self.anonymous.range(..=address).next_back() {
            Some((_, &end)) if address < end => {
                if self.not_sampled == Some(end) {
                    Place::NotSampled
                } else {
                    Place::Anonymous(self.pid, address)
                }
            }
            _ => Place::Unmapped(address),
        }
    }

    /// The process, if only its program knows what the code at an address is: code that it made, or code in a
    /// file of another format.
    pub fn maker_at(&self, address: u64, files: &Files) -> Option<u32> {
        match self.place(address) {
            Place::Anonymous(pid, _) => Some(pid),
            Place::File(file, _) if files.get(file).is_some_and(MappedFile::is_foreign) => Some(self.pid),
            _ => None,
        }
    }

    /// Executable memory that belongs to no file, ascending. Neighbours are one range.
    pub fn made_code(&self) -> Vec<Range<u64>> {
        let mut all: Vec<Range<u64>> = Vec::new();
        for (&start, &end) in &self.anonymous {
            match all.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = end,
                None => all.push(start..end),
            }
        }
        all
    }

    /// Adds code: that of a file, whose addresses are raised by a number, or else of no file.
    pub(crate) fn map(&mut self, range: Range<u64>, file: Option<(FileId, u64)>, files: &Files) {
        self.unmap(&range);
        match file {
            Some((id, bias)) => {
                let rows = files.get(id).map(|file| Arc::clone(file.rows())).unwrap_or_default();
                self.unwinder.add_module(Module::new(ModuleId(id.0.into()), range, bias, rows));
            }
            None => {
                self.anonymous.insert(range.start, range.end);
            }
        }
    }

    /// Removes a range from what was mapped before. The parts of a mapping on both sides of it stay.
    pub(crate) fn unmap(&mut self, range: &Range<u64>) {
        if !self.anonymous.is_empty() {
            self.unmap_anonymous(range);
        }
        // Most memory that is mapped is data, where nothing was before.
        if self.unwinder.overlapping(range).is_empty() {
            return;
        }
        let left = |module: &Module<Bytes>| {
            let module = module.clone();
            outside(module.range(), range)
                .map(move |left| Module::new(module.id(), left, module.bias(), Arc::clone(module.rows())))
        };
        let left: Vec<_> = self.unwinder.overlapping(range).iter().flat_map(left).collect();
        self.unwinder.remove_overlapping(range.clone());
        for module in left {
            self.unwinder.add_module(module);
        }
    }

    fn unmap_anonymous(&mut self, range: &Range<u64>) {
        // Ranges are disjoint, so those that overlap are the last ones that start before the end of this one.
        let before = self.anonymous.range(..range.end).rev();
        let overlapping = before.take_while(|&(_, &end)| end > range.start);
        for (start, end) in overlapping.map(|(&start, &end)| (start, end)).collect::<Vec<_>>() {
            self.anonymous.remove(&start);
            self.anonymous.extend(outside(start..end, range).map(|left| (left.start, left.end)));
        }
    }
}

/// The parts of a range that are outside another range.
fn outside(whole: Range<u64>, taken: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let parts = [whole.start..whole.end.min(taken.start), whole.start.max(taken.end)..whole.end];
    parts.into_iter().filter(|part| !part.is_empty())
}

/// All processes.
pub struct Processes {
    abi: Abi,
    follow_frame_pointers: bool,
    /// Whether they are running now, on this machine.
    live: bool,
    by_pid: HashMap<u32, Process>,
    thread_names: HashMap<u32, Vec<u8>>,
    /// Threads that have ended: their processes and numbers. The kernel still works for them after it has
    /// said that they end, and takes samples of that.
    ended: VecDeque<(u32, u32)>,
    /// How many of those were the first threads of their processes.
    ended_processes: usize,
    /// The largest number of processes at a time.
    most: usize,
}

impl Processes {
    /// An empty list of processes.
    pub fn new(abi: Abi, follow_frame_pointers: bool, live: bool) -> Self {
        Self {
            abi,
            follow_frame_pointers,
            live,
            by_pid: HashMap::new(),
            thread_names: HashMap::new(),
            ended: VecDeque::new(),
            ended_processes: 0,
            most: 0,
        }
    }

    /// An empty list with the same settings.
    pub fn begin_again(&self) -> Self {
        Self::new(self.abi, self.follow_frame_pointers, self.live)
    }

    /// A process. If no event has mentioned it, this adds an empty one.
    pub fn get(&mut self, pid: u32) -> &mut Process {
        let (abi, follow) = (self.abi, self.follow_frame_pointers);
        self.by_pid.entry(pid).or_insert_with(|| Process::new(pid, abi, follow))
    }

    /// A process that an event has mentioned.
    pub fn known(&self, pid: u32) -> Option<&Process> {
        self.by_pid.get(&pid)
    }

    /// Handles the mapping of a file.
    pub fn map(&mut self, mapped: &Mapped<'_>, files: &mut Files) {
        let range = mapped.address..mapped.address.saturating_add(mapped.length);
        if range.is_empty() {
            return;
        }
        if !mapped.executable {
            self.get(mapped.pid).unmap(&range);
            return self.count();
        }
        let (mut file, identity) = (None, mapped.identity);
        let running = self.live.then(|| Running { pid: mapped.pid, range: range.clone(), identity });
        if jit_dump::is_name(mapped.path) {
            files.add_jit_dump(mapped.pid, mapped.path, running.as_ref());
            return self.get(mapped.pid).unmap(&range);
        }
        if is_file(mapped.path) {
            let id = files.open(mapped.path, mapped.build_id, running.as_ref());
            // A file that cannot be read still has a name. Its addresses are then its offsets.
            let image = files.get(id).and_then(|file| file.image().ok());
            let bias = image.and_then(|image| image.bias(mapped.offset, mapped.address));
            // Programs also write generated code into files of memory, to map it twice.
            if image.is_some() || !mapped.path.starts_with(b"/memfd:") {
                file = Some((id, bias.unwrap_or(mapped.address.wrapping_sub(mapped.offset))));
            }
        }
        let not_sampled = !self.live && mapped.path == NOT_SAMPLED.as_bytes();
        let process = self.get(mapped.pid);
        if not_sampled {
            process.not_sampled = Some(range.end);
        }
        process.map(range, file, files);
        self.count();
    }

    /// Handles a thread's name, or the execution of another program.
    pub fn name(&mut self, pid: u32, tid: u32, name: &[u8], executed: bool) {
        self.thread_names.insert(tid, name.to_vec());
        if executed {
            self.by_pid.remove(&pid);
        }
        let process = self.get(pid);
        process.executing |= executed;
        process.threads.insert(tid);
        if pid == tid {
            process.name = name.to_vec();
        }
    }

    /// Handles the second process and thread creating the first. A process that existed `before` the events
    /// began may have executed another program meanwhile, so it inherits no mappings.
    pub fn fork(&mut self, (pid, tid): (u32, u32), (parent, parent_tid): (u32, u32), before: bool) {
        if let Some(name) = self.thread_names.get(&parent_tid).cloned() {
            self.thread_names.insert(tid, name);
        }
        if pid != parent {
            let mut child = self.get(parent).clone();
            if before {
                let empty = Process::new(pid, self.abi, self.follow_frame_pointers);
                child = Process { name: child.name, ..empty };
            }
            child.pid = pid;
            child.threads.clear();
            self.by_pid.insert(pid, child);
            self.count();
        }
        self.get(pid).threads.insert(tid);
    }

    /// Handles the end of a thread. Its process and its names are forgotten some ends later.
    pub fn exit(&mut self, pid: u32, tid: u32) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.threads.remove(&tid);
        }
        self.ended.push_back((pid, tid));
        self.ended_processes += usize::from(pid == tid);
        if self.ended.len() <= MOST_ENDED {
            return;
        }
        let Some((pid, tid)) = self.ended.pop_front() else { return };
        self.ended_processes -= usize::from(pid == tid);
        let process = self.by_pid.get(&pid);
        // The numbers may be those of others by now.
        if !process.is_some_and(|process| process.threads.contains(&tid)) {
            self.thread_names.remove(&tid);
        }
        if process.is_some_and(|process| process.threads.is_empty()) {
            self.by_pid.remove(&pid);
        }
    }

    /// Forgets a process with its threads.
    pub(crate) fn forget(&mut self, pid: u32) {
        if let Some(process) = self.by_pid.remove(&pid) {
            self.thread_names.retain(|tid, _| !process.threads.contains(tid));
        }
        self.ended.retain(|(ended, _)| *ended != pid);
        self.ended_processes = self.ended.iter().filter(|(pid, tid)| pid == tid).count();
    }

    /// Counts the processes that run.
    fn count(&mut self) {
        self.most = self.most.max(self.by_pid.len().saturating_sub(self.ended_processes));
    }

    /// The files that a process has mapped. `None`: it has ended, or no event has mentioned it.
    pub fn modules(&self, pid: u32) -> Option<&[Module<Bytes>]> {
        let is_dead = |process: &Process| {
            process.threads.is_empty() && self.ended.iter().any(|(ended, _)| *ended == pid)
        };
        self.by_pid.get(&pid).filter(|process| !is_dead(process)).map(|process| process.unwinder().modules())
    }

    /// Whether a process has a thread, and it has not ended.
    pub fn has_thread(&self, pid: u32, tid: u32) -> bool {
        self.by_pid.get(&pid).is_some_and(|process| process.threads.contains(&tid))
    }

    /// Whether all threads of a process that are known have ended.
    pub(crate) fn has_no_thread(&self, pid: u32) -> bool {
        self.by_pid.get(&pid).is_none_or(|process| process.threads.is_empty())
    }

    /// The name of a thread.
    pub fn thread_name(&self, tid: u32) -> &[u8] {
        self.thread_names.get(&tid).map_or(b"", Vec::as_slice)
    }

    /// The largest number of processes at a time.
    pub fn most(&self) -> usize {
        self.most
    }
}

/// Whether a mapping's name is that of a file. The name of other memory is in brackets, begins with two
/// slashes, or says how the memory was made.
pub(crate) fn is_file(path: &[u8]) -> bool {
    let special = [&b"["[..], b"//", b"/dev/zero", b"/anon_hugepage", b"/SYSV", b"anon_inode:"];
    path == b"[vdso]" || !path.is_empty() && !special.iter().any(|start| path.starts_with(start))
}
