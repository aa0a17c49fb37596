//! Signs of progress on standard error: a line that changes on a terminal, and elsewhere, in a log, a line
//! now and then.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often a log gets a line.
const PAUSE: Duration = Duration::from_secs(10);

/// Work whose parts are counted.
pub struct Progress {
    bar: ProgressBar,
    what: &'static str,
    /// A terminal has the bar, and no lines.
    terminal: bool,
    /// When the last line was written.
    written: Option<Instant>,
}

impl Progress {
    /// So many parts are to be done; `what` is the name of several.
    pub fn new(parts: usize, what: &'static str) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(parts as u64), target);
        // The template is a constant, so there is no error.
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}, {eta} left") {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self { bar, what, terminal, written: None }
    }

    /// A part begins.
    pub fn at(&mut self, part: &str) {
        self.bar.set_message(format!("{} ({part})", self.what));
        if self.terminal || self.written.is_some_and(|written| written.elapsed() < PAUSE) {
            return;
        }
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        eprintln!("ld-compare: {done} of {all} {}, now {part}", self.what);
        self.written = Some(Instant::now());
    }

    /// Parts are done.
    pub fn done(&mut self, parts: usize) {
        self.bar.inc(parts as u64);
    }

    /// Prints text on standard output in a way that leaves no bar in it.
    pub fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
