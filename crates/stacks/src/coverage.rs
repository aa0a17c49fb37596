//! How much of what ran the samples stand for: how far apart they are, and where some are missing.
//!
//! A profile is read as shares of time. It misleads if samples are missing and nobody says so, above all if
//! they are missing in bursts, because then they are not independent of what the program did. So the gaps
//! that the kernel tells of are kept with their place in time, the distances of samples are counted, and a
//! live recording compares the time that its samples stand for with the processor time that the kernel
//! counts.

use crate::event::Moment;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Counted distances. Each power of two has this many counts, so a quantile is off by 6 % at most.
const STEPS: usize = 16;
/// The largest number of stretches that are kept with their place. The others are only counted.
const MOST_KEPT: usize = 1024;
/// The share of the processor time from which on it is said that it was not sampled.
const WORTH_TELLING: f64 = 0.005;
/// The fewest samples whose share of the processor time is worth a number.
const ENOUGH: u64 = 10;

/// What is known of the completeness of samples.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The processor time of the sampled programs by the kernel's count, in a live recording.
    pub processor_time: Option<ProcessorTime>,
    /// Samples of the first event.
    pub samples: u64,
    /// The sum of their periods.
    pub periods: u64,
    /// The sum of the periods of stacks that say that time was not sampled.
    pub unsampled: u64,
    /// Distances between the samples of a processor.
    pub intervals: Intervals,
    /// Stretches in which records were lost.
    pub lost: Stretches,
    /// Stretches in which the kernel took no samples, because they took too much time.
    pub throttled: Stretches,
    /// The last sample of each processor.
    last: HashMap<u32, u64>,
    /// The last record of each processor: a sample, also of a program that nobody asked for, or one that
    /// tells of lost ones.
    heard: HashMap<u32, u64>,
    /// Since when a processor takes no samples.
    throttled_since: HashMap<u32, u64>,
}

/// Processor time that was sampled, and that was there to be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    /// The time that the samples stand for.
    pub sampled: Duration,
    /// The time of which stacks say that it was not sampled.
    pub unsampled: Duration,
    /// The time that the kernel counted.
    pub counted: Duration,
    /// Whether time in the kernel is counted. Users who may not sample the kernel have no samples of it.
    pub with_kernel: bool,
}

impl ProcessorTime {
    /// The share of the time that was not sampled, if it is worth telling.
    pub fn unsampled_share(&self) -> Option<f64> {
        let share = self.unsampled.as_secs_f64() / self.counted.as_secs_f64();
        (share >= WORTH_TELLING && share.is_finite()).then_some(share)
    }

    /// What the time is that samples do not stand for, as a part of a sentence. `None`: nobody knows.
    /// `lacks`: samples were lost, or the kernel took none for a while.
    fn rest(&self, lacks: bool) -> Option<String> {
        let lost = if lacks { ", and where samples are missing" } else { "" };
        let why = if self.with_kernel {
            "in threads that ended within a period"
        } else {
            "in the kernel, which the user may not sample, and in threads that ended within a period"
        };
        let told = |share| format!("{:.0} % are [not sampled]: {why}{lost}", 100.0 * share);
        let left_out = || (!self.with_kernel).then(|| "that in the kernel left out".to_owned());
        self.unsampled_share().map(told).or_else(left_out)
    }
}

/// Counts of distances in time.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    /// By [`bucket`]. Empty if there are none.
    counts: Vec<u64>,
    all: u64,
}

impl Intervals {
    fn add(&mut self, nanoseconds: u64) {
        let bucket = bucket(nanoseconds);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.all += 1;
    }

    /// A distance that this share of the distances does not exceed. `None`: there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = ((self.all as f64 * share).ceil() as u64).clamp(1, self.all.max(1));
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_nanos(middle(bucket)))
    }
}

/// The number of the count for a distance. Those below [`STEPS`] have one each.
fn bucket(nanoseconds: u64) -> usize {
    let Some(power) = nanoseconds.checked_ilog2().filter(|power| *power >= STEPS.ilog2()) else {
        return nanoseconds as usize;
    };
    let step = nanoseconds >> (power - STEPS.ilog2()) & (STEPS as u64 - 1);
    STEPS * (power - STEPS.ilog2() + 1) as usize + step as usize
}

/// The middle of the distances that a count is for.
fn middle(bucket: usize) -> u64 {
    let (power, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    match power.checked_sub(1) {
        None => step,
        Some(shift) => ((STEPS as u64 + step) << shift) + (1 << shift) / 2,
    }
}

/// A stretch of time of a processor without samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// When it began, in nanoseconds.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

/// Stretches of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretches {
    /// How many there were.
    pub count: u64,
    /// Their lengths together, as far as they are known.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
    /// The first of them, with their places.
    pub first: Vec<Stretch>,
}

