//! How many samples each function has: those in which it runs itself, and those in which it is on the stack.
//!
//! A function is known by its name and the last part of its file's path, so that it is the same in two builds
//! in different folders. A function that calls itself counts once for a sample.

use crate::named::Named;
use crate::profile::Row;
use crate::statistics::End;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// A function's name, and the last part of its file's path. The number of a process in it counts for nothing.
pub type Function<'a> = (&'a str, &'a str);

/// A function's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Those in which it runs itself.
    pub own: u64,
    /// Those in which it or one of its callees runs.
    pub total: u64,
}

/// The samples of all functions.
#[derive(Debug, Default)]
pub struct Counts<'a> {
    /// By function.
    pub functions: BTreeMap<Function<'a>, Count>,
    /// All samples, with the periods that were not sampled.
    pub samples: u64,
    /// Those periods alone.
    pub unsampled: u64,
}

impl<'a> Counts<'a> {
    /// Counts the samples that `is_wanted`. `file` is what the last part of a file's path is called: in a
    /// comparison, it may have another name ([`Renamed`](crate::renamed::Renamed)).
    pub fn new(
        named: Named<'a>,
        is_wanted: impl Fn(&Row) -> bool,
        file: impl Fn(&'a str) -> &'a str,
    ) -> Self {
        let (mut numbers, mut functions) = (HashMap::new(), Vec::new());
        let mut number = |function: Function<'a>| {
            *numbers.entry(function).or_insert_with(|| {
                functions.push((function, Count::default()));
                functions.len() - 1
            })
        };
        // The functions of each frame, innermost first.
        let frames: Vec<Vec<usize>> = (0..named.profile.frames.len() as u32)
            .map(|frame| {
                let names = named.names.of(frame).iter();
                names.map(|name| number((&name.function, file(same_file(&name.file))))).collect()
            })
            .collect();
        let (mut stacks, mut unsampled): (HashMap<u32, u64>, u64) = (HashMap::new(), 0);
        for row in named.profile.rows.iter().filter(|row| is_wanted(row)) {
            unsampled += u64::from(row.end == End::NotSampled);
            *stacks.entry(row.stack).or_default() += 1;
        }
        // The last stack in which a function was seen.
        let mut seen = vec![None; functions.len()];
        for (&stack, samples) in &stacks {
            let frames = named.profile.frames_of(stack).filter_map(|frame| frames.get(frame as usize));
            for (depth, &function) in frames.flatten().enumerate() {
                let count = &mut functions[function].1;
                if depth == 0 {
                    count.own += samples;
                }
                if seen[function].replace(stack) != Some(stack) {
                    count.total += samples;
                }
            }
        }
        let samples = stacks.values().sum();
        let functions = functions.into_iter().filter(|(_, count)| count.total > 0).collect();
        Self { functions, samples, unsampled }
    }
}

/// The last part of a path.
pub(crate) fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What a file is called in every run of a program: the last part of its path, and without the number of the
/// process that has written the list of its own code.
pub(crate) fn same_file(path: &str) -> &str {
    const LISTS: [(&str, &str, &str); 2] =
        [("perf-", ".map", "perf-PID.map"), ("jit-", ".dump", "jit-PID.dump")];
    let name = last_part(path);
    let is_list = |&&(start, end, _): &&(&str, &str, &str)| {
        let number = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    LISTS.iter().find(is_list).map_or(name, |&(.., same)| same)
}

/// A change from one profile to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change<'a> {
    /// The function.
    pub function: Function<'a>,
    /// Its samples before and after.
    pub counts: [Count; 2],
    /// The shares of all samples in which it runs itself, before and after.
    pub own: [f64; 2],
    /// The shares of all samples with it on the stack.
    pub total: [f64; 2],
    /// Whether one of the two differs by more than samples do by chance.
    pub is_sure: bool,
}

/// The changes of all functions, those of the largest change of their own share first, then by total share.
pub fn changes<'a>(before: &Counts<'a>, after: &Counts<'a>) -> Vec<Change<'a>> {
    let mut functions: BTreeMap<Function<'a>, [Count; 2]> = BTreeMap::new();
    for (side, counts) in [before, after].into_iter().enumerate() {
        for (&function, &count) in &counts.functions {
            functions.entry(function).or_default()[side] = count;
        }
    }
    let samples = [before.samples, after.samples];
    let shares = |counts: [u64; 2]| [0, 1].map(|side| counts[side] as f64 / samples[side].max(1) as f64);
    let change = |(function, counts): (Function<'a>, [Count; 2])| {
        let (own, total) = (counts.map(|count| count.own), counts.map(|count| count.total));
        let is_sure = is_sure(own, samples) || is_sure(total, samples);
        Change { function, counts, own: shares(own), total: shares(total), is_sure }
    };
    let mut changes: Vec<Change<'a>> = functions.into_iter().map(change).collect();
    let size = |of: [f64; 2]| (of[1] - of[0]).abs();
    changes.sort_by(|one, other| {
        size(other.own).total_cmp(&size(one.own)).then(size(other.total).total_cmp(&size(one.total)))
    });
    changes
}

/// Whether two shares differ by more than two standard errors of samples that do not depend on each other
/// (the test of two proportions).
fn is_sure(counts: [u64; 2], samples: [u64; 2]) -> bool {
    let [first, second] = samples.map(|samples| samples as f64);
    if first == 0.0 || second == 0.0 {
        return false;
    }
    let both = (counts[0] + counts[1]) as f64 / (first + second);
    let error = (both * (1.0 - both) * (1.0 / first + 1.0 / second)).sqrt();
    (counts[1] as f64 / second - counts[0] as f64 / first).abs() > 2.0 * error
}

#[cfg(test)]
mod tests {
    use super::{is_sure, same_file};

    #[test]
    fn the_list_of_a_process_is_the_same_file_in_the_next_run() {
        assert_eq!(same_file("/tmp/perf-12.map"), "perf-PID.map");
        assert_eq!(same_file("/a/jit-7.dump"), same_file("/b/jit-8.dump"));
        assert_eq!(same_file("/usr/bin/perf-a.map"), "perf-a.map");
        assert_eq!(same_file("/usr/bin/perf-.map"), "perf-.map");
    }

    #[test]
    fn changes_that_chance_explains_are_not_sure() {
        assert!(!is_sure([50, 55], [100, 100]));
        assert!(is_sure([500, 550], [1000, 1000]));
        assert!(!is_sure([0, 3], [100, 100]) && is_sure([0, 5], [100, 100]));
        assert!(!is_sure([1, 0], [1, 0]) && !is_sure([100, 100], [100, 100]));
    }
}
