//! Time of threads of which there are no samples.
//!
//! The clock of a thread asks for a sample after each period that the thread has run. It gets none while the
//! kernel works for the thread, if the user may not look there, and none if the thread ends before. Such time
//! is no smaller for that: a profile without it shows a program that writes files all day as if it computed.
//!
//! The kernel says how long each thread has run: when it ends, as the count of the clock that it has
//! inherited, and before that in `/proc`, which is read once a second: of threads that have had samples, and
//! of some others in turn. Time that no sample stands for becomes stacks of one frame
//! ([`Place::NotSampled`](crate::process::Place)), one for each period, spread over the time since the last
//! look.
//!
//! What a thread has run beyond its samples is its balance. It may be less than a period, or below zero: if
//! the kernel switches from one thread to another of the same clocks, these go on, and what the first has
//! begun is the second's. So a thread gets no stack before the balances of all together make a period. Then
//! each of many short threads is as likely to be seen as its time is long.

use crate::event::{Event, Sample};
use hashbrown::HashMap;
use std::ops::{Range, RangeInclusive};
use std::time::{Duration, Instant};

/// How often threads are looked at that run.
const APART: Duration = Duration::from_secs(1);
/// How many threads are looked at each time that seem not to run. One that works in the kernel all the time
/// has no samples either.
const MOST_QUIET: usize = 256;

/// Time of a thread that was not sampled, in periods.
pub struct Missing {
    /// Process and thread.
    pub thread: (u32, u32),
    /// The nanoseconds of a period.
    pub period: u64,
    /// When each of them was, in nanoseconds.
    pub times: Vec<u64>,
}

/// Compares the time that threads have run with their samples.
pub struct Unsampled {
    /// The nanoseconds that a sample stands for.
    period: u64,
    threads: HashMap<u32, Seen>,
    /// The thread that gets what nobody else does: the first one that was asked for.
    first: Option<(u32, u32)>,
    /// The time that samples and stacks stand for, of all threads together.
    accounted: u64,
    /// The balances of all threads together, as they were at the last look, or at the end of a thread.
    balance: i64,
    /// When the recording began.
    begun: u64,
    looked: Instant,
    /// The last thread of those that were looked at because they seemed not to run.
    quiet: u32,
    /// When the threads were looked at, and how long each had run: for as long as there are records from
    /// before.
    look: Option<(u64, Vec<(u32, u64)>)>,
}

/// What is known of a thread.
struct Seen {
    pid: u32,
    /// What `/proc` said at the last look.
    told: u64,
    /// How long it had run then, since the recording began.
    run: u64,
    /// How long it had run when it ended. Each processor has told its part.
    ended: u64,
    /// The time that its samples and stacks stand for.
    accounted: u64,
    /// Its part of the balance of all.
    balance: i64,
    /// When that was found last.
    since: u64,
    /// Whether it was sampled since the last look.
    active: bool,
    /// Whether it has ended, and whether that was before the last look.
    over: (bool, bool),
}

impl Seen {
    /// A thread of which `/proc` said how long it had run before the recording.
    fn new(pid: u32, told: u64, since: u64) -> Self {
        let (run, ended, accounted, balance, active) = (0, 0, 0, 0, false);
        Self { pid, told, run, ended, accounted, balance, since, active, over: (false, false) }
    }

    /// How long it has run, now that `/proc` says this. That is less than before if another thread has its
    /// number: one that has made the process execute a program has that of the first.
    fn looked(&mut self, told: u64) -> u64 {
        self.run = self.run.saturating_add(told.saturating_sub(self.told));
        self.told = told;
        self.run
    }
}

impl Unsampled {
    /// The threads that have events of their own from now on. A sample stands for `period` nanoseconds.
    pub fn new(period: u64, processes: &[u32], threads_of: impl Fn(u32) -> Vec<u32>) -> Self {
        let (begun, mut threads) = (monotonic(), HashMap::new());
        for &pid in processes {
            for tid in threads_of(pid) {
                threads.insert(tid, Seen::new(pid, has_run(pid, tid).unwrap_or(0), begun));
            }
        }
        let first = processes.first().map(|&pid| (pid, pid));
        let (period, looked) = (period.max(1), Instant::now());
        Self { period, threads, first, accounted: 0, balance: 0, begun, looked, quiet: 0, look: None }
    }

    /// Reads how long the threads have run that were sampled, and some others in turn, if that was not done
    /// for a second.
    pub fn look(&mut self) {
        if self.looked.elapsed() >= APART && self.look.is_none() {
            let quiet = self.next_quiet();
            self.look_at(|tid, thread| thread.active || quiet.contains(&tid));
        }
    }

