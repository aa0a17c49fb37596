//! From batches of records to stacks.
//!
//! Records of different processors come out of order, so a batch waits for the next one: what the rings hold
//! when they are emptied is complete up to the latest record of the time before.

use super::events::Numbers;
use super::kernel::InKernel;
use super::members::Members;
use super::ring;
use super::unsampled::{Missing, Unsampled};
use crate::event::{Event, Layout, Record, read};
use crate::session::{APART, Session, Stack};
use sframe_bpf::{OuterStack, Sample};
use std::collections::VecDeque;
use std::ops::Range;

/// The type of a record of the BPF program: a stack, or a part of one. The kernel's own types are small
/// numbers.
pub const UNWOUND: u32 = u32::MAX;

/// What a record has told of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing that ends what was known: it is a sample, or tells of something new.
    Other,
    /// A process executes another program. What it had mapped and made is gone.
    Executed(u32),
    /// The first thread of a process has ended.
    Ended(u32),
}

impl Told {
    /// What an event tells.
    pub fn by(event: &Event<'_>) -> Self {
        match *event {
            Event::Named { pid, executed: true, .. } => Self::Executed(pid),
            Event::Exited { pid, tid } if pid == tid => Self::Ended(pid),
            _ => Self::Other,
        }
    }
}

/// Unwinds what the rings hold.
pub struct Unwinder {
    pub in_kernel: Option<InKernel>,
    /// Finds the time of threads that has no samples, where threads have clocks of their own.
    pub unsampled: Option<Unsampled>,
    layout: Layout,
    numbers: Numbers,
    members: Members,
    /// Batches with records that wait, and the number of the first of them.
    batches: VecDeque<Batch>,
    first: usize,
    /// Records that wait, in the order of time. Those before `next` have been handled, and those before
    /// `ready` can be: no earlier ones will come.
    waiting: Vec<Waiting>,
    next: usize,
    ready: usize,
    /// The latest time in the batches so far.
    limit: u64,
    /// Whether no more records come, and the time that the programs have run, if it is known.
    finished: Option<Option<u64>>,
    /// Samples so far.
    pub samples: u64,
    /// Records that the kernel had to drop so far.
    pub lost: u64,
}

/// Bytes with records, and how many of these wait.
struct Batch {
    bytes: Vec<u8>,
    left: usize,
}

/// A record that waits for earlier ones.
struct Waiting {
    time: u64,
    /// The number of its batch.
    batch: usize,
    range: Range<usize>,
}

impl Unwinder {
    /// An unwinder without records.
    pub fn new(
        in_kernel: Option<InKernel>,
        unsampled: Option<Unsampled>,
        numbers: Numbers,
        members: Members,
    ) -> Self {
        let layout = numbers.layout;
        let (batches, first) = (VecDeque::new(), 0);
        let (waiting, next, ready, limit, samples, lost) = (Vec::new(), 0, 0, 0, 0, 0);
        Self {
            in_kernel,
            unsampled,
            layout,
            numbers,
            members,
            batches,
            first,
            waiting,
            next,
            ready,
            limit,
            finished: None,
            samples,
            lost,
        }
    }

    /// Adds a batch. Records that are no later than those of the previous batches can be handled then.
    pub fn add(&mut self, bytes: Vec<u8>) {
        self.waiting.drain(..self.next);
        let (mut latest, before) = (self.limit, self.waiting.len());
        let batch = self.first + self.batches.len();
        for range in ring::records(&bytes) {
            let Some(record) = parse(&bytes[range.clone()]) else { continue };
            let time = match record.kind {
                // It comes before its sample.
                UNWOUND => match OuterStack::read(record.body) {
                    Some(outer) => Some(outer.time.saturating_sub(APART)),
                    None => Sample::time(record.body),
                },
                _ => self.layout.time(&record),
            };
            let time = time.unwrap_or(latest);
            latest = latest.max(time);
            self.waiting.push(Waiting { time, batch, range });
        }
        let left = self.waiting.len() - before;
        if left > 0 {
            self.batches.push_back(Batch { bytes, left });
        }
        self.waiting.sort_by_key(|waiting| waiting.time);
        self.next = 0;
        self.ready = self.waiting.partition_point(|waiting| waiting.time <= self.limit);
        self.limit = latest;
    }

    /// Whether records can be handled now.
    pub fn has_ready(&self) -> bool {
        self.next < self.ready
    }

