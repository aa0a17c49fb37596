//! The threads of a link: how many, when they start, and the processors that they keep to.
//!
//! **How many.** A small link takes four milliseconds on one thread, and a second one makes it slower: to
//! start it, to wake it for each pass, and to let it search for jobs costs more than it does. The size of a
//! link is known once its inputs are open. So at first there is only the thread that calls; rayon knows the
//! others already, but a worker whose thread does not run has no job, and nobody waits for it.
//! [`Threads::start_others`] starts as many as the inputs keep busy. Under `make -j` or cargo, other links
//! run beside this one, and only the jobserver knows how many processors are free: each further thread then
//! takes a token of it.
//!
//! **Which processors.** Between the parallel parts of a link its first thread works alone, and the others
//! sleep. A scheduler may wake them on the processor of the first one although another is idle (a virtual
//! machine's idle processors can look as if taken), and leave them there for several ticks: half of a short
//! link then has one processor. So the first thread stays on its processor and the others keep off it, if
//! there is one for each thread. On a busy machine the scheduler knows better, and in a long link it has the
//! time to see that another processor is faster or idle.
//!
//! The order matters: how many threads there are to be is settled before the first one is kept on its
//! processor, because whoever counts the processors of a thread that is kept on one finds one.

use jobserver::{Acquired, Client};
use rayon_core::{ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time after which a link counts as long. While a profile is made, none does: two profiles are equal.
const LONG: Duration = Duration::from_millis(if cfg!(writes_profile) { 1 << 40 } else { 200 });

/// The bytes of objects and archives that keep a thread busy for long enough to start it.
const BYTES_PER_THREAD: usize = 4 << 20;

/// The least bytes for which a second thread pays. A static program that prints a line has 9 MiB of archives,
/// and links faster on one thread.
const LEAST_BYTES: usize = 12 << 20;

/// The threads of a link.
pub struct Threads {
    /// The threads, as rayon knows them.
    pub pool: ThreadPool,
    state: Mutex<Running>,
    /// When the link counts as long.
    long_from: Instant,
}

/// The threads that run.
#[derive(Default)]
struct Running {
    count: usize,
    /// Workers whose threads do not run yet.
    waiting: Vec<ThreadBuilder>,
    /// The processors that all of them may use, if they keep apart now.
    allowed: Option<CpuSet>,
    /// The threads beside the first one.
    others: Arc<Mutex<Others>>,
    /// What the jobserver gave, one for each thread beside the first. They go back when the link is over.
    tokens: Vec<Acquired>,
}

impl Running {
    /// Lets all threads use any processor again, if they keep apart.
    fn unpin(&mut self) {
        let Some(allowed) = self.allowed.take() else { return };
        let _ = sched_setaffinity(None, &allowed);
        lock(&self.others).move_to(&allowed);
    }
}

/// The threads of a link beside the first one.
#[derive(Default)]
struct Others {
    /// Those that have begun.
    begun: Vec<Pid>,
    /// The processors that they keep to, if they do now. One that begins late finds here whether it should.
    elsewhere: Option<CpuSet>,
}

impl Others {
    /// The calling thread has begun.
    fn begin(&mut self) {
        if let Some(elsewhere) = &self.elsewhere {
            // Where the system refuses, its scheduler decides alone.
            let _ = sched_setaffinity(None, elsewhere);
        }
        self.begun.push(gettid());
    }

    /// Keeps those that have begun, and those that begin from now on, to these processors.
    fn keep_to(&mut self, elsewhere: CpuSet) {
        self.move_to(&elsewhere);
        self.elsewhere = Some(elsewhere);
    }

    /// Moves those that have begun to these processors, and none that begins from now on.
    fn move_to(&mut self, processors: &CpuSet) {
        self.elsewhere = None;
        for &thread in &self.begun {
            let _ = sched_setaffinity(Some(thread), processors);
        }
    }
}

impl Threads {
    /// Makes `count` workers, or one for each processor that this process may use. If `joins`, the calling
    /// thread is the first of them; rayon never lets go of a thread that joined a pool. Without a `count`,
    /// the others then wait for [`Threads::start_others`]; otherwise all start at once.
    ///
    /// Where the system gives fewer threads (`ulimit -u`, `ulimit -v`), those that are there do all. There
    /// are no more than [`most_threads`], because each worker without a job asks all others for one.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(count: Option<NonZero<usize>>, joins: bool) -> Result<Self, ThreadPoolBuildError> {
        Self::start_beside(count, joins, running_now)
    }

    /// [`Threads::start`] on a machine where `running` threads run or wait for a processor, if that is known.
    fn start_beside(
        count: Option<NonZero<usize>>,
        joins: bool,
        running: impl Fn() -> Option<usize>,
    ) -> Result<Self, ThreadPoolBuildError> {
        let long_from = Instant::now() + LONG;
        // A container may be allowed less time than its processors have; the standard library knows.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let workers = count.map_or(processors, |count| count.get().min(most_threads(processors)));
        let mut waiting = Vec::new();
        let mut first = !joins;
        let builder = ThreadPoolBuilder::new().num_threads(workers);
        let builder = if joins { builder.use_current_thread() } else { builder };
        let take = |worker| {
            if std::mem::take(&mut first) {
                return spawn(worker, &Arc::default());
            }
            waiting.push(worker);
            Ok(())
        };
        let pool = builder.spawn_handler(take).build()?;
        let state = Mutex::new(Running { count: 1, waiting, ..Running::default() });
        let threads = Threads { pool, state, long_from };
        if count.is_some() || !joins {
            threads.start_workers(workers, joins, running);
        }
        Ok(threads)
    }

    /// Starts as many threads as inputs of this size keep busy, unless they run already, and as many as the
    /// jobserver allows if there is one. The first thread calls it.
    pub fn start_others(&self, bytes: usize) {
        if bytes < LEAST_BYTES || lock(&self.state).waiting.is_empty() {
            return;
        }
        let workers = self.pool.current_num_threads().min(bytes / BYTES_PER_THREAD);
        self.start_workers(self.allowed_by_jobserver(workers), true, running_now);
    }

    /// How many threads, of so many, the jobserver allows to run: the first one has a token already.
    fn allowed_by_jobserver(&self, workers: usize) -> usize {
        // SAFETY: of a jobserver that is a pipe, the client opens the descriptors again through /dev/fd, so
        // it closes none that it does not own. If make gave none to this process, their numbers may be those
        // of inputs, but these are no pipes.
        let found = unsafe { Client::from_env_ext(true) };
        let Ok(client) = found.client else { return workers };
        take_tokens(&mut lock(&self.state).tokens, workers, || client.try_acquire())
    }

    /// Starts threads until `workers` run. If `pins`, they keep off the processor of the calling thread.
    fn start_workers(&self, workers: usize, pins: bool, running: impl Fn() -> Option<usize>) {
        let mut state = lock(&self.state);
        if state.count >= workers || state.waiting.is_empty() {
            return;
        }
        // Fewer threads may keep apart already. A thread that is kept on its processor would find no other.
        state.unpin();
        let apart = pins.then(|| Apart::find(workers, running)).flatten();
        if let Some(apart) = &apart {
            lock(&state.others).keep_to(apart.others);
        }
        while state.count < workers {
            let Some(worker) = state.waiting.pop() else { break };
            // A worker whose thread does not start never has a job, so nobody waits for it.
            state.count += usize::from(spawn(worker, &state.others).is_ok());
        }
        state.allowed = apart.map(Apart::keep_first);
    }

    /// How many threads run.
    pub fn running(&self) -> usize {
        lock(&self.state).count
    }

    /// Lets the first thread, which calls this, and the others use any processor again. It is called before a
    /// process is started, too: a process inherits the processors of the thread that starts it.
    pub fn unpin(&self) {
        lock(&self.state).unpin();
    }

    /// [`Threads::unpin`], if the link is long.
    pub fn unpin_if_long(&self) {
        if Instant::now() > self.long_from {
            self.unpin();
        }
    }

    /// Gives the tokens back to the jobserver.
    pub fn release(&self) {
        lock(&self.state).tokens.clear();
    }
}

