//! Which events to sample, by the names that `perf list` gives them.

use perf_event_open_sys::bindings as sys;
use std::path::Path;

/// Where the kernel describes tracepoints.
const TRACING: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// An event to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub name: String,
    /// `type` and `config` of its attribute.
    pub(super) kind: (u32, u64),
    /// A sample for so many events, instead of so many samples in a second.
    pub period: Option<u64>,
}

/// Events that count by software: their names, numbers, and whether a sample stands for each of them.
const SOFTWARE: [(&str, u32, bool); 13] = [
    ("cpu-clock", sys::PERF_COUNT_SW_CPU_CLOCK, false),
    ("task-clock", sys::PERF_COUNT_SW_TASK_CLOCK, false),
    ("page-faults", sys::PERF_COUNT_SW_PAGE_FAULTS, false),
    ("faults", sys::PERF_COUNT_SW_PAGE_FAULTS, false),
    ("minor-faults", sys::PERF_COUNT_SW_PAGE_FAULTS_MIN, false),
    ("major-faults", sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ, false),
    ("context-switches", sys::PERF_COUNT_SW_CONTEXT_SWITCHES, true),
    ("cs", sys::PERF_COUNT_SW_CONTEXT_SWITCHES, true),
    ("cpu-migrations", sys::PERF_COUNT_SW_CPU_MIGRATIONS, true),
    ("migrations", sys::PERF_COUNT_SW_CPU_MIGRATIONS, true),
    ("alignment-faults", sys::PERF_COUNT_SW_ALIGNMENT_FAULTS, true),
    ("emulation-faults", sys::PERF_COUNT_SW_EMULATION_FAULTS, true),
    ("cgroup-switches", sys::PERF_COUNT_SW_CGROUP_SWITCHES, true),
];

