//! The report at the end of a run.

use crate::run::Outcome;
use crate::toolchain::Toolchain;
use peers::tree::note_skip;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Prints failures with all their output, differences of a peer, and counts by folder. Records skips where
/// `cargo xtask test` counts them. Returns true if nothing failed.
pub fn print(outcomes: &[(String, Outcome)], toolchain: &Toolchain, scratch: &Path, time: Duration) -> bool {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (name, outcome) in outcomes {
        let folder = name.split_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder).or_default().entry(outcome.word()).or_default() += 1;
        match outcome {
            Outcome::Failed(text) => println!("FAIL: lit-tests/{name}\n{text}"),
            Outcome::Differs(reason) => {
                println!("{} differs: lit-tests/{name}: {reason}", toolchain.linker_name());
            }
            Outcome::Skipped(reason) => note_skip(scratch, &format!("skipped: lit-tests/{name}: {reason}\n")),
            Outcome::Passed | Outcome::Unsupported | Outcome::FailedAsExpected => (),
        }
    }
    let mut total: BTreeMap<&str, usize> = BTreeMap::new();
    for (folder, words) in &counts {
        println!("{folder:>14}: {}", listed(words));
        words.iter().for_each(|(word, count)| *total.entry(word).or_default() += count);
    }
    let name = toolchain.linker_name();
    println!("{} tests with {name} in {:.1} s: {}", outcomes.len(), time.as_secs_f64(), listed(&total));
    !total.contains_key("FAIL")
}

fn listed(words: &BTreeMap<&str, usize>) -> String {
    let each: Vec<String> = words.iter().map(|(word, count)| format!("{count} {word}")).collect();
    each.join(", ")
}
