//! How many stacks reached the root, and why the others did not.

use crate::coverage::{Coverage, Stretch, Stretches};
use crate::files::{FileId, Files};
use crate::modules::Modules;
use serde::{Deserialize, Serialize};
use sframe_format::Source;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// The sentence of [`End::NoRegisters`].
const NO_REGISTERS: &str = "no registers in the recording";
/// The shortest time of which a rate says anything.
const MEASURABLE: Duration = Duration::from_millis(1);

/// Where a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// At the root.
    Root,
    /// The call chain is the recording's own, and nothing was unwound.
    Recorded,
    /// A file has no rows for an address.
    NoRows(FileId),
    /// The rows of a file are malformed.
    Malformed(FileId),
    /// The program made this code while it ran, and it has no rows.
    Jit,
    /// An address is in no known file.
    Unmapped,
    /// The program went on on another stack, and the sample has a copy of the last one only.
    OtherStack,
    /// The recorder copied too little of the stack.
    CopyEnded,
    /// The copy of the stack ends at a page that was not there: nobody had written to it yet. A large array
    /// of a function has such pages.
    PageMissing,
    /// The walk needs memory that was not copied.
    Memory,
    /// The walk needs the value of a register, and it is unknown.
    Register,
    /// The caller's frame would not be above this one.
    NoProgress,
    /// The stack has more frames than a real one.
    TooDeep,
    /// The program has 32 bits.
    Narrow,
    /// The recording has no registers.
    NoRegisters,
    /// It is no sample: the thread ran so long without one.
    NotSampled,
}

impl End {
    /// Whether the walk reached the root.
    pub fn is_rooted(self) -> bool {
        self == Self::Root
    }

    /// The end as a sentence.
    pub fn describe(self, modules: &Modules) -> String {
        let name = |id| modules.get(id).map_or("?", |module| &*module.path);
        match self {
            Self::Root => "root".into(),
            Self::Recorded => "the call chain is the recording's own".into(),
            Self::NoRows(id) => match modules.get(id).and_then(|module| module.unusable.as_deref()) {
                Some(reason) => format!("no rows in {}: {reason}", name(id)),
                _ => format!("no rows in {} for the address", name(id)),
            },
            Self::Malformed(id) => format!("malformed rows in {}", name(id)),
            Self::Jit => "code that was made as the program ran".into(),
            Self::Unmapped => "an address in no file".into(),
            Self::OtherStack => "the program switched stacks, and the one before was not copied".into(),
            Self::CopyEnded => "the copy of the stack ended".into(),
            Self::PageMissing => "the copy of the stack ended at a page that was not there".into(),
            Self::Memory => "memory that was not copied".into(),
            Self::Register => "a register that is not known".into(),
            Self::NoProgress => "the caller's frame does not lie above".into(),
            Self::TooDeep => "too many frames".into(),
            Self::Narrow => "a 32-bit program".into(),
            Self::NoRegisters => NO_REGISTERS.into(),
            Self::NotSampled => "time that was not sampled".into(),
        }
    }
}

/// Counts over all samples.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Samples.
    pub samples: u64,
    /// Samples that were unwound in the kernel.
    pub in_kernel: u64,
    /// Frames of user code that were unwound.
    pub frames: u64,
    /// Frames of the kernel.
    pub kernel_frames: u64,
    /// Number of walks by their end.
    pub ends: BTreeMap<End, u64>,
    /// Number of unwound frames by source.
    pub sources: BTreeMap<Source, u64>,
    /// Frames of user code from call chains in the recording.
    pub recorded_frames: u64,
    /// Records that were lost while the recording was made.
    pub lost: u64,
    /// How much of what ran the samples stand for.
    pub coverage: Coverage,
    /// Records that are shorter than they say.
    pub unreadable: u64,
    /// Hits and misses of the cache.
    pub cache: (u64, u64),
    /// Time spent unwinding, without the time for reading rows.
    pub unwinding: Duration,
    /// Time spent reading the rows of files.
    pub reading: Duration,
    /// Time of the whole run up to the last stack.
    pub whole: Duration,
    /// The largest number of processes at a time.
    pub processes: usize,
}