    /// The numbers that threads have whose turn it is, though they seem not to run.
    fn next_quiet(&mut self) -> RangeInclusive<u32> {
        let is_next = |tid: &u32, thread: &Seen| *tid > self.quiet && !thread.active && !thread.over.0;
        let next = self.threads.iter().filter(|(tid, thread)| is_next(tid, thread));
        let mut next: Vec<u32> = next.map(|(&tid, _)| tid).collect();
        let from = self.quiet.saturating_add(1);
        if next.len() > MOST_QUIET {
            self.quiet = *next.select_nth_unstable(MOST_QUIET - 1).1;
            from..=self.quiet
        } else {
            self.quiet = 0;
            from..=u32::MAX
        }
    }

    fn look_at(&mut self, is_due: impl Fn(u32, &Seen) -> bool) {
        self.looked = Instant::now();
        let time = monotonic();
        let alive = self.threads.iter_mut().filter(|(tid, thread)| !thread.over.0 && is_due(**tid, thread));
        let read = |(&tid, thread): (&u32, &mut Seen)| {
            thread.active = false;
            Some((tid, thread.looked(has_run(thread.pid, tid)?)))
        };
        let mut run: Vec<(u32, u64)> = alive.filter_map(read).collect();
        run.sort_unstable();
        self.look = Some((time, run));
    }

    /// Notes a sample of the clock.
    fn sampled(&mut self, sample: &Sample<'_>) {
        self.accounted = self.accounted.saturating_add(sample.period);
        let time = sample.time.unwrap_or(0);
        let thread = self.threads.entry(sample.tid).or_insert_with(|| Seen::new(sample.pid, 0, time));
        thread.accounted = thread.accounted.saturating_add(sample.period);
        thread.active = true;
    }

    /// Handles an event of a moment. Samples are of the clock: there is no other event. What is missing goes
    /// to `take`.
    pub fn note(&mut self, event: &Event<'_>, time: u64, take: &mut dyn FnMut(&Missing)) {
        self.settle_look(time, take);
        match *event {
            Event::Sample(ref sample) => self.sampled(sample),
            Event::Forked { pid, tid, .. } => {
                self.threads.insert(tid, Seen::new(pid, 0, time));
            }
            Event::Exited { tid, .. } => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.over.0 = true;
                }
            }
            Event::Counted { tid, count, .. } => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.ended = thread.ended.saturating_add(count);
                    // Until each processor has told its part, the last look may have seen more.
                    let run = thread.ended.max(thread.run);
                    self.balance(tid, run, time);
                    self.settle(tid, time, take);
                }
            }
            _ => {}
        }
    }

    /// Settles the last look, if there are no records from before any more.
    fn settle_look(&mut self, time: u64, take: &mut dyn FnMut(&Missing)) {
        let Some((at, all)) = self.look.take_if(|(at, _)| time > *at) else { return };
        for &(tid, run) in &all {
            self.balance(tid, run, at);
        }
        for &(tid, _) in &all {
            self.settle(tid, at, take);
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.since = thread.since.max(at);
            }
        }
        // All has been told of threads that had ended before the last look.
        self.threads.retain(|_, thread| !thread.over.1);
        self.threads.values_mut().for_each(|thread| thread.over.1 = thread.over.0);
    }

    /// Finds the balance of a thread that has run so long up to a moment.
    fn balance(&mut self, tid: u32, run: u64, at: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // No thread runs longer than time passes, if it was not sampled more than that.
        let most =
            thread.accounted.saturating_add(at.saturating_sub(thread.since)).saturating_add(self.period);
        let balance = run.min(most).cast_signed().saturating_sub(thread.accounted.cast_signed());
        self.balance += balance - std::mem::replace(&mut thread.balance, balance);
    }

    /// Passes on the periods that a thread lacks.
    fn settle(&mut self, tid: u32, at: u64, take: &mut dyn FnMut(&Missing)) {
        let (Some(thread), period) = (self.threads.get_mut(&tid), self.period) else { return };
        let lacks = |balance: i64| u64::try_from(balance).unwrap_or(0);
        let count = (lacks(self.balance) / period).min(lacks(thread.balance).div_ceil(period));
        if count == 0 {
            return;
        }
        let time = count * period;
        self.balance -= time.cast_signed();
        thread.balance -= time.cast_signed();
        thread.accounted = thread.accounted.saturating_add(time);
        self.accounted = self.accounted.saturating_add(time);
        take(&Missing {
            thread: (thread.pid, tid),
            period,
            times: spread(count, thread.since..at).collect(),
        });
    }

    /// Accounts for everything, since the recording is over. `total`: what all threads have run together.
    /// Threads that were there from the start tell nothing when they end: what is left belongs to the first.
    pub fn finish(&mut self, total: Option<u64>, take: &mut dyn FnMut(&Missing)) {
        self.settle_look(u64::MAX, take);
        self.look_at(|_, _| true);
        self.settle_look(u64::MAX, take);
        let left = total.unwrap_or(0).saturating_sub(self.accounted) / self.period;
        let Some(thread) = self.first.filter(|_| left > 0) else { return };
        let (period, now) = (self.period, monotonic());
        let since = self.threads.get(&thread.1).map_or(self.begun, |thread| thread.since);
        // Threads that took over the clocks of the first one, with its processor, tell nothing either.
        let since = if left * period > now.saturating_sub(since) { self.begun } else { since };
        take(&Missing { thread, period, times: spread(left, since..now).collect() });
    }
}

