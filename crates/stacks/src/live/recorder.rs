//! A recording that its caller drives: a descriptor says when there is something to read, and a call reads
//! it.
//!
//! [`record`](super::record) is made of the same parts: a thread of its own empties the rings, so that they
//! do not fill while a large file is read, and the caller's thread does the rest.

use super::choice::Choice;
use super::early::Early;
use super::events::{self, Events};
use super::kernel::{InKernel, KernelReport};
use super::members::Members;
use super::open::open;
use super::poll::Poll;
use super::processor_time::Counter;
use super::refusal::Refusal;
use super::request::{NATIVE, Request, Target};
use super::ring;
use super::target::{self, Started};
use super::unsampled::Unsampled;
use super::unwinder::{Told, UNWOUND, Unwinder, pass_on};
use crate::coverage::ProcessorTime;
use crate::event::Event;
use crate::present::{self, threads_of};
use crate::session::{Session, Stack};
use crate::statistics::Statistics;
use sframe_bpf::Stacks;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime};

/// The longest time between two visits to the rings. Batches also let earlier ones be unwound.
const TICK: Duration = Duration::from_millis(50);
/// The same with a program in the kernel, which should learn of mappings soon.
const SHORT_TICK: Duration = Duration::from_millis(10);

/// How long after news of processes the rings are read again. What other processors write at the same time
/// is complete by then, and the program in the kernel may learn of the news.
const SETTLES: Duration = Duration::from_micros(50);

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

/// A recording that goes on. Its samples and events go to a session, which may have others, too, and in which
/// names can be looked up between them. It never waits: [`AsFd`] gives the descriptor to wait for.
///
/// ```no_run
/// use stacks::live::{NATIVE, Recorder, Request, Target};
/// use stacks::session::{Session, Settings};
///
/// # fn wait_for(_: impl std::os::fd::AsFd) {}
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut settings = Settings::default();
/// settings.files.here = true;
/// let mut session = Session::new(NATIVE.ok_or("another machine")?, settings);
/// let request = Request::new(Target::Processes(vec![1234]));
/// let mut recorder = Recorder::begin(&request, &mut session, None)?;
/// let mut take = |stack: &stacks::session::Stack<'_>| println!("{} frames", stack.frames.len());
/// while recorder.read(&mut session, &mut take) {
///     wait_for(&recorder); // poll(2), or a loop of events that has other descriptors, too
/// }
/// recorder.end(&mut session, &mut take)?;
/// # Ok(())
/// # }
/// ```
///
/// The descriptor is readable when a ring is a quarter full, and 50 milliseconds after the last reading (10
/// with a program in the kernel). It is that of an `epoll(7)`: if nobody reads, it is readable again after
/// that time at the latest. A caller who comes late loses samples when a ring is full: these hold an eighth
/// of a second.
pub struct Recorder {
    pub(super) rings: Rings,
    pub(super) work: Work,
}

/// What the kernel writes, and how to wait for it.
pub(super) struct Rings {
    events: Events,
    stacks: Option<Stacks>,
    poll: Poll,
}

/// What becomes of it.
pub(super) struct Work {
    pub unwinder: Unwinder,
    pub started: Started,
    counter: Counter,
    /// The processor time that statistics were taken of.
    counted: Duration,
    facts: Facts,
    duration: Option<Duration>,
    begun: Instant,
    /// The same, as people count time.
    begun_at: SystemTime,
    /// When the programs were looked at, counted from the start.
    visited: Duration,
    over: bool,
}

/// What is said of a recording in the end.
#[derive(Clone)]
struct Facts {
    choices: Vec<Choice>,
    frequency: u64,
    with_kernel: bool,
    by_processor: bool,
    smaller_copies: Option<u32>,
}

/// The end of a recording.
pub struct Ended {
    /// The sampled events: by default `cycles`, or `cpu-clock` if the processor counts no cycles.
    pub events: Vec<String>,
    /// Whether the clocks of the processors asked for samples.
    pub by_processor: bool,
    /// Bytes of the stack that were copied, if that was less than usual: the kernel gave little memory.
    pub smaller_copies: Option<u32>,
    /// Counts of the work of the program in the kernel, if there was one.
    pub in_kernel: Option<KernelReport>,
    /// The result of the command, if one was started: its exit status, or 128 plus the number of the signal.
    pub status: Option<i32>,
    /// When it began.
    pub begun: SystemTime,
    facts: Facts,
    counted: Option<Duration>,
}