/// Takes tokens until `workers` threads may run, or none is left. Gives how many may run: the first thread
/// has a token of its own, which make gave to the command.
fn take_tokens<K>(
    tokens: &mut Vec<K>,
    workers: usize,
    mut try_acquire: impl FnMut() -> std::io::Result<Option<K>>,
) -> usize {
    while 1 + tokens.len() < workers {
        match try_acquire() {
            Ok(Some(token)) => tokens.push(token),
            Ok(None) => break,
            // The jobserver has no way to be asked without waiting.
            Err(_) => return workers,
        }
    }
    1 + tokens.len()
}

fn lock<V>(value: &Mutex<V>) -> std::sync::MutexGuard<'_, V> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a worker's thread. It is one of `others`, and keeps to the processors that they do.
fn spawn(worker: ThreadBuilder, others: &Arc<Mutex<Others>>) -> std::io::Result<()> {
    let others = Arc::clone(others);
    let (begins, has_begun) = std::sync::mpsc::channel();
    let run = move || {
        let _ = begins.send(());
        lock(&others).begin();
        worker.run();
    };
    let is_tight = has_limited_memory();
    if is_tight {
        find_room()?;
    }
    std::thread::Builder::new().spawn(run)?;
    if is_tight {
        let _ = has_begun.recv();
    }
    Ok(())
}

