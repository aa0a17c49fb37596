//! Which processes belong to a recording, where the kernel's events tell of all that run on a processor.

use crate::event::Event;
use hashbrown::HashSet;

/// The processes to sample.
pub enum Members {
    /// The kernel tells of no others.
    All,
    /// These, and those that they start.
    Some {
        /// Their numbers.
        pids: HashSet<u32>,
        /// A process that belongs to them as soon as it executes the command. Until then it is a copy of this
        /// one.
        expected: Option<u32>,
    },
}

impl Members {
    /// Processes that run already.
    pub fn running(pids: &[u32]) -> Self {
        Self::Some { pids: pids.iter().copied().collect(), expected: None }
    }

    /// The process that will execute a command.
    pub fn command(pid: u32) -> Self {
        Self::Some { pids: HashSet::new(), expected: Some(pid) }
    }

    /// Whether a process belongs to the recording.
    pub fn contains(&self, pid: u32) -> bool {
        match self {
            Self::All => true,
            Self::Some { pids, .. } => pids.contains(&pid),
        }
    }

    /// Whether a process neither belongs to the recording nor is about to.
    pub fn excludes(&self, pid: u32) -> bool {
        match self {
            Self::All => false,
            Self::Some { pids, expected } => *expected != Some(pid) && !pids.contains(&pid),
        }
    }

    /// Whether an event does. Events must come in the order of time: each may say that a process begins to
    /// belong to the recording.
    pub fn admit(&mut self, event: &Event<'_>) -> bool {
        let Self::Some { pids, expected } = self else { return true };
        match event {
            Event::Mapped(mapped) => mapped.kernel || pids.contains(&mapped.pid),
            Event::Named { pid, executed, .. } => {
                if *executed && *expected == Some(*pid) {
                    *expected = None;
                    pids.insert(*pid);
                }
                pids.contains(pid)
            }
            Event::Forked { pid, parent, .. } => {
                if pids.contains(parent) {
                    pids.insert(*pid);
                } else {
                    // The number may be that of a member that has ended.
                    pids.remove(pid);
                }
                pids.contains(pid)
            }
            Event::Exited { pid, .. } | Event::Counted { pid, .. } => pids.contains(pid),
            Event::Sample(sample) => pids.contains(&sample.pid),
            Event::Deferred { .. }
            | Event::Lost { .. }
            | Event::Throttled { .. }
            | Event::Switched { .. }
            | Event::Other => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pid: u32, executed: bool) -> Event<'static> {
        Event::Named { pid, tid: pid, name: b"", executed }
    }

    fn forked(pid: u32, parent: u32) -> Event<'static> {
        Event::Forked { pid, tid: pid, parent, parent_tid: parent, before: false }
    }

    #[test]
    fn a_command_belongs_from_when_it_is_executed_with_all_that_it_starts() {
        let mut members = Members::command(10);
        assert!(!members.admit(&named(10, false)), "still a copy of the recorder");
        assert!(!members.excludes(10) && members.excludes(9), "the one is about to belong to them");
        assert!(members.admit(&named(10, true)));
        assert!(!members.excludes(10) && members.excludes(11));
        assert!(members.admit(&forked(11, 10)) && members.admit(&forked(12, 11)));
        assert!(!members.excludes(11) && !Members::All.excludes(99));
        assert!(!members.admit(&forked(13, 9)) && !members.contains(13));
        assert!(members.admit(&named(12, true)) && members.contains(12));
        // Another program gets the number of a member that has ended.
        assert!(members.admit(&Event::Exited { pid: 12, tid: 12 }));
        assert!(!members.admit(&forked(12, 9)) && !members.contains(12));
    }

    #[test]
    fn threads_of_members_belong_and_so_do_losses() {
        let mut members = Members::running(&[7]);
        let thread = Event::Forked { pid: 7, tid: 8, parent: 7, parent_tid: 7, before: false };
        assert!(members.admit(&thread) && members.contains(7));
        let lost = Event::Lost { count: 1, at: crate::event::Moment::default() };
        assert!(members.admit(&lost) && !members.admit(&named(8, true)));
        assert!(Members::All.admit(&named(8, true)));
    }
}
