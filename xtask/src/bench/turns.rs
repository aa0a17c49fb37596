//! The linkers take turns.
//!
//! In one round, every linker links twice: first without an old output, then over the output that is there,
//! as a build does. The next round begins with another linker. A first round warms the file cache, checks
//! that each output runs, and does not count. Linkers that take many times as long as the quickest one leave
//! after a few rounds. The others go on, because a link of milliseconds needs more rounds.

use std::time::{Duration, Instant};

use ::peers::Linker;
use anyhow::Result;

use super::link::{Before, Bench};
use super::results::{Costs, Figure, LinkerResult};

/// A linker is quick if it takes at most this many times as long as the quickest one.
const QUICK: f64 = 4.0;
/// The number of rounds for quick linkers.
const QUICK_ROUNDS: u64 = 15;
/// The longest time that quick linkers go on after the others, in every case.
const FURTHER_TIME: Duration = Duration::from_secs(60);

/// The median wall time over an old output, in milliseconds.
fn wall(result: &LinkerResult) -> Option<f64> {
    result.spread(Figure::WallReplaced).map(|spread| spread.median)
}

/// Links once in each of the two ways, with every linker that takes part.
fn run_round(
    bench: &Bench,
    linkers: &[Linker],
    round: u64,
    results: &mut [LinkerResult],
    takes_part: impl Fn(usize) -> bool,
) -> Result<()> {
    for turn in 0..linkers.len() {
        let number = (round as usize + turn) % linkers.len();
        if !takes_part(number) {
            continue;
        }
        for before in [Before::Nothing, Before::Output] {
            let Ok(costs) = &mut results[number].outcome else { break };
            match bench.link(&linkers[number], before)? {
                Ok(cost) if before == Before::Nothing => costs.fresh.push(cost),
                Ok(cost) => costs.replaced.push(cost),
                Err(problem) => results[number].outcome = Err(problem),
            }
        }
    }
    Ok(())
}

/// Links with every linker, in turns.
///
/// # Errors
/// A link cannot be measured. A link that fails is a result.
pub fn run(bench: &Bench, linkers: &[Linker], rounds: u64) -> Result<Vec<LinkerResult>> {
    let mut results = vec![];
    for linker in linkers {
        let outcome = bench.link(linker, Before::Nothing)?;
        let output = bench.output(linker);
        let size = output.metadata().map_or(0, |metadata| metadata.len());
        let outcome = outcome
            .and_then(|_| bench.case.check(&bench.folder, &output))
            .map(|()| Costs::default())
            .inspect_err(|problem| eprintln!("  {}: {problem}", linker.name));
        results.push(LinkerResult { name: linker.name.clone(), output_size: size, outcome });
    }
    for round in 0..rounds {
        run_round(bench, linkers, round, &mut results, |_| true)?;
    }
    // If a link takes milliseconds, one link says little, so quick linkers go on among themselves.
    let quickest = results.iter().filter_map(wall).min_by(f64::total_cmp).unwrap_or_default();
    let quick: Vec<bool> =
        results.iter().map(|result| wall(result).is_some_and(|wall| wall <= quickest * QUICK)).collect();
    let begin = Instant::now();
    for round in rounds..QUICK_ROUNDS {
        if begin.elapsed() > FURTHER_TIME {
            break;
        }
        run_round(bench, linkers, round, &mut results, |number| quick[number])?;
    }
    bench.clean(linkers);
    Ok(results)
}
