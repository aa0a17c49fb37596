//! Memory of which the program in the kernel still knew what was there before.
//!
//! A process that loads a library where another one was, or executes another program, is some ten
//! milliseconds ahead of the program. A stack from that time that leads through such memory was unwound by
//! the rows of the file before.

use crate::session::Former;
use std::collections::HashMap;

/// For how long changes are kept after the program was told of them, in nanoseconds. Stacks come a few
/// hundredths of a second after their time.
const KEPT: u64 = 10_000_000_000;

/// Memory that has changed its contents.
struct Change {
    former: Former,
    /// When the program knew. `None`: it does not know yet.
    told: Option<u64>,
}

/// The changes of all processes.
#[derive(Default)]
pub struct Stale {
    by_pid: HashMap<u32, Vec<Change>>,
}

impl Stale {
    /// Records that a process has something else at some addresses.
    pub fn change(&mut self, pid: u32, former: Former) {
        self.by_pid.entry(pid).or_default().push(Change { former, told: None });
    }

    /// Records that the program knows at the time `now` of all changes of a process.
    pub fn tell(&mut self, pid: u32, now: u64) {
        let Some(changes) = self.by_pid.get_mut(&pid) else { return };
        changes.retain(|change| change.told.is_none_or(|told| now.saturating_sub(told) < KEPT));
        changes.iter_mut().for_each(|change| change.told = change.told.or(Some(now)));
        if changes.is_empty() {
            self.by_pid.remove(&pid);
        }
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }

    /// The changes of a process that the program did not know of at a time.
    pub fn at(&self, pid: u32, time: u64) -> Vec<Former> {
        let changes = self.by_pid.get(&pid).map_or(&[][..], Vec::as_slice);
        let unknown = changes.iter().filter(|change| change.told.is_none_or(|told| time < told));
        unknown.map(|change| change.former.clone()).collect()
    }
}

/// The time of the clock that samples have, in nanoseconds.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it only writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::{Former, KEPT, Stale};

    fn former(start: u64) -> Former {
        Former { range: start..start + 0x1000, file: None }
    }

    #[test]
    fn a_change_counts_until_the_program_knows() {
        let mut stale = Stale::default();
        assert!(stale.at(7, 5).is_empty());
        stale.change(7, former(0x1000));
        assert_eq!(stale.at(7, 5), [former(0x1000)]);
        assert!(stale.at(8, 5).is_empty());
        stale.tell(7, 10);
        stale.change(7, former(0x3000));
        // Stacks may come after the program was told.
        assert_eq!(stale.at(7, 9), [former(0x1000), former(0x3000)]);
        assert_eq!(stale.at(7, 10), [former(0x3000)]);
        stale.tell(7, 20);
        assert!(stale.at(7, 20).is_empty());
        stale.tell(7, 20 + KEPT);
        assert!(stale.by_pid.is_empty());
    }
}
