//! From events to stacks.
//!
//! A session takes events in the order of time and passes on a [`Stack`] for each sample. The stack contains
//! the recorded frames of the kernel, and then the user frames. The session unwinds these from the registers
//! and the copy of the stack. Without a copy, it uses the recorded user frames. A kernel may record the user
//! part of a call chain later, when it returns to the program, and mark the sample with a number (a cookie).
//! Such a sample waits for its second part.

mod in_kernel;
mod outer;

use crate::bytes::Bytes;
use crate::event::{Chain, Event, Mapped, Moment, Sample, User};
use crate::files::{FileId, Files, Options};
use crate::image::Image;
use crate::kernel::{KERNEL, Reference};
use crate::present;
use crate::process::{Place, Process, Processes};
use crate::registers::{Number, dwarf_number};
use crate::snapshot::{Snapshot, Thread};
use crate::stack_memory::{Copied, Saved};
use crate::statistics::{End, Statistics};
pub use crate::walk::Frame;
use crate::walk::{SLOTS, most_frames, walk};
use hashbrown::HashMap;
pub use in_kernel::{Described, Former};
pub(crate) use outer::APART;
use outer::Outers;
use sframe_format::{Abi, Module, Registers, RuleCache, Source};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Marks in call chains (`enum perf_callchain_context`): the kernel part follows, the user part follows, or
/// the user part will be recorded later.
const CONTEXT_KERNEL: u64 = (-128i64) as u64;
const CONTEXT_USER: u64 = (-512i64) as u64;
const CONTEXT_USER_DEFERRED: u64 = (-640i64) as u64;
/// Every mark is greater than every address.
const CONTEXT_LEAST: u64 = (-4095i64) as u64;
/// All sources of frames.
pub(crate) const SOURCES: [Source; 6] = [
    Source::Topmost,
    Source::Sframe,
    Source::EhFrame,
    Source::SignalContext,
    Source::FramePointer,
    Source::Instructions,
];
/// The largest number of samples that wait for their second part.
const MAX_WAITING: usize = 1 << 16;

/// A sample with its frames.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The name of the process.
    pub process: &'a [u8],
    /// The name of the thread.
    pub thread: &'a [u8],
    /// Number of the event.
    pub event: usize,
    /// Processor.
    pub cpu: Option<u32>,
    /// The time, in nanoseconds.
    pub time: Option<u64>,
    /// How many events the sample stands for.
    pub period: u64,
    /// The frames, innermost first.
    pub frames: &'a [Frame],
    /// Where the walk ended.
    pub end: End,
    /// Whether it was unwound in the kernel.
    pub in_kernel: bool,
}

/// A sample whose user frames will come later.
struct Waiting {
    pid: u32,
    tid: u32,
    event: usize,
    cpu: Option<u32>,
    time: Option<u64>,
    period: u64,
    frames: Vec<Frame>,
    in_kernel: bool,
}

/// Settings of a session.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How to find and read files.
    pub files: Options,
    /// Whether to follow frame pointers where there are no rows.
    pub frame_pointers: bool,
}

/// Follows processes and unwinds their samples.
pub struct Session {
    abi: Abi,
    measure: bool,
    processes: Processes,
    files: Files,
    cache: RuleCache<SLOTS>,
    statistics: Statistics,
    /// The frames of the current sample.
    frames: Vec<Frame>,
    /// Waiting samples, by the number of the part that they wait for. A thread may be sampled several times
    /// in the kernel before it returns.
    waiting: HashMap<u64, Vec<Waiting>>,
    /// How many samples wait.
    waiting_count: usize,
    /// The event whose samples are where threads begin to wait.
    off_cpu: Option<usize>,
    /// Threads that wait: their samples.
    off: HashMap<u32, (Waiting, End)>,
    /// The latest time of a sample or a switch.
    latest: u64,
    /// Parts of stacks that samples to come do not copy.
    outers: Outers,
    kernel: Option<Reference>,
    started: Instant,
    /// Hits and misses of the cache, and the time spent reading, that statistics were taken of.
    counted: ((u64, u64), Duration),
}

