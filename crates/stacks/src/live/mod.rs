//! Samples running programs with `perf_event_open(2)`, without a recorder and without a file.
//!
//! The kernel writes samples into a ring of memory on every processor ([`ring`]). One thread empties the
//! rings into batches. A queue of bounded length takes the batches to the thread that unwinds. If unwinding
//! cannot keep up, first the queue fills and then the rings, and the kernel counts the samples that it has to
//! drop. Records of different processors come out of order, so a batch waits for the next one.
//!
//! With a BPF program in the kernel ([`InKernel`]), the stacks that it has unwound come through a ring of
//! their own and join the batches.

mod descriptors;
mod drain;
mod events;
mod kernel;
mod request;
mod ring;
mod sync;
mod target;

use crate::event::{Event, Layout, Mapped, Record, read};
use crate::files::Files;
use crate::running::Line;
use crate::session::{Session, Settings, Stack};
use crate::statistics::Statistics;
use events::Events;
pub use kernel::{InKernel, KernelReport, RunTime};
pub use request::{Request, Target};
use sframe_bpf::{Sample, Stacks};
use sframe_format::Abi;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use target::Started;

/// The largest number of batches that wait for the unwinder.
const QUEUE: usize = 64;
/// Time between two visits to the rings.
const TICK: Duration = Duration::from_millis(50);
/// The same with a program in the kernel, which should learn of mappings soon.
const SHORT_TICK: Duration = Duration::from_millis(10);
/// The type of a record with a stack from the BPF program. The kernel's own types are small numbers.
const UNWOUND: u32 = u32::MAX;

/// The architecture of this machine, if it has SFrame.
pub const NATIVE: Option<Abi> = if cfg!(target_arch = "x86_64") {
    Some(Abi::Amd64)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(Abi::AArch64Little)
} else if cfg!(target_arch = "s390x") {
    Some(Abi::S390x)
} else {
    None
};

/// The progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Samples so far.
    pub samples: u64,
    /// Records that the kernel had to drop.
    pub lost: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// The result of a recording.
pub struct Recorded {
    /// The files that were mapped.
    pub files: Files,
    /// The counts.
    pub statistics: Statistics,
    /// The sampled event: `cycles`, or `cpu-clock` if the processor counts no cycles.
    pub event: &'static str,
    /// Counts of the work of the program in the kernel, if there was one.
    pub in_kernel: Option<KernelReport>,
    /// The result of the command, if one was started: its exit status, or 128 plus the number of the signal.
    pub status: Option<i32>,
}

