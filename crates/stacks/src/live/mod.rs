//! Samples running programs with `perf_event_open(2)`, without a recorder and without a file.
//!
//! The kernel writes samples into a ring of memory on every processor ([`ring`]). One thread empties the
//! rings into batches as they fill. A queue of bounded length takes the batches to the thread that unwinds
//! ([`unwinder`]). If unwinding cannot keep up, first the queue fills and then the rings, and the kernel
//! counts the samples that it has to drop.
//!
//! Either every sampled thread has a clock that asks for samples, or every processor has one ([`Clock`]). The
//! clock of a thread begins with it, so threads that end within a period have no samples, and of those that
//! live two periods, always the same place is sampled. The clock of a processor has no such blind spots, but
//! few users may have one, and it also samples programs that nobody asked for ([`members`] drops these).
//!
//! With a BPF program in the kernel ([`InKernel`]), the stacks that it has unwound come through a ring of
//! their own and join the batches. What the kernel tells of processes then wakes the thread that empties
//! rings at once, and both threads run [`early`], so that the program knows a process before it ends. A third
//! thread makes the tables of files ([`tables`]).

mod attribute;
mod choice;
mod descriptors;
mod drain;
mod early;
mod events;
mod kernel;
mod members;
mod processor_time;
mod request;
mod ring;
mod stale;
mod sync;
mod tables;
mod target;
mod unwinder;

use crate::coverage::ProcessorTime;
use crate::event::Event;
use crate::files::Files;
use crate::present;
use crate::session::{Session, Settings, Stack};
use crate::statistics::Statistics;
pub use choice::Choice;
use early::Early;
use events::{Events, Scope};
pub use kernel::{InKernel, KernelReport, RunTime};
use members::Members;
use processor_time::Counter;
pub use request::{Clock, Request, Target};
use sframe_bpf::Stacks;
use sframe_format::Abi;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tables::no_thread;
use target::Started;
pub use unwinder::Progress;
use unwinder::{SHORT_TICK, TICK, UNWOUND, Unwinder, pass_on};

/// How long after news of processes the rings are read again. What other processors write at the same time
/// is complete by then, and the program in the kernel may learn of the news.
const SETTLES: Duration = Duration::from_micros(50);
/// The largest number of batches that wait for the unwinder.
const QUEUE: usize = 64;
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

/// The result of a recording.
pub struct Recorded {
    /// The files that were mapped.
    pub files: Files,
    /// The counts.
    pub statistics: Statistics,
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
    progress: &mut dyn FnMut(Progress, &Files),
    take: &mut dyn FnMut(&Stack<'_>),
) -> Result<Recorded, String> {
    let abi = NATIVE.ok_or("samples can be taken on x86-64, AArch64 and s390x only")?;
    settings.files.here = true;
    let _measured = (settings.files.measure && in_kernel.is_some()).then(sframe_bpf::measure);
    let mut session = Session::new(abi, settings);
    let mut started = target::start(request)?;
    let (mut events, members) = open(abi, request, in_kernel.is_some(), &started)?;
    if request.off_cpu {
        session.wait_for_switches(events.choices.len() - 1);
    }
    if let Some(in_kernel) = &mut in_kernel {
        in_kernel.attach(&events)?;
        in_kernel.prepare(&mut session, &request.target);
    }
    let mut time = counter(request, &started);
    let by_processor =
        !matches!((&request.target, &members), (Target::Command(_) | Target::Processes(_), Members::All));
    if !started.waits() || by_processor {
        events.enable()?;
    }
    for &pid in started.found() {
        synthesize(&mut session, in_kernel.as_mut(), pid, take);
    }
    let choices = events.choices.clone();
    let (with_kernel, stack_size) = (events.with_kernel, events.stack_size);
    let numbers = events.numbers();
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
        let _early = in_kernel.is_some().then(Early::start);
        let mut unwinder = Unwinder::new(&mut session, in_kernel.as_mut(), numbers, members);
        unwinder.run(&receiver, request, &mut started, stop, &finished, progress, take);
        Ok(())
    })?;
    let status = started.status();
    let counted = time.read();
    let in_kernel = in_kernel.map(|mut in_kernel| in_kernel.report()).transpose()?;
    let (files, mut statistics) = session.finish(take);
    let sampled = sampled(&choices, request, &statistics);
    statistics.coverage.processor_time =
        sampled.zip(counted).map(|(sampled, counted)| ProcessorTime { sampled, counted, with_kernel });
    let events = choices.into_iter().map(|choice| choice.name).collect();
    let smaller_copies = (request.stack_size.is_none() && stack_size < events::STACK).then_some(stack_size);
    Ok(Recorded { files, statistics, events, by_processor, smaller_copies, in_kernel, status })
}

