//! The sink collects the diagnostics of all passes and threads.

use super::{Diagnostic, Severity};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Options that change the severity of diagnostics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// `--fatal-warnings`: a warning stops the link like an error.
    pub fatal_warnings: bool,
    /// `-w`: warnings are dropped, and `fatal_warnings` finds none, as in the other linkers.
    pub no_warnings: bool,
    /// `--noinhibit-exec`: if an output can still be made, an error becomes a warning.
    pub noinhibit_exec: bool,
}

/// The link stops here: the sink contains at least one error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aborted;

/// Collects diagnostics from all threads and returns them in a fixed order.
///
/// Reporting takes a lock, so it is for rare events. A pass that may find thousands of one kind collects
/// small records and reports only those that will be shown.
#[derive(Debug, Default)]
pub struct Sink {
    policy: Policy,
    phase: AtomicU32,
    errors: AtomicUsize,
    reported: Mutex<Vec<(u32, Diagnostic)>>,
}

impl Sink {
    /// An empty sink.
    pub fn new(policy: Policy) -> Self {
        Sink { policy, ..Sink::default() }
    }

    /// The severity that the policy gives to a diagnostic of this severity; `None` if it drops the
    /// diagnostic. A pass that finds thousands need not make the text of a dropped one.
    pub fn judged(&self, severity: Severity) -> Option<Severity> {
        match severity {
            Severity::Warning if self.policy.no_warnings => None,
            Severity::Warning if self.policy.fatal_warnings => Some(Severity::Error),
            other => Some(other),
        }
    }

    /// Takes one diagnostic. The policy adjusts its severity here and nowhere else.
    pub fn report(&self, mut diagnostic: Diagnostic) {
        let Some(severity) = self.judged(diagnostic.severity) else { return };
        diagnostic.severity = severity;
        if diagnostic.severity == Severity::Error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        let phase = self.phase.load(Ordering::Relaxed);
        self.lock().push((phase, diagnostic));
    }

    /// Takes an error after which an output can still be made; `--noinhibit-exec` turns it into a warning.
    pub fn report_recoverable(&self, mut diagnostic: Diagnostic) {
        if self.policy.noinhibit_exec && diagnostic.severity == Severity::Error {
            diagnostic.severity = Severity::Warning;
        }
        self.report(diagnostic);
    }

    /// Whether an error was reported.
    pub fn has_errors(&self) -> bool {
        self.errors.load(Ordering::Relaxed) > 0
    }

    /// Ends a phase: diagnostics reported before this call sort before those reported after it.
    ///
    /// # Errors
    /// [`Aborted`] if an error was reported so far.
    pub fn checkpoint(&self) -> Result<(), Aborted> {
        self.phase.fetch_add(1, Ordering::Relaxed);
        self.check()
    }

    /// Ends a pass within a phase whose passes may run again. If a diagnostic is then reported a second time,
    /// it counts as a repetition.
    ///
    /// # Errors
    /// [`Aborted`] if an error was reported so far.
    pub fn check(&self) -> Result<(), Aborted> {
        if self.has_errors() { Err(Aborted) } else { Ok(()) }
    }

    /// Number of diagnostics so far, for [`Sink::withdraw`].
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Withdraws all diagnostics after the first `count` that are not errors. The passes that reported them
    /// run again, on other inputs, and would report them twice.
    pub fn withdraw(&self, count: usize) {
        let mut reported = self.lock();
        let count = count.min(reported.len());
        let kept = reported.split_off(count);
        reported.extend(kept.into_iter().filter(|(_, diagnostic)| diagnostic.severity == Severity::Error));
    }

    /// Adds a note in front of the others to diagnostics of this phase, in their order: what `note` makes of
    /// one, until `most` of them have got one.
    pub fn add_notes(&self, most: usize, note: &mut dyn FnMut(&Diagnostic) -> Option<String>) {
        let phase = self.phase.load(Ordering::Relaxed);
        let mut reported = self.lock();
        let mut own: Vec<&mut Diagnostic> =
            reported.iter_mut().filter(|(of, _)| *of == phase).map(|(_, diagnostic)| diagnostic).collect();
        own.sort_by(|a, b| (a.order, &a.message, &a.notes).cmp(&(b.order, &b.message, &b.notes)));
        let noted = own.into_iter().filter_map(|diagnostic| Some((note(diagnostic)?, diagnostic)));
        noted.take(most).for_each(|(note, diagnostic)| diagnostic.notes.insert(0, note));
    }

    /// All diagnostics, sorted by phase, then by place, then by text. Exact repetitions appear once.
    pub fn into_sorted(self) -> Vec<Diagnostic> {
        self.take_sorted()
    }

    /// The same, of those so far. The sink forgets them, but not that there were errors.
    pub fn take_sorted(&self) -> Vec<Diagnostic> {
        let mut reported = std::mem::take(&mut *self.lock());
        reported.sort_by(|(phase_a, a), (phase_b, b)| {
            (phase_a, a.order, &a.message, &a.notes).cmp(&(phase_b, b.order, &b.message, &b.notes))
        });
        reported.dedup();
        reported.into_iter().map(|(_, diagnostic)| diagnostic).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(u32, Diagnostic)>> {
        self.reported.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn order_is_by_phase_then_place_and_not_by_arrival() {
        let sink = Sink::default();
        sink.report(Diagnostic::warning(Code::Internal, "late file").ordered(7, 0, 0));
        sink.report(Diagnostic::warning(Code::Internal, "early file").ordered(2, 0, 0));
        assert_eq!(sink.checkpoint(), Ok(()));
        sink.report(Diagnostic::error(Code::Internal, "second phase").ordered(1, 0, 0));
        assert_eq!(sink.checkpoint(), Err(Aborted));
        let texts: Vec<_> = sink.into_sorted().into_iter().map(|d| d.message).collect();
        assert_eq!(texts, ["early file", "late file", "second phase"]);
    }

    #[test]
    fn the_first_diagnostics_of_the_last_phase_get_notes() {
        let sink = Sink::default();
        sink.report(Diagnostic::error(Code::Internal, "of an earlier phase"));
        let _ = sink.checkpoint();
        for (message, place) in [("third", 3), ("first", 1), ("second", 2), ("without", 0)] {
            sink.report(Diagnostic::error(Code::Internal, message).ordered(place, 0, 0).note("own"));
        }
        sink.add_notes(2, &mut |found| (found.message != "without").then(|| format!("of {}", found.message)));
        let all = sink.into_sorted();
        let notes: Vec<_> = all.iter().map(|diagnostic| diagnostic.notes.join(", ")).collect();
        assert_eq!(notes, ["", "own", "of first, own", "of second, own", "own"]);
    }

    #[test]
    fn policy_is_applied_once() {
        let fatal = Sink::new(Policy { fatal_warnings: true, ..Policy::default() });
        fatal.report(Diagnostic::warning(Code::Internal, "w"));
        assert!(fatal.has_errors());
        let lenient = Sink::new(Policy { noinhibit_exec: true, ..Policy::default() });
        lenient.report_recoverable(Diagnostic::error(Code::Internal, "e"));
        assert!(!lenient.has_errors());
        let silent = Sink::new(Policy { no_warnings: true, fatal_warnings: true, ..Policy::default() });
        silent.report(Diagnostic::warning(Code::Internal, "w"));
        assert!(silent.into_sorted().is_empty());
    }
}
