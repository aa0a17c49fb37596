//! Samples running programs with `perf_event_open(2)`, without a recorder and without a file.
//!
//! The kernel writes samples into a ring of memory on every processor (`ring`). Either the caller reads
//! them whenever a descriptor says so ([`Recorder`]), or [`record`] does until the programs end: one thread
//! empties the rings into batches as they fill. A queue of bounded length takes the batches to the thread
//! that unwinds (`unwinder`). If unwinding cannot keep up, first the queue fills and then the rings, and
//! the kernel counts the samples that it has to drop.
//!
//! Either every sampled thread has a clock that asks for samples, or every processor has one ([`Clock`]). The
//! clock of a thread begins with it, so threads that end within a period have no samples, and of those that
//! live two periods, always the same place is sampled. The clock of a processor has no such blind spots, but
//! few users may have one, and it also samples programs that nobody asked for (`members` drops these).
//! What the clocks of threads do not see is told as time that was not sampled (`unsampled`).
//!
//! With a BPF program in the kernel ([`InKernel`]), the stacks that it has unwound come through a ring of
//! their own and join the batches. What the kernel tells of processes then wakes the thread that empties
//! rings at once, and both threads run `early`, so that the program knows a process before it ends. A third
//! thread makes the tables of files (`tables`).

mod attribute;
mod choice;
mod descriptors;
mod drain;
mod early;
mod events;
mod kernel;
mod members;
mod needed;
mod open;
mod poll;
mod processor_time;
mod recorder;
mod refusal;
mod request;
mod ring;
mod stale;
mod sync;
mod tables;
mod target;
mod unsampled;
mod unwinder;

use crate::files::Files;
use crate::session::{Session, Settings, Stack};
use crate::statistics::Statistics;
pub use choice::Choice;
pub use kernel::{InKernel, KernelReport, RunTime};
pub use recorder::{Ended, Progress, Recorder, Turn};
pub use refusal::Refusal;
pub use request::{Clock, NATIVE, Request, Target};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::SystemTime;
use tables::no_thread;
pub use unwinder::Told;

/// The largest number of batches that wait for the unwinder.
const QUEUE: usize = 64;

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
    /// When the recording began.
    pub begun: SystemTime,
}

/// Samples programs until they end, `stop` is set or the time is over. `in_kernel` unwinds the stacks that it
/// can. `watch` is called between samples, a hundred times a second at most. [`Recorder`] does the same
/// without waiting, for programs that wait for other things, too.
///
/// # Errors
/// A sentence with the reason (the kernel does not allow it, there is no such program), and what helps.
pub fn record(
    request: &Request,
    mut settings: Settings,
    in_kernel: Option<InKernel>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&mut Turn<'_>),
    take: &mut dyn FnMut(&Stack<'_>),
) -> Result<Recorded, String> {
    let abi = NATIVE.ok_or("samples can be taken on x86-64, AArch64 and s390x only")?;
    settings.files.here = true;
    let _measured = (settings.files.measure && in_kernel.is_some()).then(sframe_bpf::measure);
    let mut session = Session::new(abi, settings);
    let refused = |refusal: Refusal| refusal.message;
    let mut recorder = Recorder::prepare(request, &mut session, in_kernel).map_err(refused)?;
    let finished = AtomicBool::new(false);
    let (sender, receiver) = sync_channel(QUEUE);
    std::thread::scope(|scope| {
        let Recorder { rings, work } = &mut recorder;
        let empty = || {
            let sender = sender;
            rings.run(&sender, &finished);
        };
        // Start the thread before the command: without the thread, the command would run on by itself.
        std::thread::Builder::new().spawn_scoped(scope, empty).map_err(|error| no_thread(&error))?;
        if let Err(refusal) = work.started.go() {
            finished.store(true, Ordering::Release);
            return Err(refusal.message);
        }
        work.run(&mut session, &receiver, (stop, &finished), watch, take);
        Ok(())
    })?;
    let ended = recorder.work.end()?;
    let (files, mut statistics) = session.finish(take);
    statistics.coverage.processor_time = ended.processor_time(&statistics);
    let Ended { events, by_processor, smaller_copies, in_kernel, status, begun, .. } = ended;
    Ok(Recorded { files, statistics, events, by_processor, smaller_copies, in_kernel, status, begun })
}
