//! The threads of a link, and the processors that they keep to.
//!
//! Between the parallel parts of a link its first thread works alone, and the others sleep. A scheduler may wake them on
//! the processor of the first one although another is idle (a virtual machine's idle processors can look as if taken),
//! and leave them there for several ticks: half of a short link then has one processor. So the first thread stays on its
//! processor and the others keep off it, if there is one for each thread. On a busy machine the scheduler knows better,
//! and in a long link it has the time to see that another processor is faster or idle.

use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time after which a link counts as long.
const LONG: Duration = Duration::from_millis(200);

/// The threads of a link.
pub struct Threads {
    /// The threads, as rayon knows them.
    pub pool: ThreadPool,
    /// The processors that all of them may use, if they keep apart now.
    allowed: Option<CpuSet>,
    /// The threads that keep off the processor of the first one.
    others: Arc<Mutex<Vec<Pid>>>,
    started: Instant,
}

impl Threads {
    /// Starts `count` threads (0: one for each processor). If `joins`, the calling thread is the first of them; rayon
    /// never lets go of a thread that joined a pool.
    ///
    /// Where the system gives fewer threads (`ulimit -u`, `ulimit -v`), those that are there do all. A worker whose
    /// thread does not start never has a job, so nobody waits for it.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(count: usize, joins: bool) -> Result<Self, ThreadPoolBuildError> {
        let started = Instant::now();
        let (allowed, elsewhere) = joins.then(|| keep_apart(count)).flatten().unzip();
        let others = Arc::new(Mutex::new(Vec::new()));
        let mut working = usize::from(joins);
        let start = |worker: ThreadBuilder| {
            let others = Arc::clone(&others);
            let run = move || {
                if let Some(elsewhere) = &elsewhere {
                    let mut others = others.lock().unwrap_or_else(PoisonError::into_inner);
                    // Where the system refuses, its scheduler decides alone.
                    others.extend(sched_setaffinity(None, elsewhere).is_ok().then(gettid));
                }
                worker.run();
            };
            let spawned = std::thread::Builder::new().spawn(run).map(drop);
            working += usize::from(spawned.is_ok());
            spawned.or_else(|error| if working > 0 { Ok(()) } else { Err(error) })
        };
        let builder = ThreadPoolBuilder::new().num_threads(count);
        let builder = if joins { builder.use_current_thread() } else { builder };
        Ok(Threads { pool: builder.spawn_handler(start).build()?, allowed, others, started })
    }

    /// Lets the first thread, which calls this, and the others use any processor again. It is called before a process
    /// is started, too: a process inherits the processors of the thread that starts it.
    pub fn let_go(&self) {
        let Some(allowed) = &self.allowed else { return };
        let _ = sched_setaffinity(None, allowed);
        for thread in self.others.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = sched_setaffinity(Some(thread), allowed);
        }
    }

    /// [`Threads::let_go`], if the link is long.
    pub fn let_go_if_long(&self) {
        if self.started.elapsed() > LONG {
            self.let_go();
        }
    }
}

/// Keeps the calling thread on its processor. Gives the processors that it was allowed, and the same without its own,
/// for the other threads; `None` if there is not an idle processor for each of `threads` threads.
fn keep_apart(threads: usize) -> Option<(CpuSet, CpuSet)> {
    let allowed = sched_getaffinity(None).ok()?;
    let processors = allowed.count() as usize;
    // As rayon counts: a container may be allowed less time than its processors have.
    let threads = if threads == 0 { std::thread::available_parallelism().ok()?.get() } else { threads };
    let busy = running(&std::fs::read_to_string("/proc/loadavg").ok()?)?.saturating_sub(1);
    if threads < 2 || busy + threads > processors {
        return None;
    }
    let (mut own, mut others) = (CpuSet::new(), allowed);
    let here = sched_getcpu();
    own.set(here);
    others.unset(here);
    sched_setaffinity(None, &own).ok()?;
    Some((allowed, others))
}

/// The number of threads of the machine that run or wait for a processor, this one included. The fourth word of
/// `/proc/loadavg` is this number, a slash, and the number of all threads.
fn running(loads: &str) -> Option<usize> {
    loads.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let threads = Threads::start(2, true).unwrap();
            // All of them have started.
            threads.pool.broadcast(|_| ());
            if threads.allowed.is_some() {
                assert_eq!(ours().count(), 1);
            }
            threads.let_go();
            assert_eq!(ours(), before);
            let of_all = threads.pool.broadcast(|_| sched_getaffinity(None).unwrap());
            assert!(of_all.iter().all(|allowed| *allowed == before));
            // Rayon does not let go of this thread.
            std::mem::forget(threads);
        })
        .join()
        .unwrap();
    }
}