/// [`Statistics`] for programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    samples: u64,
    in_kernel: u64,
    rooted: u64,
    rooted_share: f64,
    frames: u64,
    kernel_frames: u64,
    ends: BTreeMap<String, u64>,
    sources: BTreeMap<String, u64>,
    lost: u64,
    unreadable: u64,
    coverage: CoverageReport,
    processes: usize,
    files: usize,
    /// Number of addresses in these files whose rows were needed.
    addresses: usize,
    cache_hits: u64,
    cache_misses: u64,
    unwinding_seconds: f64,
    reading_seconds: f64,
    samples_per_second_unwinding: f64,
    whole_seconds: f64,
    samples_per_second: f64,
    /// The largest amount of memory that this process has used, in bytes. 0: the system does not say.
    peak_memory: u64,
}

/// [`Coverage`] for programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct CoverageReport {
    /// Processor time by the kernel's count. Absent where nobody counted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    processor_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled_seconds: Option<f64>,
    /// The time of which stacks say that it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unsampled_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    /// Whether that time is also the time in the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    with_kernel: Option<bool>,
    /// Seconds between the samples of a processor that so many of a hundred do not exceed.
    intervals: BTreeMap<u8, f64>,
    lost: StretchesReport,
    throttled: StretchesReport,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct StretchesReport {
    count: u64,
    seconds: f64,
    longest_seconds: f64,
    first: Vec<Stretch>,
}

/// The shares of samples whose distances are reported, in hundredths.
const SHARES: [u8; 5] = [10, 50, 75, 90, 99];

impl CoverageReport {
    fn new(coverage: &Coverage) -> Self {
        let time = coverage.processor_time;
        let seconds =
            |share: u8| coverage.intervals.quantile(f64::from(share) / 100.0).map(|at| at.as_secs_f64());
        let stretches = |stretches: &Stretches| StretchesReport {
            count: stretches.count,
            seconds: stretches.total.as_secs_f64(),
            longest_seconds: stretches.longest.as_secs_f64(),
            first: stretches.first.clone(),
        };
        Self {
            processor_seconds: time.map(|time| time.counted.as_secs_f64()),
            sampled_seconds: time.map(|time| time.sampled.as_secs_f64()),
            unsampled_seconds: time.map(|time| time.unsampled.as_secs_f64()),
            share: coverage.share(),
            with_kernel: time.map(|time| time.with_kernel),
            intervals: SHARES.iter().filter_map(|&share| Some((share, seconds(share)?))).collect(),
            lost: stretches(&coverage.lost),
            throttled: stretches(&coverage.throttled),
        }
    }

    /// Adds lines for people.
    fn add_text(&self, text: &mut String) {
        if let (Some(share), Some(seconds)) = (self.share, self.processor_seconds) {
            let unsampled = 100.0 * self.unsampled_seconds.unwrap_or(0.0) / seconds;
            let rest = match (unsampled > 0.0, self.with_kernel) {
                (true, Some(false)) => format!(", {unsampled:.2} % [not sampled], with that in the kernel"),
                (true, _) => format!(", {unsampled:.2} % [not sampled]"),
                (false, Some(false)) => ", that in the kernel left out".to_owned(),
                (false, _) => String::new(),
            };
            let share = 100.0 * share;
            let _ = writeln!(text, "coverage  {share:>9.2} % of {seconds:.3} s of processor time{rest}");
        }
        let milliseconds = |share: u8| self.intervals.get(&share).map_or(0.0, |seconds| 1000.0 * seconds);
        if !self.intervals.is_empty() {
            let [tenth, half, _, most, nearly] = SHARES.map(milliseconds);
            let _ = writeln!(
                text,
                "intervals {half:>9.3} ms between a processor's samples (median), a tenth below {tenth:.3}, above \
                 {most:.3}, a hundredth above {nearly:.3}"
            );
        }
        for (stretches, what) in
            [(&self.lost, "samples lost"), (&self.throttled, "samples stopped by the kernel")]
        {
            if stretches.count > 0 {
                let (all, longest) = (1000.0 * stretches.seconds, 1000.0 * stretches.longest_seconds);
                let _ = writeln!(
                    text,
                    "  {:>10} stretches with {what}: {all:.1} ms, the longest {longest:.1} ms",
                    stretches.count
                );
            }
        }
    }
}