impl Session {
    /// A session for processes of one architecture.
    pub fn new(abi: Abi, settings: Settings) -> Self {
        let live = settings.files.here;
        Self {
            abi,
            measure: settings.files.measure,
            processes: Processes::new(abi, settings.frame_pointers, live),
            files: Files::new(abi, settings.files),
            cache: RuleCache::new(),
            statistics: Statistics::default(),
            frames: Vec::new(),
            waiting: HashMap::new(),
            waiting_count: 0,
            off_cpu: None,
            off: HashMap::new(),
            latest: 0,
            outers: Outers::default(),
            kernel: None,
            started: Instant::now(),
            counted: Default::default(),
        }
    }

    /// The architecture of its processes.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    /// The files that were mapped.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The files, to add some.
    pub fn files_mut(&mut self) -> &mut Files {
        &mut self.files
    }

    /// Records the build-id that a path had when it was mapped.
    pub fn expect(&mut self, path: &[u8], build_id: &[u8]) {
        self.files.expect(path, build_id);
    }

    /// Handles a record of the sampled event with the number `event`, and passes stacks to `take`. `None` is
    /// a record that could not be read.
    pub fn handle(&mut self, event: usize, record: Option<&Event<'_>>, take: &mut dyn FnMut(&Stack<'_>)) {
        match record {
            Some(Event::Sample(sample)) => self.sample(event, sample, take),
            Some(Event::Mapped(mapped)) if mapped.kernel => self.kernel(mapped),
            Some(Event::Mapped(mapped)) => self.processes.map(mapped, &mut self.files),
            Some(Event::Named { pid, tid, name, executed }) => {
                self.processes.name(*pid, *tid, name, *executed);
                if *executed {
                    self.files.begin(*pid);
                }
            }
            Some(Event::Forked { pid, tid, parent, parent_tid, before }) => {
                self.processes.fork((*pid, *tid), (*parent, *parent_tid), *before);
                if pid != parent {
                    self.files.begin(*pid);
                }
            }
            Some(Event::Exited { pid, tid }) => {
                self.processes.exit(*pid, *tid);
                if self.processes.has_no_thread(*pid) {
                    self.files.end(*pid);
                }
            }
            Some(Event::Deferred { cookie, chain }) => self.deferred(*cookie, chain, take),
            Some(Event::Lost { count, at }) => {
                self.statistics.lost = self.statistics.lost.saturating_add(*count);
                self.statistics.coverage.lost(*at);
            }
            Some(Event::Throttled { again, at }) => self.statistics.coverage.throttled(*again, *at),
            Some(Event::Switched { tid, out, time }) => self.switched(*tid, *out, *time, take),
            Some(Event::Counted { .. } | Event::Other) => {}
            None => self.statistics.unreadable += 1,
        }
        self.files.close_unused();
    }

    /// Records where the kernel is. Its mapping is named after a symbol, and the mapping's offset is that
    /// symbol's address.
    fn kernel(&mut self, mapped: &Mapped<'_>) {
        if let Some(build_id) = mapped.build_id
            && mapped.path.starts_with(KERNEL.as_bytes())
        {
            self.files.expect(KERNEL.as_bytes(), build_id);
        }
        if let Some(name) = mapped.path.strip_prefix(KERNEL.as_bytes())
            && !name.is_empty()
        {
            self.kernel.get_or_insert_with(|| Reference { name: name.to_vec(), address: mapped.offset });
        }
    }

    /// A symbol of the kernel and its address. `None`: no event has given one so far.
    pub fn kernel_reference(&self) -> Option<&Reference> {
        self.kernel.as_ref()
    }

    /// Forgets processes and counts, but keeps the files with their rows, for a second pass over the same
    /// recording.
    pub fn begin_again(&mut self) {
        self.processes = self.processes.begin_again();
        self.cache = RuleCache::new();
        self.counted.0 = (0, 0);
        self.statistics = Statistics::default();
        self.waiting.clear();
        self.waiting_count = 0;
        (self.off, self.latest, self.outers) = (HashMap::new(), 0, Outers::default());
        self.started = Instant::now();
    }

    /// Ends the session: passes on samples that still wait, and returns the files and the statistics.
    pub fn finish(mut self, take: &mut dyn FnMut(&Stack<'_>)) -> (Files, Statistics) {
        let mut left: Vec<Waiting> = std::mem::take(&mut self.waiting).into_values().flatten().collect();
        left.sort_by_key(|waiting| (waiting.time, waiting.tid));
        for waiting in left {
            self.pass_on(waiting, End::NoRegisters, take);
        }
        let waits = self.off.drain().collect::<std::collections::BTreeMap<_, _>>();
        for (_, (mut waited, end)) in waits {
            // It waits still.
            waited.period = self.latest.saturating_sub(waited.time.unwrap_or(self.latest));
            self.pass_on(waited, end, take);
        }
        self.statistics.coverage.finish();
        let statistics = self.take_statistics();
        (self.files, statistics)
    }

    /// The counts since the start, or since this was called last: they begin again.
    pub fn take_statistics(&mut self) -> Statistics {
        let coverage = self.statistics.coverage.next();
        let mut statistics =
            std::mem::replace(&mut self.statistics, Statistics { coverage, ..Statistics::default() });
        let ((hits, misses), reading) = (self.cache.statistics(), self.files.reading() + self.files.making());
        let ((hits_before, misses_before), reading_before) = self.counted;
        self.counted = ((hits, misses), reading);
        statistics.cache = (hits - hits_before, misses - misses_before);
        statistics.reading = reading.saturating_sub(reading_before);
        statistics.whole = self.started.elapsed();
        self.started = Instant::now();
        statistics.processes = self.processes.most();
        statistics
    }

    /// Processes that have ended, but have made code of which names are kept. Forget them when their frames
    /// have names.
    pub fn ended(&self) -> Vec<u32> {
        self.files.makers().filter(|&pid| !self.knows(pid)).collect()
    }

    fn sample(&mut self, event: usize, sample: &Sample<'_>, take: &mut dyn FnMut(&Stack<'_>)) {
        self.latest = self.latest.max(sample.time.unwrap_or(0));
        self.frames.clear();
        let cookie = self.recorded(sample);
        let recorded = self.frames.len();
        if let [Frame { place: Place::NotSampled, .. }] = self.frames[..] {
            // This crate has written the recording.
            let Sample { pid, tid, time, period, .. } = *sample;
            return self.add_not_sampled((pid, tid), time, period, take);
        }
        self.statistics.kernel_frames += self.kernel_frames();
        if let Some(cookie) = cookie
            && self.waiting_count < MAX_WAITING
        {
            let Sample { pid, tid, cpu, time, period, .. } = *sample;
            let frames = self.frames.clone();
            let waiting = Waiting { pid, tid, event, cpu, time, period, frames, in_kernel: false };
            self.waiting.entry(cookie).or_default().push(waiting);
            self.waiting_count += 1;
            return;
        }
        let end = match &sample.user {
            Some(user) if self.is_executing(sample, user) => End::Root,
            Some(user) if !user.wide => {
                // Its stack has no rows, but its instruction has a name.
                self.frames.retain(|frame| matches!(frame.place, Place::Kernel(_)));
                let mut registers = user.registers(self.abi.endian());
                let is_counter = |number| matches!(dwarf_number(self.abi, number), Number::ProgramCounter);
                if let Some((_, address)) = registers.find(|(number, _)| is_counter(*number)) {
                    let place = self.processes.get(sample.pid).place(address);
                    self.frames.push(Frame { address, place, returns: false, source: Some(Source::Topmost) });
                }
                End::Narrow
            }
            Some(user) => {
                // The unwound user frames replace those of the call chain.
                self.frames.retain(|frame| matches!(frame.place, Place::Kernel(_)));
                let started = self.measure.then(|| (Instant::now(), self.files.reading()));
                let end = self.unwind(event, sample, user);
                if let Some((started, reading)) = started {
                    let read = self.files.reading() - reading;
                    self.statistics.unwinding += started.elapsed().saturating_sub(read);
                }
                end
            }
            // A thread of the kernel has no user part.
            None if recorded > 0 && self.kernel_frames() == recorded as u64 => End::Root,
            None if recorded > 0 => End::Recorded,
            None => {
                let place = if sample.kernel {
                    Place::Kernel(sample.ip)
                } else {
                    self.processes.get(sample.pid).place(sample.ip)
                };
                self.frames.push(Frame { address: sample.ip, place, returns: false, source: None });
                End::NoRegisters
            }
        };
        let Sample { pid, tid, cpu, time, period, .. } = *sample;
        let frames = std::mem::take(&mut self.frames);
        let unwound = Waiting { pid, tid, event, cpu, time, period, frames, in_kernel: false };
        if self.off_cpu == Some(event) {
            // A thread leaves its processor for the last time after the record of its end.
            if self.processes.has_thread(pid, tid) {
                self.off.insert(tid, (unwound, end));
            }
            return;
        }
        self.frames = self.pass_on(unwound, end, take);
    }

    /// Adds a part of a stack that is larger than samples copy. The sample follows. It is of event 0, since
    /// the program in the kernel runs at its samples.
    pub fn add_outer(&mut self, part: &sframe_bpf::OuterStack<'_>) {
        self.outers.add(part);
    }

    /// Whether a sample was taken while the kernel makes a process execute another program. Its user part is
    /// then what is left of the program before, whose memory is gone.
    fn is_executing(&mut self, sample: &Sample<'_>, user: &User<'_>) -> bool {
        let (abi, process) = (self.abi, self.processes.get(sample.pid));
        if process.executing {
            let mut registers = user.registers(abi.endian());
            let is_counter = |number| matches!(dwarf_number(abi, number), Number::ProgramCounter);
            let counter = registers.find(|(number, _)| is_counter(*number));
            process.executing = sample.kernel
                && counter.is_none_or(|(_, at)| matches!(process.place(at), Place::Unmapped(_)));
        }
        process.executing
    }

    /// Notes a sample of a process that nobody asked for: what the kernel lost came before or behind it.
    pub(crate) fn heard(&mut self, sample: &Sample<'_>) {
        self.statistics.coverage.heard(Moment { time: sample.time, cpu: sample.cpu });
    }

    /// Says which event's samples are taken where threads leave their processor. Their periods become the
    /// nanoseconds until the thread gets one again.
    pub fn wait_for_switches(&mut self, event: usize) {
        self.off_cpu = Some(event);
    }

    /// Passes on the sample of a thread that has waited until it is switched in.
    fn switched(&mut self, tid: u32, out: bool, time: Option<u64>, take: &mut dyn FnMut(&Stack<'_>)) {
        self.latest = self.latest.max(time.unwrap_or(0));
        if out {
            return;
        }
        if let Some((mut waited, end)) = self.off.remove(&tid) {
            waited.period = time.unwrap_or(0).saturating_sub(waited.time.unwrap_or(0));
            self.pass_on(waited, end, take);
        }
    }

    /// Code that a process has made while it ran, ascending: executable memory of no file.
    pub fn made_code(&self, pid: u32) -> Vec<Range<u64>> {
        self.processes.known(pid).map(Process::made_code).unwrap_or_default()
    }

    /// Handles what a process has mapped that runs already, and its threads.
    ///
    /// # Errors
    /// There is no such process, or its mappings cannot be read.
    pub fn add_running(&mut self, pid: u32) -> io::Result<()> {
        present::tell(pid, &mut |event| self.handle(0, Some(event), &mut |_| {}))
    }

    /// Closes files if more are open than may be: names may have needed some. Events and samples do the same.
    pub fn close_unused(&mut self) {
        self.files.close_unused();
    }

    /// Adds a process that has mapped nothing.
    pub fn begin_process(&mut self, pid: u32) {
        self.processes.get(pid);
    }

    /// Whether an event has mentioned a process, and it has not been forgotten.
    pub fn knows(&self, pid: u32) -> bool {
        self.processes.known(pid).is_some()
    }

    /// Handles that a process has unmapped memory. The kernel has no event for that: it tells of what is
    /// mapped there later.
    pub fn unmap(&mut self, pid: u32, range: &Range<u64>) {
        if self.knows(pid) {
            self.processes.get(pid).unmap(range);
        }
    }

    /// Forgets a process. Its files stay for others.
    pub fn forget(&mut self, pid: u32) {
        self.processes.forget(pid);
        self.files.forget(pid);
    }

    /// What a process has at an address. `returns`: it is a return address, so the place is that of the call.
    pub fn frame_at(&self, pid: u32, address: u64, returns: bool) -> Frame {
        let inside = address.wrapping_sub(returns.into());
        let process = self.processes.known(pid);
        let place = process.map_or(Place::Unmapped(inside), |process| process.place(inside));
        Frame { address, place, returns, source: None }
    }

    /// The files that a process has mapped. `None`: there is no such process.
    pub fn modules(&self, pid: u32) -> Option<&[Module<Bytes>]> {
        self.processes.modules(pid)
    }

    fn kernel_frames(&self) -> u64 {
        self.frames.iter().filter(|frame| matches!(frame.place, Place::Kernel(_))).count() as u64
    }

    /// Adds the frames of the recorded call chain. Returns the cookie of the part that will come later.
    fn recorded(&mut self, sample: &Sample<'_>) -> Option<u64> {
        let mut kernel = sample.kernel;
        let process = self.processes.get(sample.pid);
        let mut chain = sample.chain.iter();
        // The first address of a part is the instruction itself, and the others are return addresses.
        let mut first = true;
        while let Some(address) = chain.next() {
            match address {
                CONTEXT_USER_DEFERRED => return chain.next(),
                CONTEXT_KERNEL | CONTEXT_USER => (kernel, first) = (address == CONTEXT_KERNEL, true),
                CONTEXT_LEAST.. => {}
                _ => {
                    note(&mut self.frames, process, address, kernel, first);
                    first = false;
                }
            }
        }
        None
    }

    /// Handles the second part of the samples that wait for it.
    fn deferred(&mut self, cookie: u64, chain: &Chain<'_>, take: &mut dyn FnMut(&Stack<'_>)) {
        // The cookie is unique: it consists of a processor's number and a counter.
        let waiting = self.waiting.remove(&cookie).unwrap_or_default();
        self.waiting_count -= waiting.len();
        for mut waiting in waiting {
            let process = self.processes.get(waiting.pid);
            let mut first = true;
            for address in chain.iter().filter(|&address| address < CONTEXT_LEAST) {
                note(&mut waiting.frames, process, address, false, first);
                first = false;
            }
            self.pass_on(waiting, End::Recorded, take);
        }
    }

    /// Counts a stack and passes it on. Returns the memory of its frames.
    fn pass_on(&mut self, sample: Waiting, end: End, take: &mut dyn FnMut(&Stack<'_>)) -> Vec<Frame> {
        let statistics = &mut self.statistics;
        statistics.samples += 1;
        if sample.event == 0 {
            statistics.coverage.sample(sample.cpu, sample.time, sample.period);
        }
        *statistics.ends.entry(end).or_default() += 1;
        let mut sources = [0u64; SOURCES.len()];
        for frame in &sample.frames {
            match frame.source {
                Some(source) => sources[source as usize] += 1,
                None => statistics.recorded_frames += u64::from(!matches!(frame.place, Place::Kernel(_))),
            }
        }
        for source in SOURCES {
            let count = sources[source as usize];
            if count > 0 {
                *statistics.sources.entry(source).or_default() += count;
            }
            statistics.frames += count;
        }
        self.tell(&sample, end, take);
        sample.frames
    }

    /// Passes on a stack of the first event for time of a thread that was not sampled. It is counted as no
    /// sample.
    pub(crate) fn add_not_sampled(
        &mut self,
        (pid, tid): (u32, u32),
        time: Option<u64>,
        period: u64,
        take: &mut dyn FnMut(&Stack<'_>),
    ) {
        let unsampled = &mut self.statistics.coverage.unsampled;
        *unsampled = unsampled.saturating_add(period);
        let frames = vec![Frame { address: 0, place: Place::NotSampled, returns: false, source: None }];
        let (event, cpu, in_kernel) = (0, None, false);
        let stack = Waiting { pid, tid, event, cpu, time, period, frames, in_kernel };
        self.tell(&stack, End::NotSampled, take);
    }

    /// Passes a stack on, with the names of its process and thread.
    fn tell(&self, stack: &Waiting, end: End, take: &mut dyn FnMut(&Stack<'_>)) {
        let &Waiting { pid, tid, event, cpu, time, period, ref frames, in_kernel } = stack;
        let thread = self.processes.thread_name(tid);
        let process = self.processes.known(pid).map_or(&[][..], |process| &process.name);
        let process = if process.is_empty() { thread } else { process };
        take(&Stack { pid, tid, process, thread, event, cpu, time, period, frames, end, in_kernel });
    }

    /// Unwinds the user part.
    fn unwind(&mut self, event: usize, sample: &Sample<'_>, user: &User<'_>) -> End {
        let abi = self.abi;
        let mut registers = Registers::new(0, 0, None);
        let mut pc = None;
        for (number, value) in user.registers(abi.endian()) {
            match dwarf_number(abi, number) {
                Number::Register(register) => registers.set(abi, register, value),
                Number::ProgramCounter => pc = Some(value),
                Number::Other => {}
            }
        }
        let Some(pc) = pc else { return End::NoRegisters };
        let process = self.processes.get(sample.pid);
        let mut copied = Copied::new(user.stack, user.base.unwrap_or(registers.sp), abi.endian())
            .cut_short(user.cut_short);
        // A sample of another event may come at the same time, and before.
        let outer = if event == 0 { self.outers.of(sample.tid, sample.time) } else { None };
        let mut size = user.stack.len();
        if let Some(outer) = outer {
            copied = copied.with_outer(outer.address, &outer.bytes);
            size += outer.bytes.len();
        }
        let frames = (&mut self.frames, most_frames(size));
        walk(process, &self.files, &mut self.cache, frames, (pc, &registers), &mut copied)
    }

    /// Maps a file into a process as a whole, where `bias` says how far its addresses are raised. A file that
    /// cannot be used is mapped nowhere.
    pub fn map_whole(&mut self, pid: u32, file: FileId, bias: impl Fn(&Image) -> Option<u64>) {
        let place = |image: &Image| Some((image.extent(), bias(image)?));
        let image = self.files.get(file).and_then(|file| file.image().ok());
        if let Some((extent, bias)) = image.and_then(place) {
            self.map(pid, extent.start.wrapping_add(bias)..extent.end.wrapping_add(bias), file, bias);
        }
    }

    /// Maps code of a file into a process. The addresses of the file are raised by `bias`.
    pub fn map(&mut self, pid: u32, range: Range<u64>, file: FileId, bias: u64) {
        self.processes.get(pid).map(range, Some((file, bias)), &self.files);
    }

    /// Unwinds the threads of a process that was saved, by the files that were mapped into it.
    ///
    /// All threads together have no more frames than the saved memory can hold. Without that bound, a small
    /// file with many threads whose stacks go in circles would give any number of frames.
    pub fn unwind_saved(&mut self, snapshot: &Snapshot, take: &mut dyn FnMut(&Stack<'_>)) {
        let mut room = snapshot.threads.len() + most_frames(snapshot.saved);
        for (number, thread) in snapshot.threads.iter().enumerate() {
            room -= self.unwind_thread(snapshot, thread, (number.min(1), room), take);
        }
    }

    /// Unwinds a thread for the event with the number `event`: at most `most` frames. Returns their number.
    fn unwind_thread(
        &mut self,
        snapshot: &Snapshot,
        thread: &Thread,
        (event, most): (usize, usize),
        take: &mut dyn FnMut(&Stack<'_>),
    ) -> usize {
        let (abi, pid, tid) = (self.abi, snapshot.pid, thread.tid);
        self.processes.name(pid, tid, &snapshot.name, false);
        let mut stack = Saved { memory: &snapshot.memory, endian: abi.endian(), thread: thread.base };
        let mut frames = Vec::new();
        let process = self.processes.get(pid);
        let registers = thread.start(abi);
        let start = (thread.pc, &registers);
        let end = walk(process, &self.files, &mut self.cache, (&mut frames, most), start, &mut stack);
        let (cpu, time, period, in_kernel) = (None, None, 1, false);
        self.pass_on(Waiting { pid, tid, event, cpu, time, period, frames, in_kernel }, end, take).len()
    }
}

/// Adds a frame of a recorded call chain.
fn note(frames: &mut Vec<Frame>, process: &Process, address: u64, kernel: bool, first: bool) {
    let inside = if first { address } else { address.wrapping_sub(1) };
    let place = if kernel { Place::Kernel(inside) } else { process.place(inside) };
    frames.push(Frame { address, place, returns: !first, source: None });
}