/// Samples programs until they end, `stop` is set or the time is over. `in_kernel` unwinds the stacks that it
/// can.
///
/// # Errors
/// A sentence with the reason (the kernel does not allow it, there is no such program), and what helps.
pub fn record(
    request: &Request,
    mut settings: Settings,
    mut in_kernel: Option<InKernel>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
    take: &mut dyn FnMut(&Stack<'_>),
) -> Result<Recorded, String> {
    let abi = NATIVE.ok_or("samples can be taken on x86-64, AArch64 and s390x only")?;
    settings.files.here = true;
    let _measured = (settings.files.measure && in_kernel.is_some()).then(sframe_bpf::measure);
    let mut session = Session::new(abi, settings);
    let mut started = target::start(&request.target)?;
    let mut events = Events::open(abi, request, in_kernel.is_some(), &started.threads()?)?;
    if let Some(in_kernel) = &mut in_kernel {
        in_kernel.attach(&events)?;
    }
    if let Target::Process(pid) = request.target {
        events.enable()?;
        synthesize(&mut session, in_kernel.as_mut(), pid, take);
    }
    let (layout, event) = (events.layout, events.name);
    let finished = AtomicBool::new(false);
    let (sender, receiver) = sync_channel(QUEUE);
    std::thread::scope(|scope| {
        let stacks = in_kernel.as_mut().and_then(|in_kernel| in_kernel.stacks.take());
        let empty = || empty_rings(&mut events, stacks, sender, &finished);
        // Start the thread before the command: without the thread, the command would run on by itself.
        std::thread::Builder::new().spawn_scoped(scope, empty).map_err(|error| no_thread(&error))?;
        if let Err(error) = started.go() {
            finished.store(true, Ordering::Release);
            return Err(error);
        }
        let mut unwinder = Unwinder {
            session: &mut session,
            in_kernel: in_kernel.as_mut(),
            layout,
            waiting: Vec::new(),
            limit: 0,
            count: 0,
            lost: 0,
        };
        unwinder.run(&receiver, request, &mut started, stop, &finished, progress, take);
        Ok(())
    })?;
    let status = started.wait(stop.load(Ordering::Relaxed));
    let in_kernel = in_kernel.map(|mut in_kernel| in_kernel.report()).transpose()?;
    let (files, statistics) = session.finish(take);
    Ok(Recorded { files, statistics, event, in_kernel, status })
}

/// Why there is no thread to empty the rings, and what helps.
fn no_thread(error: &io::Error) -> String {
    format!("no thread can be started: {error}; raise `ulimit -u` or `ulimit -v`")
}

/// Empties the rings into batches until `finished` is set.
fn empty_rings(
    events: &mut Events,
    mut stacks: Option<Stacks>,
    sender: SyncSender<Vec<u8>>,
    finished: &AtomicBool,
) {
    let tick = if stacks.is_some() { SHORT_TICK } else { TICK };
    loop {
        // Read this before the rings are emptied, so that nothing is left in them at the end.
        let last = finished.load(Ordering::Acquire);
        let mut batch = Vec::new();
        events.empty(&mut batch);
        if let Some(stacks) = &mut stacks {
            stacks.empty(|stack| ring::add(&mut batch, UNWOUND, stack));
        }
        // Even an empty batch lets the previous one be unwound.
        if sender.send(batch).is_err() || last {
            return;
        }
        events.wait(tick);
    }
}

struct Unwinder<'session> {
    session: &'session mut Session,
    in_kernel: Option<&'session mut InKernel>,
    layout: Layout,
    /// Records that wait for earlier ones: their times and bytes.
    waiting: Vec<(u64, Vec<u8>)>,
    /// The latest time in the batches so far.
    limit: u64,
    count: u64,
    lost: u64,
}