impl Ended {
    /// The processor time since the start, or since [`Recorder::statistics`] was called last, and how much of
    /// it the samples of these statistics stand for.
    pub fn processor_time(&self, statistics: &Statistics) -> Option<ProcessorTime> {
        self.facts.processor_time(statistics, self.counted)
    }
}

impl Recorder {
    /// Begins a recording. `in_kernel` unwinds the stacks that it can. What the programs have mapped already
    /// is in the session afterwards; a command has been started.
    ///
    /// Raises this process's soft limit on open files to its hard one, since each thread needs one for each
    /// processor.
    ///
    /// # Errors
    /// The kernel does not allow it, there is no such program, or the session is for another machine.
    pub fn begin(
        request: &Request,
        session: &mut Session,
        in_kernel: Option<InKernel>,
    ) -> Result<Self, Refusal> {
        let mut recorder = Self::prepare(request, session, in_kernel)?;
        recorder.work.started.go()?;
        Ok(recorder)
    }

    /// Does all but starting a command.
    pub(super) fn prepare(
        request: &Request,
        session: &mut Session,
        mut in_kernel: Option<InKernel>,
    ) -> Result<Self, Refusal> {
        let abi = NATIVE.filter(|&abi| abi == session.abi()).ok_or_else(|| {
            Refusal::other(
                libc::EINVAL,
                "samples can be taken on x86-64, AArch64 and s390x only, of this machine",
            )
        })?;
        if !session.files().are_live() {
            return Err(Refusal::other(libc::EINVAL, "the session is for programs that do not run here"));
        }
        let started = target::start(request)?;
        let (events, members) = open(abi, request, in_kernel.is_some(), &started)?;
        if request.off_cpu {
            session.wait_for_switches(events.choices.len() - 1);
        }
        let in_kernel_fails = |message| Refusal::other(libc::EIO, message);
        if let Some(in_kernel) = &mut in_kernel {
            in_kernel.attach(&events).map_err(in_kernel_fails)?;
            in_kernel.prepare(session, &request.target);
        }
        let counter = counter(request, &started, &events);
        let by_processor =
            !matches!((&request.target, &members), (Target::Command(_) | Target::Processes(_), Members::All));
        if !started.waits() || by_processor {
            events.enable()?;
        }
        for &pid in started.found() {
            synthesize(session, in_kernel.as_mut(), pid);
        }
        let stacks = in_kernel.as_mut().and_then(|in_kernel| in_kernel.stacks.take());
        let tick = if stacks.is_some() { SHORT_TICK } else { TICK };
        let poll = Poll::new(events.owners(), tick)
            .map_err(|error| Refusal::new(&error, format!("cannot wait for samples: {error}")))?;
        let smaller = request.stack_size.is_none() && events.stack_size < events::STACK;
        let facts = Facts {
            choices: events.choices.clone(),
            frequency: request.frequency,
            with_kernel: events.with_kernel,
            by_processor,
            smaller_copies: smaller.then_some(events.stack_size),
        };
        let period = 1_000_000_000 / request.frequency.max(1);
        let unsampled = events.tells_time.then(|| Unsampled::new(period, started.processes(), threads_of));
        let work = Work {
            unwinder: Unwinder::new(in_kernel, unsampled, events.numbers(), members),
            started,
            counter,
            counted: Duration::ZERO,
            facts,
            duration: request.duration,
            begun: Instant::now(),
            begun_at: SystemTime::now(),
            visited: Duration::ZERO,
            over: false,
        };
        Ok(Self { rings: Rings { events, stacks, poll }, work })
    }