/// So many times, evenly spread.
fn spread(count: u64, range: Range<u64>) -> impl Iterator<Item = u64> {
    let length = u128::from(range.end.saturating_sub(range.start));
    (0..count).map(move |number| {
        let part = length * u128::from(2 * number + 1) / u128::from(2 * count);
        range.start.saturating_add(part as u64)
    })
}

/// How long a thread has run, in nanoseconds. `None`: it has ended, or the kernel does not count it.
fn has_run(pid: u32, tid: u32) -> Option<u64> {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    counts.split_ascii_whitespace().next()?.parse().ok()
}

/// The time of the clock of records, in nanoseconds.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Chain;

    const PERIOD: u64 = 1_000_000;
    /// No process has this number.
    const PID: u32 = u32::MAX;

    fn counter() -> Unsampled {
        let mut all = Unsampled::new(PERIOD, &[], |_| Vec::new());
        all.first = Some((PID, PID));
        all
    }

    fn sampled(all: &mut Unsampled, tid: u32, time: u64) {
        let (chain, user) = (Chain::default(), None);
        let (pid, cpu, time) = (PID, Some(0), Some(time));
        all.sampled(&Sample { pid, tid, cpu, time, period: PERIOD, ip: 0, kernel: false, chain, user });
    }

    fn forked(tid: u32) -> Event<'static> {
        Event::Forked { pid: PID, tid, parent: PID, parent_tid: PID, before: false }
    }

    fn counted(tid: u32, count: u64) -> Event<'static> {
        Event::Counted { pid: PID, tid, count, time: None }
    }

    /// The threads and times of the stacks that an event adds.
    fn noted(all: &mut Unsampled, event: &Event<'_>, time: u64) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        all.note(event, time, &mut |missing| {
            found.extend(missing.times.iter().map(|&time| (missing.thread.1, time)));
        });
        found
    }

    #[test]
    fn what_a_thread_has_run_without_samples_is_spread_over_its_life() {
        let mut all = counter();
        assert!(noted(&mut all, &forked(2), 0).is_empty());
        sampled(&mut all, 2, 3 * PERIOD);
        sampled(&mut all, 2, 7 * PERIOD);
        // It ran on two processors, each of which tells its part.
        assert!(noted(&mut all, &counted(2, 2 * PERIOD), 8 * PERIOD).is_empty());
        let found = noted(&mut all, &counted(2, 2 * PERIOD + PERIOD / 2), 8 * PERIOD);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|&(tid, time)| tid == 2 && time <= 8 * PERIOD));
        assert_eq!(all.accounted, 4 * PERIOD);
    }

    #[test]
    fn threads_that_end_within_a_period_are_seen_as_often_as_their_time_is_long() {
        let mut all = counter();
        let mut found = Vec::new();
        for tid in 10..110 {
            found.extend(noted(&mut all, &forked(tid), u64::from(tid) * PERIOD));
            found.extend(noted(&mut all, &counted(tid, PERIOD / 4), u64::from(tid) * PERIOD + PERIOD / 2));
            all.note(&Event::Exited { pid: PID, tid }, u64::from(tid) * PERIOD, &mut |_| {});
        }
        let threads: Vec<u32> = found.iter().map(|(tid, _)| *tid).collect();
        assert_eq!(threads, (10..110).filter(|tid| tid % 4 == 1).collect::<Vec<_>>());
        all.finish(Some(25 * PERIOD), &mut |missing| found.push((missing.thread.1, missing.times[0])));
        assert_eq!(found.len(), 25, "nothing is left for the first thread");
    }

    #[test]
    fn a_stack_that_came_too_early_is_taken_off_the_next() {
        let mut all = counter();
        noted(&mut all, &forked(2), 0);
        noted(&mut all, &forked(3), 0);
        assert!(noted(&mut all, &counted(2, PERIOD / 2), PERIOD).is_empty());
        assert_eq!(noted(&mut all, &counted(3, PERIOD / 2), PERIOD), [(3, PERIOD / 2)]);
        // Another processor tells that it was a whole period: half of it is there already.
        assert!(noted(&mut all, &counted(3, PERIOD / 2), 2 * PERIOD).is_empty());
        assert_eq!((all.balance, all.accounted), (PERIOD.cast_signed() / 2, PERIOD));
    }

    #[test]
    fn samples_for_what_another_thread_has_begun_are_taken_off_its_time() {
        let mut all = counter();
        noted(&mut all, &forked(2), 0);
        noted(&mut all, &forked(3), 0);
        // Both ran a period and a half, and the clock went on as they changed places.
        (1..=3).for_each(|at| sampled(&mut all, 2, at * PERIOD));
        all.look = Some((3 * PERIOD, vec![(2, 3 * PERIOD / 2), (3, 3 * PERIOD / 2)]));
        assert!(noted(&mut all, &Event::Other, 4 * PERIOD).is_empty());
    }

    #[test]
    fn a_look_waits_for_the_records_from_before() {
        let mut all = counter();
        noted(&mut all, &forked(2), 0);
        all.look = Some((10 * PERIOD, vec![(2, 10 * PERIOD)]));
        sampled(&mut all, 2, 5 * PERIOD);
        assert!(noted(&mut all, &Event::Other, 10 * PERIOD).is_empty());
        sampled(&mut all, 2, 10 * PERIOD);
        let found = noted(&mut all, &Event::Other, 10 * PERIOD + 1);
        assert_eq!(found.len(), 8);
        // A sample is no later than the look before which it is noted.
        all.look = Some((12 * PERIOD, vec![(2, 12 * PERIOD)]));
        let (chain, user, time) = (Chain::default(), None, Some(13 * PERIOD));
        let (pid, cpu) = (PID, Some(0));
        let late = Sample { pid, tid: 2, cpu, time, period: PERIOD, ip: 0, kernel: false, chain, user };
        assert_eq!(noted(&mut all, &Event::Sample(late), 13 * PERIOD).len(), 2);
        assert!(found.is_sorted() && found.iter().all(|&(_, time)| time < 10 * PERIOD));
        // Nothing is told twice.
        assert!(noted(&mut all, &counted(2, 13 * PERIOD), 13 * PERIOD).is_empty());
    }

    #[test]
    fn a_thread_runs_no_longer_than_time_passes() {
        let mut all = counter();
        noted(&mut all, &forked(2), 5);
        assert_eq!(noted(&mut all, &counted(2, u64::MAX), 5 + 2 * PERIOD).len(), 3);
    }

    /// A thread that makes the process execute another program gets the number of the first thread.
    #[test]
    fn a_thread_with_the_number_of_another_has_run_no_less() {
        let mut seen = Seen::new(PID, 100, 0);
        assert_eq!((seen.looked(150), seen.looked(10), seen.looked(15)), (50, 50, 55));
        // What it tells when it ends is what it has run itself.
        let mut all = counter();
        noted(&mut all, &forked(2), 0);
        (1..=9).for_each(|at| sampled(&mut all, 2, at * PERIOD));
        all.threads.get_mut(&2).unwrap().looked(9 * PERIOD);
        noted(&mut all, &counted(2, PERIOD), 10 * PERIOD);
        assert_eq!(all.balance, 0);
        noted(&mut all, &forked(3), 10 * PERIOD);
        assert_eq!(noted(&mut all, &counted(3, PERIOD), 11 * PERIOD).len(), 1);
    }

    /// A thread that the kernel works for all the time has no samples.
    #[test]
    fn threads_without_samples_are_looked_at_in_turn() {
        let mut all = counter();
        (1..=600).for_each(|tid| drop(noted(&mut all, &forked(tid), 0)));
        sampled(&mut all, 3, PERIOD);
        let mut turns = Vec::new();
        for _ in 0..4 {
            let turn = all.next_quiet();
            turns.push((1..=600).filter(|tid| *tid != 3 && turn.contains(tid)).count());
        }
        assert_eq!(turns, [MOST_QUIET, MOST_QUIET, 599 - 2 * MOST_QUIET, MOST_QUIET]);
    }

    #[test]
    fn what_nobody_tells_of_belongs_to_the_first_thread() {
        let mut all = counter();
        sampled(&mut all, PID, 1);
        let mut found = Vec::new();
        all.finish(Some(4 * PERIOD), &mut |missing| found.push((missing.thread, missing.times.len())));
        assert_eq!(found, [((PID, PID), 3)]);
    }

    #[test]
    fn the_kernel_says_how_long_this_thread_has_run() {
        // SAFETY: it asks for a number.
        let tid = unsafe { libc::gettid() } as u32;
        let before = monotonic();
        assert!(has_run(std::process::id(), tid).is_none_or(|time| time < monotonic()));
        assert!(has_run(PID, PID).is_none() && monotonic() >= before);
    }
}
