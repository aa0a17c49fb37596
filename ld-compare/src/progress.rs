//! Shows on standard error that a long command makes progress: a terminal gets a line that changes, a log
//! gets a line now and then.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The time between two lines in a log.
const PAUSE: Duration = Duration::from_secs(10);

/// Work whose parts are counted.
pub struct Progress {
    bar: ProgressBar,
    what: &'static str,
    /// Whether this is a terminal, which gets a bar instead of lines.
    terminal: bool,
    /// The time at which the last line was written.
    written: Option<Instant>,
}

impl Progress {
    /// Starts with the number of parts to do; `what` names several of them.
    pub fn new(parts: usize, what: &'static str) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(parts as u64), target);
        // The template is a constant, so this cannot fail.
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}, {eta} left") {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self { bar, what, terminal, written: None }
    }

    /// Says that a part begins.
    pub fn at(&mut self, part: &str) {
        self.bar.set_message(format!("{} ({part})", self.what));
        if self.terminal || self.written.is_some_and(|written| written.elapsed() < PAUSE) {
            return;
        }
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        eprintln!("ld-compare: {done} of {all} {}, now {part}", self.what);
        self.written = Some(Instant::now());
    }

    /// Says that parts are done.
    pub fn done(&mut self, parts: usize) {
        self.bar.inc(parts as u64);
    }

    /// Prints text on standard output and keeps the bar out of it.
    pub fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