/// Opens the events, and says whose samples count among theirs.
fn open(
    abi: Abi,
    request: &Request,
    monotonic: bool,
    started: &Started,
) -> Result<(Events, Members), String> {
    let how = (monotonic, started.waits());
    let open = |scope: &Scope<'_>| Events::open(abi, request, how, scope);
    let machine = || open(&Scope::Processors);
    match &request.target {
        Target::Machine => return Ok((machine().map_err(|refused| refused.message)?, Members::All)),
        Target::Group(folder) => {
            let opened = File::open(folder).map_err(|error| no_group(folder, &error))?;
            let events = open(&Scope::Group(opened.as_fd())).map_err(|refused| {
                let error = io::Error::from_raw_os_error(libc::EBADF);
                if refused.no_group { no_group(folder, &error) } else { refused.message }
            })?;
            return Ok((events, Members::All));
        }
        Target::Command(_) | Target::Processes(_) => {}
    }
    let members = || started.members();
    // Where waits are sampled, other programs would cost too much.
    let by_processor = match request.clock {
        Clock::Auto => started.waits() && !request.off_cpu,
        Clock::Thread => false,
        Clock::Processor => true,
    };
    if by_processor {
        match machine() {
            Ok(events) => return Ok((events, members())),
            Err(refused) if request.clock == Clock::Processor => return Err(refused.message),
            Err(_) => {}
        }
    }
    match open(&Scope::Threads(&|| started.threads())) {
        Ok(events) => Ok((events, Members::All)),
        Err(refused) if refused.too_many && request.clock == Clock::Auto => match machine() {
            Ok(events) => Ok((events, members())),
            Err(_) => Err(refused.message),
        },
        Err(refused) => Err(refused.message),
    }
}

fn no_group(folder: &Path, error: &io::Error) -> String {
    format!(
        "{} is not a control group whose programs can be sampled: {error}; expected a folder below /sys/fs/cgroup",
        folder.display()
    )
}

/// Counts the processor time of the programs.
fn counter(request: &Request, started: &Started) -> Counter {
    match &request.target {
        Target::Machine => Counter::of_machine(),
        Target::Group(folder) => Counter::of_group(folder),
        Target::Command(_) | Target::Processes(_) => Counter::of_threads(&started.threads(), started.waits()),
    }
}

/// The processor time that the samples stand for. `None`: they stand for something else.
fn sampled(choices: &[Choice], request: &Request, statistics: &Statistics) -> Option<Duration> {
    let first = choices.first().filter(|first| first.is_time() && first.period.is_none())?;
    let nanoseconds = if first.counts_nanoseconds() {
        statistics.coverage.periods
    } else {
        statistics.coverage.samples.saturating_mul(1_000_000_000) / request.frequency.max(1)
    };
    Some(Duration::from_nanos(nanoseconds))
}

/// Empties the rings into batches until `finished` is set.
fn empty_rings(
    events: &mut Events,
    mut stacks: Option<Stacks>,
    sender: SyncSender<Vec<u8>>,
    finished: &AtomicBool,
) {
    let tick = if stacks.is_some() { SHORT_TICK } else { TICK };
    let _early = stacks.is_some().then(Early::start);
    loop {
        // Read this before the rings are emptied, so that nothing is left in them at the end.
        let last = finished.load(Ordering::Acquire);
        let mut batch = Vec::new();
        let news = events.empty(&mut batch);
        if let Some(stacks) = &mut stacks {
            stacks.empty(|stack| ring::add(&mut batch, UNWOUND, stack));
        }
        // Even an empty batch lets the previous one be unwound.
        if sender.send(batch).is_err() || last {
            return;
        }
        if news {
            std::thread::sleep(SETTLES);
        } else {
            events.wait(tick);
        }
    }
}

/// Informs the session of what a process has mapped already, from `/proc`.
fn synthesize(
    session: &mut Session,
    mut in_kernel: Option<&mut InKernel>,
    pid: u32,
    take: &mut dyn FnMut(&Stack<'_>),
) {
    let mut tell = |event: &Event<'_>| pass_on(session, in_kernel.as_deref_mut(), (0, Some(event)), take);
    // A process that has ended meanwhile has no samples.
    let _ = present::tell(pid, &mut tell);
}
