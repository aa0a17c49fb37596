//! `--time-report`: how long each pass took.

use std::time::{Duration, Instant};

/// Wall-clock time of each pass, in order.
#[derive(Debug)]
pub struct Timings {
    started: Instant,
    last: Instant,
    passes: Vec<(&'static str, Duration)>,
}

impl Default for Timings {
    fn default() -> Self {
        let now = Instant::now();
        Timings { started: now, last: now, passes: Vec::with_capacity(32) }
    }
}

impl Timings {
    /// Ends a pass: the time since the one before ended is its.
    pub fn pass(&mut self, name: &'static str) {
        let now = Instant::now();
        self.passes.push((name, now - self.last));
        self.last = now;
    }

    /// The report, a line for each pass.
    pub fn report(&self) -> String {
        use std::fmt::Write;
        let total = self.last - self.started;
        let mut text = String::new();
        for (name, duration) in &self.passes {
            let share = 100.0 * duration.as_secs_f64() / total.as_secs_f64().max(1e-9);
            let _ = writeln!(text, "{:>10.3} ms {share:>5.1} %  {name}", duration.as_secs_f64() * 1e3);
        }
        let _ = writeln!(text, "{:>10.3} ms 100.0 %  total", total.as_secs_f64() * 1e3);
        text
    }
}