impl Statistics {
    /// The counts with names.
    pub fn report(&self, files: &Files) -> Report {
        let rooted = self.ends.get(&End::Root).copied().unwrap_or(0);
        let (mut ends, modules) = (BTreeMap::new(), Modules::of(files));
        for (end, count) in &self.ends {
            *ends.entry(end.describe(&modules)).or_default() += count;
        }
        let mut sources: BTreeMap<String, u64> =
            self.sources.iter().map(|(source, count)| (source.name().to_owned(), *count)).collect();
        if self.recorded_frames > 0 {
            sources.insert("recorded".into(), self.recorded_frames);
        }
        let asked = files.iter().map(|(_, file)| file.addresses_asked()).filter(|&count| count > 0);
        let (count, addresses) = asked.fold((0, 0), |(files, all), count| (files + 1, all + count));
        // The rate of a time that was not measured, or is too short for that, is unknown.
        let rate = |time: Duration| {
            let rate = self.samples as f64 / time.as_secs_f64();
            if time < MEASURABLE { 0.0 } else { rate }
        };
        Report {
            samples: self.samples,
            in_kernel: self.in_kernel,
            rooted,
            rooted_share: rooted as f64 / self.samples.max(1) as f64,
            frames: self.frames,
            kernel_frames: self.kernel_frames,
            ends,
            sources,
            lost: self.lost,
            unreadable: self.unreadable,
            coverage: CoverageReport::new(&self.coverage),
            processes: self.processes,
            files: count,
            addresses,
            cache_hits: self.cache.0,
            cache_misses: self.cache.1,
            reading_seconds: self.reading.as_secs_f64(),
            unwinding_seconds: self.unwinding.as_secs_f64(),
            samples_per_second_unwinding: rate(self.unwinding),
            whole_seconds: self.whole.as_secs_f64(),
            samples_per_second: rate(self.whole),
            peak_memory: peak_memory(),
        }
    }
}

impl Report {
    /// How many samples have neither registers nor a call chain, and how many samples there are.
    pub fn without_registers(&self) -> (u64, u64) {
        (self.ends.get(NO_REGISTERS).copied().unwrap_or(0), self.samples)
    }

    /// The statistics as text for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let share = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        let _ = writeln!(
            text,
            "samples   {:>10}   rooted {:.2} %   lost {}   unreadable {}",
            self.samples,
            share(self.rooted, self.samples),
            self.lost,
            self.unreadable
        );
        if self.in_kernel > 0 {
            let in_kernel = share(self.in_kernel, self.samples);
            let _ = writeln!(text, "  unwound in the kernel {:>10}   {in_kernel:6.2} %", self.in_kernel);
        }
        self.coverage.add_text(&mut text);
        for (end, count) in self.ends.iter().filter(|(end, _)| *end != "root") {
            let _ = writeln!(text, "  stopped {count:>10}   {:6.2} %  {end}", share(*count, self.samples));
        }
        let _ = writeln!(text, "frames    {:>10}   of the kernel {}", self.frames, self.kernel_frames);
        // Recorded frames are none of those that were unwound.
        let all = self.sources.values().sum();
        for (source, count) in &self.sources {
            let _ = writeln!(text, "  {source:<14} {count:>10} {:6.2} %", share(*count, all));
        }
        let asked = self.cache_hits + self.cache_misses;
        let _ = writeln!(
            text,
            "cache     {:>9.2} % hits of {asked}; {} files, {} addresses in them; {} processes at most",
            share(self.cache_hits, asked),
            self.files,
            self.addresses,
            self.processes
        );
        let rate = |rate: f64| if rate > 0.0 { format!(" ({rate:.0} samples/s)") } else { String::new() };
        let _ = writeln!(
            text,
            "time      {:>9.3} s unwinding{}, {:.3} s reading rows, {:.3} s in all{}; {} MiB of memory at most",
            self.unwinding_seconds,
            rate(self.samples_per_second_unwinding),
            self.reading_seconds,
            self.whole_seconds,
            rate(self.samples_per_second),
            self.peak_memory >> 20
        );
        text
    }
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.map_or(0, |kilobytes| kilobytes << 10)
}