/// The most threads of a link: more of them only wait for each other.
fn most_threads(processors: usize) -> usize {
    (4 * processors).max(32)
}

/// The memory that a thread takes before it does anything: its stack, and little else.
const ROOM: usize = (2 << 20) + (1 << 20);

/// Whether the address space has a limit (`ulimit -v`).
fn has_limited_memory() -> bool {
    getrlimit(Resource::As).current.is_some()
}

/// Finds out whether there is memory for one more thread. A thread that gets its stack and no memory for its
/// handler of signals ends the process, which nobody can prevent; so it is not started, and no two threads
/// start at the same time.
fn find_room() -> std::io::Result<()> {
    memmap2::MmapMut::map_anon(ROOM).map(drop)
}

/// The processors of threads that keep apart.
struct Apart {
    /// Those that the calling thread was allowed.
    allowed: CpuSet,
    /// The one that it runs on.
    first: CpuSet,
    /// All but that one.
    others: CpuSet,
}

impl Apart {
    /// `None` if there is not an idle processor for each of `threads` threads.
    fn find(threads: usize, running: impl Fn() -> Option<usize>) -> Option<Apart> {
        let allowed = sched_getaffinity(None).ok()?;
        let processors = allowed.count() as usize;
        if threads < 2 || threads > processors || running()?.saturating_sub(1) + threads > processors {
            return None;
        }
        let (mut first, mut others) = (CpuSet::new(), allowed);
        let here = sched_getcpu();
        first.set(here);
        others.unset(here);
        Some(Apart { allowed, first, others })
    }

    /// Keeps the calling thread on its processor. Gives those that it was allowed. All other threads have
    /// started before: a thread begins on the processors of the one that starts it, so each would have to
    /// wait for this processor before it could leave it.
    fn keep_first(self) -> CpuSet {
        // Where the system refuses, its scheduler decides alone.
        let _ = sched_setaffinity(None, &self.first);
        self.allowed
    }
}