impl Stretches {
    fn add(&mut self, stretch: Option<Stretch>) {
        self.count += 1;
        let Some(stretch) = stretch else { return };
        let length = Duration::from_nanos(stretch.end.saturating_sub(stretch.start));
        self.total = self.total.saturating_add(length);
        self.longest = self.longest.max(length);
        if self.first.len() < MOST_KEPT {
            self.first.push(stretch);
        }
    }
}

impl Coverage {
    /// Notes a sample.
    pub(crate) fn sample(&mut self, cpu: Option<u32>, time: Option<u64>, period: u64) {
        self.samples += 1;
        self.periods = self.periods.saturating_add(period);
        self.heard(Moment { time, cpu });
        let (Some(cpu), Some(time)) = (cpu, time) else { return };
        if let Some(before) = self.last.insert(cpu, time) {
            self.intervals.add(time.saturating_sub(before));
        }
    }

    /// Notes that a processor's record of a moment was not lost.
    pub(crate) fn heard(&mut self, at: Moment) {
        if let Moment { cpu: Some(cpu), time: Some(time) } = at {
            self.heard.insert(cpu, time);
        }
    }

    /// Notes that records were lost up to a moment: after the last record of that processor.
    pub(crate) fn lost(&mut self, at: Moment) {
        let start = at.cpu.and_then(|cpu| self.heard.get(&cpu)).copied();
        self.heard(at);
        let (cpu, stretch) = (at.cpu, start.zip(at.time));
        self.lost.add(stretch.map(|(start, end)| Stretch { start, end, cpu }));
    }

    /// Notes that a processor takes no samples any more, or again.
    pub(crate) fn throttled(&mut self, again: bool, at: Moment) {
        let (Some(cpu), Some(time)) = (at.cpu, at.time) else {
            return if !again {
                self.throttled.add(None)
            };
        };
        if !again {
            self.throttled_since.entry(cpu).or_insert(time);
        } else if let Some(start) = self.throttled_since.remove(&cpu) {
            self.throttled.add(Some(Stretch { start, end: time, cpu: Some(cpu) }));
        }
    }

    /// The share of the processor time that the samples stand for. It may be a little above 1. `None`: nobody
    /// counted, or there are only a few. Each stands for a whole period, of which the program may have run a
    /// part, so two samples of a program of 1 ms would be 200 %.
    pub fn share(&self) -> Option<f64> {
        let time = self.processor_time.filter(|time| !time.counted.is_zero() && self.samples >= ENOUGH)?;
        Some(time.sampled.as_secs_f64() / time.counted.as_secs_f64())
    }

    /// What a reader of the profile should know, as parts of a sentence.
    pub fn notes(&self) -> Vec<String> {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        let time = self.processor_time.zip(self.share()).map(|(time, share)| {
            let (share, counted) = (100.0 * share, time.counted.as_secs_f64());
            let lacks = self.lost.count > 0 || self.throttled.count > 0;
            let rest = time.rest(lacks).map(|rest| format!(", {rest}")).unwrap_or_default();
            format!("they stand for {share:.0} % of {counted:.3} s of processor time{rest}")
        });
        let interval = self.intervals.quantile(0.5).zip(self.intervals.quantile(0.9)).map(|(half, most)| {
            let (half, most) = (milliseconds(half), milliseconds(most));
            format!("half of a processor's are at most {half:.2} ms apart, 90 % at most {most:.2} ms")
        });
        let gaps = |stretches: &Stretches, what: &str| {
            let (total, longest) = (milliseconds(stretches.total), milliseconds(stretches.longest));
            (stretches.count > 0).then(|| {
                format!(
                    "{what} in {} stretches of {total:.1} ms, the longest of {longest:.1} ms",
                    stretches.count
                )
            })
        };
        let lost = gaps(&self.lost, "samples were lost");
        let throttled = gaps(&self.throttled, "the kernel took none");
        [time, interval, lost, throttled].into_iter().flatten().collect()
    }

    /// Counts that go on after these: the next distances and stretches begin before them.
    pub(crate) fn next(&mut self) -> Self {
        let throttled_since = std::mem::take(&mut self.throttled_since);
        Self { last: self.last.clone(), heard: self.heard.clone(), throttled_since, ..Self::default() }
    }