impl Unwinder<'_> {
    #[expect(clippy::too_many_arguments, reason = "all belong to one recording")]
    fn run(
        &mut self,
        receiver: &Receiver<Vec<u8>>,
        request: &Request,
        started: &mut Started,
        stop: &AtomicBool,
        finished: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
        take: &mut dyn FnMut(&Stack<'_>),
    ) {
        let start = Instant::now();
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(batch) => self.add(&batch, take),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress(Progress { samples: self.count, lost: self.lost, elapsed: start.elapsed() });
            let over = request.duration.is_some_and(|duration| start.elapsed() >= duration);
            if over || stop.load(Ordering::Relaxed) || started.has_ended() {
                finished.store(true, Ordering::Release);
            }
        }
        self.pass_on(u64::MAX, take);
    }

    /// Adds a batch, and passes on the records that are no later than those of the previous batches.
    fn add(&mut self, batch: &[u8], take: &mut dyn FnMut(&Stack<'_>)) {
        let mut latest = self.limit;
        for bytes in ring::records(batch) {
            let Some(record) = parse(bytes) else { continue };
            let time = match record.kind {
                UNWOUND => Sample::time(record.body),
                _ => self.layout.time(&record),
            };
            let time = time.unwrap_or(latest);
            latest = latest.max(time);
            self.waiting.push((time, bytes.to_vec()));
        }
        self.pass_on(self.limit, take);
        self.limit = latest;
    }

    fn pass_on(&mut self, limit: u64, take: &mut dyn FnMut(&Stack<'_>)) {
        self.waiting.sort_by_key(|(time, _)| *time);
        let count = self.waiting.partition_point(|(time, _)| *time <= limit);
        for (_, bytes) in self.waiting.drain(..count) {
            let Some(record) = parse(&bytes) else { continue };
            if record.kind == UNWOUND {
                if let Some(sample) = Sample::read(record.body) {
                    self.count += 1;
                    self.session.unwound(&sample, take);
                }
                continue;
            }
            let event = read(&self.layout, &record);
            match &event {
                Some(Event::Sample(_)) => self.count += 1,
                Some(Event::Lost(count)) => self.lost += count,
                _ => {}
            }
            pass_on(self.session, self.in_kernel.as_deref_mut(), event.as_ref(), take);
        }
        if let Some(in_kernel) = &mut self.in_kernel {
            in_kernel.send_processes(self.session);
        }
    }
}

/// Passes an event to the session, and informs the BPF program of changes.
fn pass_on(
    session: &mut Session,
    in_kernel: Option<&mut InKernel>,
    event: Option<&Event<'_>>,
    take: &mut dyn FnMut(&Stack<'_>),
) {
    let Some(in_kernel) = in_kernel else { return session.handle(0, event, take) };
    match event {
        // Do this before the sample is unwound: reading rows for the first sample of a file takes as long as
        // a hundred samples.
        Some(Event::Sample(_)) => in_kernel.send_processes(session),
        Some(event) => in_kernel.note(event),
        None => {}
    }
    session.handle(0, event, &mut |stack| {
        in_kernel.want(stack);
        take(stack);
    });
    in_kernel.send_tables(session);
}

/// A record of this machine's byte order.
fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let (header, body) = bytes.split_first_chunk::<8>()?;
    let [kind @ .., _, _, _, _] = header;
    let [_, _, _, _, misc @ .., _, _] = header;
    Some(Record { kind: u32::from_ne_bytes(*kind), misc: u16::from_ne_bytes(*misc), body })
}

/// Informs the session of what a process has mapped already, from `/proc`.
fn synthesize(
    session: &mut Session,
    mut in_kernel: Option<&mut InKernel>,
    pid: u32,
    take: &mut dyn FnMut(&Stack<'_>),
) {
    let mut tell = |event: &Event<'_>| pass_on(session, in_kernel.as_deref_mut(), Some(event), take);
    for tid in target::threads_of(pid) {
        let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        tell(&Event::Named { pid, tid, name, executed: false });
    }
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    for mapped in maps.split(|&byte| byte == b'\n').filter_map(|line| mapping(pid, line)) {
        tell(&Event::Mapped(mapped));
    }
}

/// The mapping of code that a line of `/proc/PID/maps` tells of.
fn mapping(pid: u32, line: &[u8]) -> Option<Mapped<'_>> {
    let Line { range, executable, offset, identity, path } = Line::read(line)?;
    let path: &[u8] = if path.is_empty() { b"//anon" } else { path };
    let (address, length) = (range.start, range.end.checked_sub(range.start)?);
    let (kernel, build_id) = (false, None);
    executable.then_some(Mapped {
        pid,
        address,
        length,
        offset,
        executable,
        kernel,
        build_id,
        identity,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::mapping;

    #[test]
    fn maps_of_proc_are_read() {
        let line = b"7f00-8f00 r-xp 00001000 fd:00 123                        /usr/lib/a b.so (deleted)";
        let mapped = mapping(7, line).unwrap();
        assert_eq!((mapped.address, mapped.length, mapped.offset), (0x7f00, 0x1000, 0x1000));
        assert_eq!(mapped.path, b"/usr/lib/a b.so (deleted)");
        assert_eq!(mapping(7, b"7f00-8f00 rwxp 00000000 00:00 0 ").unwrap().path, b"//anon");
        assert!(mapping(7, b"7f00-8f00 rw-p 00000000 00:00 0").is_none());
        assert!(mapping(7, b"nothing").is_none());
    }
}