/// The threads of the machine that run or wait for a processor now, this one included.
fn running_now() -> Option<usize> {
    running(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

/// The number of threads of the machine that run or wait for a processor, this one included. The fourth word
/// of `/proc/loadavg` is this number, a slash, and the number of all threads.
fn running(loads: &str) -> Option<usize> {
    loads.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_threads_than_help() {
        let threads = Threads::start(NonZero::new(5000), false).unwrap();
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        assert_eq!(threads.pool.current_num_threads(), most_threads(processors));
        assert!(most_threads(1) >= 32 && most_threads(256) >= 256);
    }

    #[test]
    fn a_link_that_asks_again_counts_its_tokens_once() {
        let mut left = 2;
        let mut try_acquire = || Ok((left > 0).then(|| left -= 1));
        let mut tokens = Vec::new();
        assert_eq!(take_tokens(&mut tokens, 2, &mut try_acquire), 2);
        assert_eq!(take_tokens(&mut tokens, 8, &mut try_acquire), 3);
        assert_eq!(take_tokens(&mut tokens, 8, &mut try_acquire), 3);
        assert_eq!(take_tokens(&mut tokens, 8, || Err(std::io::ErrorKind::Unsupported.into())), 8);
    }

    #[test]
    fn the_load_of_the_machine_is_read() {
        assert_eq!(running("0.24 1.50 1.35 3/211 4711\n"), Some(3));
        assert_eq!(running("0.24 1.50"), None);
        assert_eq!(running(""), None);
    }

    #[test]
    fn a_thread_that_stayed_on_its_processor_may_leave_it_again() {
        let ours = || sched_getaffinity(None).unwrap();
        std::thread::spawn(move || {
            let before = ours();
            let threads = Threads::start_beside(NonZero::new(2), true, || Some(1)).unwrap();
            // All of them have started.
            threads.pool.broadcast(|_| ());
            // With one processor there is nothing to keep apart.
            assert_eq!(ours().count(), 1);
            assert_eq!(lock(&threads.state).allowed.is_some(), before.count() > 1);
            threads.unpin();
            assert_eq!(ours(), before);
            let of_all = threads.pool.broadcast(|_| sched_getaffinity(None).unwrap());
            assert!(of_all.iter().all(|allowed| *allowed == before));
            // Rayon does not let go of this thread.
            std::mem::forget(threads);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_that_start_in_two_steps_may_all_leave_their_processors_again() {
        let ours = || sched_getaffinity(None).unwrap();
        std::thread::spawn(move || {
            let before = ours();
            let threads = Threads::start_beside(None, true, || Some(1)).unwrap();
            let processors = threads.pool.current_num_threads();
            // A jobserver gives a token for one more thread, and later for the others.
            for workers in [2.min(processors), 2.min(processors), processors, processors] {
                threads.start_workers(workers, true, || Some(1));
                assert_eq!(lock(&threads.state).allowed.is_some(), processors > 1);
                assert_eq!(threads.running(), workers);
                assert_eq!(ours().count(), 1);
            }
            let kept = threads.pool.broadcast(|_| ours().count() as usize);
            assert!(processors == 1 || kept.iter().skip(1).all(|&count| count == processors - 1), "{kept:?}");
            threads.unpin();
            assert!(threads.pool.broadcast(|_| ours()).iter().all(|allowed| *allowed == before));
            // Rayon does not let go of this thread.
            std::mem::forget(threads);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn without_a_number_there_is_a_thread_for_each_processor_on_an_idle_machine_and_on_a_busy_one() {
        let processors = std::thread::available_parallelism().unwrap().get();
        for running in [Some(1), Some(processors), Some(100 * processors), None] {
            for joins in [true, false] {
                std::thread::spawn(move || {
                    let threads = Threads::start_beside(None, joins, || running).unwrap();
                    assert_eq!(threads.pool.current_num_threads(), processors, "{running:?} {joins}");
                    threads.unpin();
                    // Rayon does not let go of this thread.
                    std::mem::forget(threads);
                })
                .join()
                .unwrap();
            }
        }
    }
}