    /// Reads how long the sampled threads have run, now and then.
    pub fn look_at_threads(&mut self) {
        if let Some(unsampled) = &mut self.unsampled {
            unsampled.look();
        }
    }

    /// Lets all records be handled: no more batches will come. `run`: how long the programs have run, in
    /// nanoseconds.
    pub fn finish(&mut self, run: Option<u64>) {
        self.ready = self.waiting.len();
        self.finished = Some(run);
    }

    /// Handles all records that can be.
    pub fn pass_on(&mut self, session: &mut Session, take: &mut dyn FnMut(&Stack<'_>)) {
        while self.step(session, take).is_some() {}
    }

    /// Handles the next record. `None`: it has to wait, or there is none.
    pub fn step(&mut self, session: &mut Session, take: &mut dyn FnMut(&Stack<'_>)) -> Option<Told> {
        if self.next >= self.ready {
            if let Some(in_kernel) = &mut self.in_kernel {
                in_kernel.send_processes(session);
            }
            session.files().look_at_made_code();
            if let Some(run) = self.finished
                && let Some(mut unsampled) = self.unsampled.take()
            {
                unsampled.finish(run, &mut |missing| add_missing(session, missing, take));
            }
            return None;
        }
        let Waiting { batch, range, .. } = self.waiting.get(self.next)?;
        let (place, range) = (batch - self.first, range.clone());
        self.next += 1;
        let batch = self.batches.get_mut(place)?;
        batch.left -= 1;
        let bytes = std::mem::take(&mut batch.bytes);
        let told = parse(&bytes[range]).map_or(Told::Other, |record| self.handle(&record, session, take));
        if let Some(batch) = self.batches.get_mut(place) {
            batch.bytes = bytes;
        }
        while self.batches.front().is_some_and(|batch| batch.left == 0) {
            self.batches.pop_front();
            self.first += 1;
        }
        Some(told)
    }

    fn handle(
        &mut self,
        record: &Record<'_>,
        session: &mut Session,
        take: &mut dyn FnMut(&Stack<'_>),
    ) -> Told {
        if record.kind == UNWOUND {
            if let Some(sample) = Sample::read(record.body)
                && self.members.contains(sample.pid)
            {
                self.samples += 1;
                let stale = self.in_kernel.as_ref().map(|kernel| kernel.stale(sample.pid, sample.time));
                let described = session.unwound(&sample, &stale.unwrap_or_default(), take);
                if let Some(in_kernel) = &mut self.in_kernel {
                    in_kernel.learn(sample.pid, described);
                }
            }
            if let Some(outer) = OuterStack::read(record.body)
                && self.members.contains(outer.pid)
            {
                session.add_outer(&outer);
            }
            return Told::Other;
        }
        let event = read(&self.layout, record);
        if let Some(event) = event.as_ref().filter(|event| !self.members.admit(event)) {
            if let Some(in_kernel) = &mut self.in_kernel {
                in_kernel.decline(&self.members, event);
            }
            if let Event::Sample(sample) = event {
                session.heard(sample);
            }
            return Told::Other;
        }
        match &event {
            Some(Event::Sample(_)) => self.samples += 1,
            Some(Event::Lost { count, .. }) => self.lost += count,
            _ => {}
        }
        let number = self.numbers.of(record);
        pass_on(session, self.in_kernel.as_mut(), (number, event.as_ref()), take);
        if let (Some(unsampled), Some(event)) = (&mut self.unsampled, &event) {
            let time = self.layout.time(record).unwrap_or(0);
            unsampled.note(event, time, &mut |missing| add_missing(session, missing, take));
        }
        event.as_ref().map_or(Told::Other, Told::by)
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

/// Passes on stacks for time that was not sampled.
fn add_missing(session: &mut Session, missing: &Missing, take: &mut dyn FnMut(&Stack<'_>)) {
    for &time in &missing.times {
        session.add_not_sampled(missing.thread, Some(time), missing.period, take);
    }
}

/// A record of this machine's byte order.
fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let (header, body) = bytes.split_first_chunk::<8>()?;
    let [kind @ .., _, _, _, _] = header;
    let [_, _, _, _, misc @ .., _, _] = header;
    Some(Record { kind: u32::from_ne_bytes(*kind), misc: u16::from_ne_bytes(*misc), body })
}
