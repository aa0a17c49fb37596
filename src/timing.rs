//! `--time-report` and `--time-trace`: how long each pass took, and how busy each thread was in it.

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time of each pass, in order.
#[derive(Debug)]
pub struct Timings {
    started: Instant,
    /// Microseconds since 1970 at `started`.
    started_at: u128,
    last: Instant,
    /// Processor time of all threads at `last`.
    last_busy: Duration,
    passes: Vec<Pass>,
    /// `--time-trace`: processor time of each thread when the last pass ended.
    clocks: Option<BTreeMap<u64, Duration>>,
    /// The threads of the link; 0 until they start.
    pub threads: usize,
}

#[derive(Debug)]
struct Pass {
    name: &'static str,
    start: Duration,
    duration: Duration,
    /// Processor time of all threads together, the system's included.
    processor: Duration,
    /// Processor time of each thread that ran, by its number.
    busy: Vec<(u64, Duration)>,
}

impl Default for Timings {
    fn default() -> Self {
        let now = Instant::now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timings {
            started: now,
            started_at: since_1970.as_micros(),
            last: now,
            last_busy: processor_time(),
            passes: Vec::with_capacity(32),
            clocks: None,
            threads: 0,
        }
    }
}

impl Timings {
    /// From now on, passes note how long each thread ran in them.
    pub fn watch_threads(&mut self) {
        self.clocks = Some(thread_clocks());
    }

    /// Ends a pass: it took the time since the one before ended.
    pub fn pass(&mut self, name: &'static str) {
        let now = Instant::now();
        let busy = self.clocks.as_mut().map(busy_since).unwrap_or_default();
        let (start, duration) = (self.last - self.started, now - self.last);
        let last_busy = processor_time();
        let processor = last_busy.saturating_sub(self.last_busy);
        self.passes.push(Pass { name, start, duration, processor, busy });
        (self.last, self.last_busy) = (now, last_busy);
    }

    /// The report, a line for each pass: how long it took, its share, the processor time of all
    /// threads, and how many processors were busy on average. The last line is the number of threads.
    pub fn report(&self) -> String {
        let total = self.last - self.started;
        let line = |name: &str, duration: Duration, processor: Duration| {
            let share = 100.0 * duration.as_secs_f64() / total.as_secs_f64().max(1e-9);
            let busy = processor.as_secs_f64() / duration.as_secs_f64().max(1e-9);
            let (wall, processor) = (duration.as_secs_f64() * 1e3, processor.as_secs_f64() * 1e3);
            format!("{wall:>10.3} ms {share:>5.1} % {processor:>10.3} ms CPU {busy:>5.2} busy  {name}\n")
        };
        let passes = self.passes.iter().map(|pass| line(pass.name, pass.duration, pass.processor));
        let total = line("total", total, self.passes.iter().map(|pass| pass.processor).sum());
        passes.chain([total, format!("{:>10} threads\n", self.threads)]).collect()
    }

    /// The passes as Chrome's trace events, those shorter than `granularity` left out.
    ///
    /// The first row holds the passes. Each thread has a row of its own: its work during a pass is
    /// one stretch from the pass's start on, because the system tells only how long a thread ran.
    pub fn trace(&self, granularity: Duration) -> Value {
        let process = std::process::id();
        let complete = |name: &str, thread: u64, start: Duration, duration: Duration| {
            let (start, duration) = (start.as_micros() as u64, duration.as_micros() as u64);
            json!({ "ph": "X", "pid": process, "tid": thread, "ts": start, "dur": duration, "name": name })
        };
        let named = |what: &str, thread: u64, name: String| json!({ "ph": "M", "pid": process, "tid": thread, "ts": 0, "name": what, "args": { "name": name } });
        let mut events = vec![
            named("process_name", 0, "sframe-ld".into()),
            named("thread_name", 0, "passes".into()),
            complete("link", 0, Duration::ZERO, self.last - self.started),
        ];
        let mut rows = BTreeMap::new();
        for pass in self.passes.iter().filter(|pass| pass.duration >= granularity) {
            events.push(complete(pass.name, 0, pass.start, pass.duration));
            for &(thread, busy) in pass.busy.iter().filter(|(_, busy)| *busy >= granularity) {
                let next = rows.len() as u64 + 1;
                let row = *rows.entry(thread).or_insert(next);
                events.push(complete(pass.name, row, pass.start, busy.min(pass.duration)));
            }
        }
        events.extend(rows.values().map(|&row| named("thread_name", row, format!("thread {row}"))));
        json!({ "traceEvents": events, "beginningOfTime": self.started_at as u64 })
    }
}

/// Processor time that this process has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// CPU time of each thread since `clocks`, which are brought up to date.
fn busy_since(clocks: &mut BTreeMap<u64, Duration>) -> Vec<(u64, Duration)> {
    let now = thread_clocks();
    let ran = |(&thread, &clock): (&u64, &Duration)| {
        (thread, clock.saturating_sub(clocks.get(&thread).copied().unwrap_or_default()))
    };
    let busy = now.iter().map(ran).filter(|(_, ran)| !ran.is_zero()).collect();
    *clocks = now;
    busy
}

/// Processor time of each thread of this process, as Linux tells it; empty where it does not.
fn thread_clocks() -> BTreeMap<u64, Duration> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let clock = |thread: std::fs::DirEntry| {
        let number = thread.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some((number, Duration::from_nanos(text.split(' ').next()?.parse().ok()?)))
    };
    threads.filter_map(clock).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_passes_are_left_out_of_a_trace() {
        let mut timings = Timings::default();
        timings.watch_threads();
        timings.pass("first");
        std::thread::sleep(Duration::from_millis(2));
        timings.pass("second");
        let names = |granularity| {
            let trace = timings.trace(Duration::from_micros(granularity));
            let events = trace["traceEvents"].as_array().unwrap();
            let rows = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == 0);
            rows.map(|event| event["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["link", "first", "second"]);
        assert_eq!(names(1900), ["link", "second"]);
    }
}
