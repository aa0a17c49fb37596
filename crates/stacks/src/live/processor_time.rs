//! The processor time that the sampled programs took, by the kernel's own count.
//!
//! Threads have counters of their own for it, which everything inherits that they start: a thread that ends
//! before it is sampled counts all the same. Of a whole machine and of control groups, the kernel keeps
//! books.

use super::attribute::{Of, open, time};
use crate::ticks;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What counts the time.
pub enum Counter {
    /// Events of threads.
    Threads(Vec<Arc<File>>),
    /// The books of the machine, and what they said at the start.
    Machine(Duration),
    /// The books of a control group, and what they said at the start.
    Group(PathBuf, Duration),
    /// Nothing.
    None,
}

impl Counter {
    /// Counts the time of threads from now on, or from when they execute a program.
    pub fn of_threads(threads: &[u32], on_exec: bool) -> Self {
        let attribute = time(on_exec);
        let all: std::io::Result<Vec<OwnedFd>> =
            threads.iter().map(|&thread| open(&attribute, Of::Thread(thread), -1)).collect();
        let shared = |event| Arc::new(File::from(event));
        all.map_or(Self::None, |events| Self::Threads(events.into_iter().map(shared).collect()))
    }

    /// Takes the time from the clocks that ask for samples: they count it anyway. There may be as many as the
    /// process may have open files, so they are shared.
    pub fn of_clocks(clocks: impl Iterator<Item = Arc<File>>) -> Self {
        Self::Threads(clocks.collect())
    }

    /// Counts the time of all processors.
    pub fn of_machine() -> Self {
        machine().map_or(Self::None, Self::Machine)
    }

    /// Counts the time of a control group.
    pub fn of_group(folder: &Path) -> Self {
        let path = folder.join("cpu.stat");
        group(&path).map_or(Self::None, |start| Self::Group(path, start))
    }

    /// The time up to now. `None`: nobody counts it.
    pub fn read(&mut self) -> Option<Duration> {
        match self {
            Self::Threads(events) => {
                let mut sum = 0u64;
                for event in events {
                    let mut count = [0; 8];
                    (&**event).read_exact(&mut count).ok()?;
                    sum = sum.saturating_add(u64::from_ne_bytes(count));
                }
                Some(Duration::from_nanos(sum))
            }
            Self::Machine(start) => Some(machine()?.saturating_sub(*start)),
            Self::Group(path, start) => Some(group(path)?.saturating_sub(*start)),
            Self::None => None,
        }
    }
}

/// The time that all processors have worked.
fn machine() -> Option<Duration> {
    let ticks_worked = worked(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(Duration::from_secs_f64(ticks_worked as f64 / ticks::per_second() as f64))
}

/// The ticks of work in `/proc/stat`: for users, also with lower priority, in the kernel, and in interrupts.
fn worked(stat: &str) -> Option<u64> {
    let words = stat.lines().find_map(|line| line.strip_prefix("cpu "))?.split_whitespace();
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _wait, interrupts, soft_interrupts, ..] = ticks[..] else { return None };
    Some(
        user.saturating_add(nice)
            .saturating_add(system)
            .saturating_add(interrupts)
            .saturating_add(soft_interrupts),
    )
}

/// The time that a control group has worked, by its `cpu.stat`.
fn group(path: &Path) -> Option<Duration> {
    let books = fs::read_to_string(path).ok()?;
    let microseconds =
        books.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()?;
    Some(Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_this_thread_is_counted() {
        // SAFETY: it asks for a number.
        let mut counter = Counter::of_threads(&[unsafe { libc::gettid() } as u32], false);
        let sum = (0..1_000_000u64).fold(0u64, |sum, number| std::hint::black_box(sum ^ number));
        std::hint::black_box(sum);
        if let Some(time) = counter.read() {
            assert!(!time.is_zero());
            assert!(counter.read() >= Some(time));
        }
    }

    #[test]
    fn the_time_of_clocks_takes_no_descriptors() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[5u64.to_ne_bytes(), 7u64.to_ne_bytes()].concat()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let clock = Arc::new(file);
        let mut counter = Counter::of_clocks([&clock, &clock].into_iter().map(Arc::clone));
        assert_eq!((counter.read(), Arc::strong_count(&clock)), (Some(Duration::from_nanos(12)), 3));
    }

    #[test]
    fn the_books_of_machines_are_read() {
        assert_eq!(worked("cpu  10 20 30 400 50 6 7 0 0 0\ncpu0 1 2 3\n"), Some(73));
        assert_eq!(worked("cpu  10 20 30 400\n"), None);
        assert_eq!(worked(""), None);
        assert!(machine().is_some());
    }
}
