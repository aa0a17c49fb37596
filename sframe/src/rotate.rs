//! When `sframe record` begins a new file, and what the files are called.

use clap::Args;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The shortest time and the least size after which a file may follow another: each has a page of its own.
const SHORTEST: Duration = Duration::from_secs(1);
const LEAST: u64 = 64 << 10;
/// Units of time, in seconds, and of size, in bytes.
const TIMES: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 60 * 60), ("d", 24 * 60 * 60)];
const SIZES: [(&str, u64); 3] = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
/// Endings that have another one inside.
const INNER: [(&str, &[&str]); 2] = [("gz", &["pb", "pprof"]), ("json", &["speedscope"])];

/// One file after another
#[derive(Args)]
pub struct Rotate {
    /// Write one file after another: after a time (60s, 10m, 2h, 1d), when the samples take so much memory
    /// (100MB, 1GB), or at SIGUSR2 only (signal)
    ///
    /// Each file is complete, and no sample is lost between two. The date and time at which its samples begin
    /// (UTC) stand before the ending of its name. A file gets its name when it is complete. SIGUSR2 begins
    /// another one at any time.
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    pub rotate: Option<When>,
    /// Keep so many of the files that --rotate writes, and remove older ones
    #[arg(long, value_name = "NUMBER", requires = "rotate", value_parser = parse_keep)]
    pub keep: Option<usize>,
}

/// When a new file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After this time.
    Time(Duration),
    /// When the samples take so many bytes of memory.
    Size(u64),
    /// When the user asks for it.
    Signal,
}

impl When {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "expected a time (60s, 10m, 2h, 1d), a size (100MB, 1GB) or signal".to_owned();
        if text == "signal" {
            return Ok(Self::Signal);
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let times = |units: &[(&str, u64)], unit: &str| {
            let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
            number.parse::<u64>().ok()?.checked_mul(*factor)
        };
        if let Some(seconds) = times(&TIMES, unit) {
            let time = Duration::from_secs(seconds);
            return if time >= SHORTEST { Ok(Self::Time(time)) } else { Err("expected 1s or more".into()) };
        }
        match times(&SIZES, unit.strip_suffix('B').unwrap_or(unit)) {
            Some(size) if size >= LEAST => Ok(Self::Size(size)),
            Some(_) => Err("expected 64KB or more".into()),
            None => Err(wrong()),
        }
    }

    /// From when on the time of the next file counts, if the samples of the file before count from `begun`
    /// and are set aside `now`. Times do not drift, unless the file was asked for before its time or has
    /// taken longer than twice that.
    pub fn next(self, begun: Instant, now: Instant) -> Instant {
        let Self::Time(time) = self else { return now };
        let passed = now.saturating_duration_since(begun);
        if passed < time || passed / 2 >= time { now } else { begun + time }
    }
}

fn parse_keep(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected 1 or more: the newest file stays".into()),
        number => number.map_err(|error| format!("expected a number of files: {error}")),
    }
}

/// The name of a file with a stamp before its ending. `number`: which of those with this stamp it is.
pub fn stamped(path: &Path, stamp: &str, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let (stem, ending) = name.split_at(ending_of(name));
    let number = if number > 1 { format!("-{number}") } else { String::new() };
    let stamped = [stem, format!("-{stamp}{number}").as_bytes(), ending].concat();
    path.with_file_name(OsString::from_vec(stamped))
}

/// Where the ending of a name begins, with its dot.
fn ending_of(name: &[u8]) -> usize {
    let dot = |name: &[u8]| name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0);
    let Some(last) = dot(name) else { return name.len() };
    match dot(&name[..last]) {
        Some(before) if has_inner(&name[before + 1..last], &name[last + 1..]) => before,
        _ => last,
    }
}

/// Whether an ending may stand in front of another one.
fn has_inner(inner: &[u8], outer: &[u8]) -> bool {
    let all = INNER.iter().find(|(name, _)| name.as_bytes() == outer);
    all.is_some_and(|(_, inners)| inners.iter().any(|name| name.as_bytes() == inner))
}

/// A moment as `20261129T205539Z` (ISO 8601, basic form).
pub fn stamp(moment: SystemTime) -> String {
    let seconds = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{:02}T{hour:02}{minute:02}{second:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read_and_others_refused() {
        let seconds = |seconds| Ok(When::Time(Duration::from_secs(seconds)));
        for (text, expected) in [
            ("60s", seconds(60)),
            ("10m", seconds(600)),
            ("2h", seconds(7200)),
            ("1d", seconds(86_400)),
            ("100MB", Ok(When::Size(100 << 20))),
            ("100M", Ok(When::Size(100 << 20))),
            ("64K", Ok(When::Size(64 << 10))),
            ("1GB", Ok(When::Size(1 << 30))),
            ("signal", Ok(When::Signal)),
        ] {
            assert_eq!(When::parse(text), expected, "{text}");
        }
        for text in
            ["", "60", "s", "1w", "-1s", "1.5h", "MB", "1TB", "99999999999999999999s", "9999999999999999999d"]
        {
            assert!(When::parse(text).unwrap_err().contains("60s, 10m, 2h, 1d"), "{text}");
        }
        assert_eq!(When::parse("0s").unwrap_err(), "expected 1s or more");
        assert_eq!(When::parse("63KB").unwrap_err(), "expected 64KB or more");
        assert_eq!(parse_keep("3"), Ok(3));
        assert!(parse_keep("0").is_err() && parse_keep("few").is_err());
    }

    #[test]
    fn times_count_from_when_the_samples_of_a_file_begin() {
        let (begun, hour) = (Instant::now(), Duration::from_secs(3600));
        let next = |when: When, minutes: u64| {
            let passed = when.next(begun, begun + Duration::from_secs(60 * minutes)) - begun;
            passed.as_secs() / 60
        };
        assert_eq!(next(When::Time(hour), 61), 60, "a file that is due");
        assert_eq!(next(When::Time(hour), 10), 10, "a file that a signal asked for");
        assert_eq!(next(When::Time(hour), 150), 150, "a file that took very long");
        assert_eq!(next(When::Signal, 10), 10);
        assert_eq!(next(When::parse("9999999999999999999s").unwrap(), 10), 10);
    }

    #[test]
    fn stamps_stand_before_endings() {
        for (name, expected) in [
            ("stacks.html", "stacks-T.html"),
            ("a/b.c/stacks", "a/b.c/stacks-T"),
            ("a.b.folded", "a.b-T.folded"),
            ("cpu.pb.gz", "cpu-T.pb.gz"),
            ("cpu.gz", "cpu-T.gz"),
            ("x.speedscope.json", "x-T.speedscope.json"),
            (".hidden", ".hidden-T"),
            ("perf.data", "perf-T.data"),
        ] {
            assert_eq!(stamped(Path::new(name), "T", 1), Path::new(expected));
        }
        assert_eq!(stamped(Path::new("a.svg"), "T", 2), Path::new("a-T-2.svg"));
    }

    #[test]
    fn moments_have_dates() {
        let at = |seconds| stamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101T000000Z");
        assert_eq!(at(951_782_399), "20000228T235959Z");
        assert_eq!(at(951_782_400), "20000229T000000Z");
        assert_eq!(at(951_868_800), "20000301T000000Z");
        assert_eq!(at(1_735_689_599), "20241231T235959Z");
        assert_eq!(at(1_796_000_139), "20261130T005539Z");
    }
}