    /// Handles what there is, without waiting for more, and passes stacks on. Samples come one reading late,
    /// since those of other processors may be earlier. Returns whether the recording goes on: it ends with
    /// its programs or its time, and everything has been passed on then.
    pub fn read(&mut self, session: &mut Session, take: &mut dyn FnMut(&Stack<'_>)) -> bool {
        self.fill();
        self.work.unwinder.pass_on(session, take);
        !self.is_over()
    }

    /// Does the first half of [`Recorder::read`]: takes what there is out of the rings. [`Recorder::step`] is
    /// the other half.
    pub fn fill(&mut self) {
        let over = self.work.is_over(false);
        self.rings.poll.wait(Some(Duration::ZERO));
        self.fill_from_rings(over);
    }

    /// Takes what is left out of the rings, so that [`Recorder::step`] handles all of it.
    pub fn finish(&mut self) {
        self.fill_from_rings(true);
    }

    fn fill_from_rings(&mut self, last: bool) {
        // Of a caller who handles less than there is, the rest stays in the rings, whose memory is bounded.
        if last || !self.work.unwinder.has_ready() {
            let (batch, _) = self.rings.empty();
            self.work.unwinder.add(batch);
        }
        if last {
            self.work.finish_unwinding();
        }
    }

    /// Handles one record. `None`: the others have to wait for the next reading.
    pub fn step(&mut self, session: &mut Session, take: &mut dyn FnMut(&Stack<'_>)) -> Option<Told> {
        self.work.unwinder.step(session, take)
    }

    /// Whether the programs have ended, or the time is over.
    pub fn is_over(&self) -> bool {
        self.work.over
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.work.progress()
    }

    /// The counts since the start, or since this was called last: they begin again.
    pub fn statistics(&mut self, session: &mut Session) -> Statistics {
        self.work.statistics(session)
    }

    /// Ends the recording, and passes on what is left.
    ///
    /// # Errors
    /// The program in the kernel does not say what it has done.
    pub fn end(mut self, session: &mut Session, take: &mut dyn FnMut(&Stack<'_>)) -> Result<Ended, String> {
        self.finish();
        self.work.unwinder.pass_on(session, take);
        self.work.end()
    }
}

impl AsFd for Recorder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rings.poll.as_fd()
    }
}

impl Rings {
    /// What the rings hold, and whether there is news of processes.
    fn empty(&mut self) -> (Vec<u8>, bool) {
        // More may come meanwhile. Moving to a larger place would take as long as copying what is there.
        let waiting = self.events.waiting();
        let mut batch = Vec::with_capacity(waiting + waiting / 8);
        let news = self.events.empty(&mut batch);
        if let Some(stacks) = &mut self.stacks {
            stacks.empty(|stack| ring::add(&mut batch, UNWOUND, stack));
        }
        (batch, news)
    }