/// Events that the processor counts.
const HARDWARE: [(&str, u32); 12] = [
    ("cycles", sys::PERF_COUNT_HW_CPU_CYCLES),
    ("cpu-cycles", sys::PERF_COUNT_HW_CPU_CYCLES),
    ("instructions", sys::PERF_COUNT_HW_INSTRUCTIONS),
    ("cache-references", sys::PERF_COUNT_HW_CACHE_REFERENCES),
    ("cache-misses", sys::PERF_COUNT_HW_CACHE_MISSES),
    ("branches", sys::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    ("branch-instructions", sys::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    ("branch-misses", sys::PERF_COUNT_HW_BRANCH_MISSES),
    ("bus-cycles", sys::PERF_COUNT_HW_BUS_CYCLES),
    ("stalled-cycles-frontend", sys::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
    ("stalled-cycles-backend", sys::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
    ("ref-cycles", sys::PERF_COUNT_HW_REF_CPU_CYCLES),
];

impl Choice {
    /// The event with a name: one that software or the processor counts, a tracepoint (`sched:sched_switch`),
    /// or a raw number of the processor's (`r1a8`). `/N` behind it makes a sample of every Nth event.
    ///
    /// # Errors
    /// There is no such event.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, every) = match text.split_once('/') {
            Some((name, period)) => (name, Some(period)),
            None => (text, None),
        };
        let period = every.map(|period| {
            let number = period.parse().ok().filter(|&number: &u64| number > 0);
            number.ok_or(format!("expected a number of events behind the slash of {text}, found {period:?}"))
        });
        let ((kind, config), single) = number(name)?;
        let period = period.transpose()?.or(single.then_some(1));
        Ok(Self { name: name.to_owned(), kind: (kind, config), period })
    }

    /// Processor time, as its clock counts it.
    pub(super) fn cpu_clock() -> Self {
        let kind = (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_CPU_CLOCK.into());
        Self { name: "cpu-clock".into(), kind, period: None }
    }

    /// Processor time, as its cycles count it.
    pub(super) fn cycles() -> Self {
        let kind = (sys::PERF_TYPE_HARDWARE, sys::PERF_COUNT_HW_CPU_CYCLES.into());
        Self { name: "cycles".into(), kind, period: None }
    }

    /// Each time that a thread leaves its processor.
    pub(super) fn off_cpu() -> Self {
        let kind = (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_CONTEXT_SWITCHES.into());
        Self { name: "off-cpu".into(), kind, period: Some(1) }
    }

    /// Whether it counts nanoseconds.
    pub(super) fn counts_nanoseconds(&self) -> bool {
        self.is_time() && self.kind != Self::cycles().kind
    }

    /// Whether it counts nanoseconds and takes a sample at each period.
    pub(super) fn is_clock(&self) -> bool {
        self.counts_nanoseconds() && self.period.is_none()
    }

    /// Whether its samples stand for processor time.
    pub(super) fn is_time(&self) -> bool {
        [Self::cpu_clock(), Self::cycles()].iter().any(|time| time.kind == self.kind)
            || self.kind == (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_TASK_CLOCK.into())
    }
}

/// The numbers of an event, and whether each one is worth a sample.
fn number(name: &str) -> Result<((u32, u64), bool), String> {
    if let Some(&(_, number, single)) = SOFTWARE.iter().find(|(known, ..)| *known == name) {
        return Ok(((sys::PERF_TYPE_SOFTWARE, number.into()), single));
    }
    if let Some(&(_, number)) = HARDWARE.iter().find(|(known, _)| *known == name) {
        return Ok(((sys::PERF_TYPE_HARDWARE, number.into()), false));
    }
    if let Some(number) = name.strip_prefix('r').and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        return Ok(((sys::PERF_TYPE_RAW, number), false));
    }
    if let Some((group, point)) = name.split_once(':') {
        return Ok(((sys::PERF_TYPE_TRACEPOINT, tracepoint(group, point)?), true));
    }
    let known: Vec<&str> = SOFTWARE.iter().map(|row| row.0).chain(HARDWARE.iter().map(|row| row.0)).collect();
    Err(format!(
        "there is no event {name:?}; expected {}, a tracepoint such as sched:sched_switch, or r and a hexadecimal number of \
         the processor's",
        known.join(", ")
    ))
}

/// The number of a tracepoint, which the kernel says in a file.
fn tracepoint(group: &str, point: &str) -> Result<u64, String> {
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !is_name(group) || !is_name(point) {
        return Err(format!("expected GROUP:TRACEPOINT, found {group}:{point}"));
    }
    let file = |folder: &str| std::fs::read_to_string(Path::new(folder).join(group).join(point).join("id"));
    match TRACING.iter().find_map(|folder| file(folder).ok()?.trim().parse().ok()) {
        Some(number) => Ok(number),
        None => Err(format!(
            "no tracepoint {group}:{point} in {}; is tracefs mounted, and may this user read it?",
            TRACING[0]
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_periods_of_events_are_read() {
        let software =
            |name: &str| Choice::parse(name).map(|choice| (choice.name, choice.kind.1, choice.period));
        assert_eq!(software("cpu-clock"), Ok(("cpu-clock".into(), 0, None)));
        assert_eq!(software("page-faults/100"), Ok(("page-faults".into(), 2, Some(100))));
        assert_eq!(software("cs"), Ok(("cs".into(), 3, Some(1))));
        assert_eq!(Choice::parse("r1A8").map(|choice| choice.kind), Ok((sys::PERF_TYPE_RAW, 0x1a8)));
        assert!(Choice::parse("task-clock").is_ok_and(|choice| choice.is_time()));
        assert!(!Choice::parse("instructions").is_ok_and(|choice| choice.is_time()));
        for (wrong, reason) in [
            ("cycels", "there is no event \"cycels\"; expected cpu-clock, "),
            ("cycles/0", "expected a number of events behind the slash of cycles/0, found \"0\""),
            ("cycles/", "found \"\""),
            ("..:id", "expected GROUP:TRACEPOINT"),
            ("none:none", "no tracepoint none:none in /sys/kernel/tracing/events; is tracefs mounted"),
        ] {
            let message = Choice::parse(wrong).unwrap_err();
            assert!(message.contains(reason), "{wrong}: {message}");
        }
    }
}