    /// Ends the stretches that have not ended.
    pub(crate) fn finish(&mut self) {
        for (cpu, start) in std::mem::take(&mut self.throttled_since) {
            let end = self.last.get(&cpu).copied().unwrap_or(start).max(start);
            self.throttled.add(Some(Stretch { start, end, cpu: Some(cpu) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_within_a_sixteenth() {
        for nanoseconds in [0, 1, 15, 16, 17, 31, 32, 1_003_009, 1 << 40, u64::MAX] {
            let middle = middle(bucket(nanoseconds));
            assert!(middle.abs_diff(nanoseconds) <= nanoseconds / 16, "{nanoseconds}: {middle}");
        }
        let mut intervals = Intervals::default();
        assert_eq!(intervals.quantile(0.5), None);
        (0..90).for_each(|_| intervals.add(1_000_000));
        (0..10).for_each(|_| intervals.add(50_000_000));
        let millis = |share| intervals.quantile(share).unwrap().as_micros() / 1000;
        assert!(millis(0.0) <= 1 && millis(0.5) <= 1 && millis(0.9) <= 1, "{}", millis(0.9));
        assert!((47..=53).contains(&millis(0.91)) && (47..=53).contains(&millis(1.0)));
    }

    #[test]
    fn a_few_samples_have_no_share_of_the_processor_time() {
        let time = |milliseconds| Duration::from_millis(milliseconds);
        let processor_time = Some(ProcessorTime {
            sampled: time(20),
            unsampled: time(0),
            counted: time(10),
            with_kernel: true,
        });
        let with = |samples| Coverage { processor_time, samples, ..Coverage::default() };
        assert_eq!(with(20).share(), Some(2.0));
        assert!(with(20).notes()[0].contains("200 % of 0.010 s"), "{:?}", with(20).notes());
        assert_eq!((with(2).share(), with(2).notes()), (None, vec![]));
    }

    #[test]
    fn notes_say_what_the_time_is_that_was_not_sampled() {
        let noted = |unsampled, with_kernel, lost| {
            let time = |milliseconds| Duration::from_millis(milliseconds);
            let (sampled, unsampled, counted) = (time(850), time(unsampled), time(1000));
            let processor_time = Some(ProcessorTime { sampled, unsampled, counted, with_kernel });
            let lost = Stretches { count: lost, ..Stretches::default() };
            let coverage = Coverage { processor_time, samples: 850, lost, ..Coverage::default() };
            coverage.notes().remove(0)
        };
        let note = |unsampled, with_kernel| noted(unsampled, with_kernel, 0);
        let start = "they stand for 85 % of 1.000 s of processor time";
        assert_eq!(note(0, true), start);
        assert_eq!(note(0, false), format!("{start}, that in the kernel left out"));
        assert_eq!(
            note(150, true),
            format!("{start}, 15 % are [not sampled]: in threads that ended within a period")
        );
        assert!(noted(150, true, 1).ends_with("within a period, and where samples are missing"));
        assert!(
            note(150, false)
                .starts_with(&format!("{start}, 15 % are [not sampled]: in the kernel, which the user"))
        );
    }

    #[test]
    fn losses_lie_between_the_last_sample_and_the_record_that_tells_of_them() {
        let mut coverage = Coverage::default();
        let at = |cpu, time| Moment { time: Some(time), cpu: Some(cpu) };
        coverage.sample(Some(3), Some(100), 1);
        coverage.sample(Some(4), Some(150), 1);
        coverage.lost(at(3, 160));
        coverage.lost(at(5, 170));
        assert_eq!(coverage.lost.count, 2);
        assert_eq!(coverage.lost.first, [Stretch { start: 100, end: 160, cpu: Some(3) }]);
        // What comes behind it begins there, or behind a sample of another program.
        coverage.lost(at(3, 180));
        coverage.heard(at(3, 190));
        coverage.lost(at(3, 195));
        let lengths = (coverage.lost.longest, coverage.lost.total);
        assert_eq!(lengths, (Duration::from_nanos(60), Duration::from_nanos(85)));
        coverage.throttled(false, at(3, 200));
        coverage.throttled(false, at(4, 210));
        coverage.throttled(true, at(3, 230));
        coverage.throttled(true, at(6, 230));
        coverage.sample(Some(4), Some(250), 1);
        coverage.finish();
        let lengths = (coverage.throttled.longest, coverage.throttled.total);
        assert_eq!(lengths, (Duration::from_nanos(40), Duration::from_nanos(70)));
        assert_eq!(coverage.throttled.count, 2);
    }
}