    /// Empties the rings into batches until `finished` is set.
    pub fn run(&mut self, sender: &SyncSender<Vec<u8>>, finished: &AtomicBool) {
        let _early = self.stacks.is_some().then(Early::start);
        loop {
            // Read this before the rings are emptied, so that nothing is left in them at the end.
            let last = finished.load(Ordering::Acquire);
            let (batch, news) = self.empty();
            // Even an empty batch lets the previous one be unwound.
            if sender.send(batch).is_err() || last {
                return;
            }
            if news {
                std::thread::sleep(SETTLES);
            } else {
                self.poll.wait(None);
            }
        }
    }
}

impl Work {
    /// Takes batches until the programs end, `stop` is set or the time is over.
    pub fn run(
        &mut self,
        session: &mut Session,
        receiver: &Receiver<Vec<u8>>,
        (stop, finished): (&AtomicBool, &AtomicBool),
        watch: &mut dyn FnMut(&mut Turn<'_>),
        take: &mut dyn FnMut(&Stack<'_>),
    ) {
        let _early = self.unwinder.in_kernel.is_some().then(Early::start);
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(batch) => {
                    self.unwinder.add(batch);
                    self.unwinder.pass_on(session, take);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.is_due() {
                watch(&mut Turn { progress: self.progress(), session: &mut *session, work: &mut *self });
                if self.is_over(stop.load(Ordering::Relaxed)) {
                    finished.store(true, Ordering::Release);
                }
            }
        }
        self.finish_unwinding();
        self.unwinder.pass_on(session, take);
    }

    /// Whether it is time to look at the programs. With news of processes, batches come as often as these
    /// start.
    fn is_due(&self) -> bool {
        self.begun.elapsed() >= self.visited + SHORT_TICK
    }

    /// Whether the recording is over. `stop`: it should be.
    fn is_over(&mut self, stop: bool) -> bool {
        if !self.over && self.is_due() {
            self.visited = self.begun.elapsed();
            self.unwinder.look_at_threads();
            let stops = stop || self.duration.is_some_and(|duration| self.visited >= duration);
            if stops {
                self.started.stop();
            }
            self.over = self.started.has_ended() || stops && self.started.runs_nothing();
        }
        self.over
    }

    /// Lets the unwinder handle all that is left.
    fn finish_unwinding(&mut self) {
        let run = self.counter.read();
        self.unwinder.finish(run.and_then(|run| u64::try_from(run.as_nanos()).ok()));
    }

    fn progress(&self) -> Progress {
        let Unwinder { samples, lost, .. } = self.unwinder;
        Progress { samples, lost, elapsed: self.begun.elapsed() }
    }

    fn statistics(&mut self, session: &mut Session) -> Statistics {
        let mut statistics = session.take_statistics();
        let counted = self.counted();
        statistics.coverage.processor_time = self.facts.processor_time(&statistics, counted);
        statistics
    }

    /// The processor time since this was asked last.
    fn counted(&mut self) -> Option<Duration> {
        let now = self.counter.read()?;
        Some(now.saturating_sub(std::mem::replace(&mut self.counted, now)))
    }

    /// What is said in the end.
    pub fn end(mut self) -> Result<Ended, String> {
        let (counted, facts) = (self.counted(), self.facts);
        let in_kernel = self.unwinder.in_kernel.map(|mut in_kernel| in_kernel.report()).transpose()?;
        Ok(Ended {
            events: facts.choices.iter().map(|choice| choice.name.clone()).collect(),
            by_processor: facts.by_processor,
            smaller_copies: facts.smaller_copies,
            in_kernel,
            status: self.started.status(),
            begun: self.begun_at,
            facts,
            counted,
        })
    }
}

impl Facts {
    /// The processor time that was counted, and how much of it the samples stand for. `None`: nobody counted,
    /// or they stand for something else.
    fn processor_time(&self, statistics: &Statistics, counted: Option<Duration>) -> Option<ProcessorTime> {
        let first = self.choices.first().filter(|first| first.is_time() && first.period.is_none())?;
        let nanoseconds = if first.counts_nanoseconds() {
            statistics.coverage.periods
        } else {
            statistics.coverage.samples.saturating_mul(1_000_000_000) / self.frequency.max(1)
        };
        let sampled = Duration::from_nanos(nanoseconds);
        let unsampled = Duration::from_nanos(statistics.coverage.unsampled);
        Some(ProcessorTime { sampled, unsampled, counted: counted?, with_kernel: self.with_kernel })
    }
}

/// A moment between samples, for those who watch a recording.
pub struct Turn<'a> {
    /// How far it is.
    pub progress: Progress,
    /// Its session: its files, to name frames.
    pub session: &'a mut Session,
    work: &'a mut Work,
}

impl Turn<'_> {
    /// The counts since the start, or since this was called last: they begin again.
    pub fn statistics(&mut self) -> Statistics {
        self.work.statistics(self.session)
    }

    /// The names of the sampled events.
    pub fn events(&self) -> Vec<String> {
        self.work.facts.choices.iter().map(|choice| choice.name.clone()).collect()
    }
}

/// Counts the processor time of the programs.
fn counter(request: &Request, started: &Started, events: &Events) -> Counter {
    match &request.target {
        Target::Machine => Counter::of_machine(),
        Target::Group(folder) => Counter::of_group(folder),
        Target::Command(_) | Target::Processes(_) if events.tells_time => Counter::of_clocks(events.clocks()),
        Target::Command(_) | Target::Processes(_) => Counter::of_threads(&started.threads(), started.waits()),
    }
}

/// Informs the session of what a process has mapped already, from `/proc`.
fn synthesize(session: &mut Session, mut in_kernel: Option<&mut InKernel>, pid: u32) {
    let mut tell = |event: &Event<'_>| {
        pass_on(session, in_kernel.as_deref_mut(), (0, Some(event)), &mut |_| {});
    };
    // A process that has ended meanwhile has no samples.
    let _ = present::tell(pid, &mut tell);
}
