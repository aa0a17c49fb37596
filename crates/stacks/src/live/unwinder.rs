//! The thread that unwinds: from batches of records to stacks.
//!
//! Records of different processors come out of order, so a batch waits for the next one: what the rings hold
//! when they are emptied is complete up to the latest record of the time before.

use super::events::Numbers;
use super::kernel::InKernel;
use super::members::Members;
use super::request::Request;
use super::ring;
use super::target::Started;
use crate::event::{Event, Layout, Record, read};
use crate::files::Files;
use crate::session::{Session, Stack};
use sframe_bpf::Sample;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The type of a record with a stack from the BPF program. The kernel's own types are small numbers.
pub const UNWOUND: u32 = u32::MAX;

/// The longest time between two visits to the rings. Batches also let earlier ones be unwound.
pub const TICK: Duration = Duration::from_millis(50);
/// The same with a program in the kernel, which should learn of mappings soon.
pub const SHORT_TICK: Duration = Duration::from_millis(10);
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

/// Unwinds what the rings hold.
pub struct Unwinder<'session> {
    session: &'session mut Session,
    in_kernel: Option<&'session mut InKernel>,
    layout: Layout,
    numbers: Numbers,
    members: Members,
    waiting: Vec<Waiting>,
    /// The latest time in the batches so far.
    limit: u64,
    count: u64,
    lost: u64,
}

/// A record that waits for earlier ones.
struct Waiting {
    time: u64,
    batch: Rc<Vec<u8>>,
    range: Range<usize>,
}

impl<'session> Unwinder<'session> {
    /// An unwinder without records.
    pub fn new(
        session: &'session mut Session,
        in_kernel: Option<&'session mut InKernel>,
        numbers: Numbers,
        members: Members,
    ) -> Self {
        let layout = numbers.layout;
        let (waiting, limit, count, lost) = (Vec::new(), 0, 0, 0);
        Self { session, in_kernel, layout, numbers, members, waiting, limit, count, lost }
    }

    /// Takes batches until the programs end, `stop` is set or the time is over.
    #[expect(clippy::too_many_arguments, reason = "all belong to one recording")]
    pub fn run(
        &mut self,
        receiver: &Receiver<Vec<u8>>,
        request: &Request,
        started: &mut Started,
        stop: &AtomicBool,
        finished: &AtomicBool,
        progress: &mut dyn FnMut(Progress, &Files),
        take: &mut dyn FnMut(&Stack<'_>),
    ) {
        let (start, mut visited) = (Instant::now(), Duration::ZERO);
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(batch) => self.add(batch, take),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // With news of processes, batches come as often as these start.
            if start.elapsed() < visited + SHORT_TICK {
                continue;
            }
            visited = start.elapsed();
            let now = Progress { samples: self.count, lost: self.lost, elapsed: start.elapsed() };
            progress(now, self.session.files());
            let over = request.duration.is_some_and(|duration| start.elapsed() >= duration);
            let stops = over || stop.load(Ordering::Relaxed);
            if stops {
                started.stop();
            }
            if started.has_ended() || stops && started.runs_nothing() {
                finished.store(true, Ordering::Release);
            }
        }
        self.pass_on(u64::MAX, take);
    }

    /// Adds a batch, and passes on the records that are no later than those of the previous batches.
    fn add(&mut self, batch: Vec<u8>, take: &mut dyn FnMut(&Stack<'_>)) {
        let mut latest = self.limit;
        let batch = Rc::new(batch);
        for range in ring::records(&batch) {
            let Some(record) = parse(&batch[range.clone()]) else { continue };
            let time = match record.kind {
                UNWOUND => Sample::time(record.body),
                _ => self.layout.time(&record),
            };
            let time = time.unwrap_or(latest);
            latest = latest.max(time);
            self.waiting.push(Waiting { time, batch: Rc::clone(&batch), range });
        }
        self.pass_on(self.limit, take);
        self.limit = latest;
    }

    fn pass_on(&mut self, limit: u64, take: &mut dyn FnMut(&Stack<'_>)) {
        self.waiting.sort_by_key(|waiting| waiting.time);
        let count = self.waiting.partition_point(|waiting| waiting.time <= limit);
        let ready: Vec<Waiting> = self.waiting.drain(..count).collect();
        for Waiting { batch, range, .. } in ready {
            let Some(record) = parse(&batch[range]) else { continue };
            if record.kind == UNWOUND {
                if let Some(sample) = Sample::read(record.body)
                    && self.members.contains(sample.pid)
                {
                    self.count += 1;
                    let stale = self.in_kernel.as_ref().map(|kernel| kernel.stale(sample.pid, sample.time));
                    self.session.unwound(&sample, &stale.unwrap_or_default(), take);
                }
                continue;
            }
            let event = read(&self.layout, &record);
            if let Some(event) = event.as_ref().filter(|event| !self.members.admit(event)) {
                if let Some(in_kernel) = &mut self.in_kernel {
                    in_kernel.decline(&self.members, event);
                }
                continue;
            }
            match &event {
                Some(Event::Sample(_)) => self.count += 1,
                Some(Event::Lost { count, .. }) => self.lost += count,
                _ => {}
            }
            let number = self.numbers.of(&record);
            pass_on(self.session, self.in_kernel.as_deref_mut(), (number, event.as_ref()), take);
        }
        if let Some(in_kernel) = &mut self.in_kernel {
            in_kernel.send_processes(self.session);
        }
    }
}

/// Passes an event to the session, and informs the BPF program of changes.
pub fn pass_on(
    session: &mut Session,
    in_kernel: Option<&mut InKernel>,
    (number, event): (usize, Option<&Event<'_>>),
    take: &mut dyn FnMut(&Stack<'_>),
) {
    let Some(in_kernel) = in_kernel else { return session.handle(number, event, take) };
    match event {
        // Do this before the sample is unwound: reading rows for the first sample of a file takes as long as
        // a hundred samples.
        Some(Event::Sample(_)) => in_kernel.send_processes(session),
        Some(event) => in_kernel.note(session, event),
        None => {}
    }
    session.handle(number, event, &mut |stack| {
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
