//! `--time-report` and `--time-trace`: how long each pass took, and how busy each thread was in it.

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
    passes: Vec<Pass>,
    /// `--time-trace`: processor time of each thread when the last pass ended.
    clocks: Option<BTreeMap<u64, Duration>>,
}

#[derive(Debug)]
struct Pass {
    name: &'static str,
    start: Duration,
    duration: Duration,
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
            passes: Vec::with_capacity(32),
            clocks: None,
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
        self.passes.push(Pass { name, start, duration, busy });
        self.last = now;
    }

    /// The report, a line for each pass.
    pub fn report(&self) -> String {
        use std::fmt::Write;
        let total = self.last - self.started;
        let mut text = String::new();
        for Pass { name, duration, .. } in &self.passes {
            let share = 100.0 * duration.as_secs_f64() / total.as_secs_f64().max(1e-9);
            let _ = writeln!(text, "{:>10.3} ms {share:>5.1} %  {name}", duration.as_secs_f64() * 1e3);
        }
        let _ = writeln!(text, "{:>10.3} ms 100.0 %  total", total.as_secs_f64() * 1e3);
        text
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
