//! Measures what profilers cost the program that they sample, and what they use themselves.
//!
//! The program does always the same work, and says how long it took. It runs alone and under each profiler,
//! by turns, at three rates. Figures are medians. They mean something only on a machine that does nothing
//! else, so this proof refuses to write its record on a busy one.

use super::proof::Proof;
use crate::children;
use crate::commands::output;
use crate::records::Measured;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SOURCE: &str = include_str!("overhead.cc");
const RATES: [u32; 3] = [99, 999, 4999];
/// How often the program runs in each way.
const ROUNDS: usize = 7;
/// The largest load average over a minute with which figures are recorded.
const IDLE: f64 = 0.3;
/// What the profilers are called, and their arguments before the program. `RATE` stands for the rate.
const PROFILERS: [(&str, &str); 4] = [
    (
        "perf record, copies of 32 KiB",
        "perf record -q -e cpu-clock -F RATE --call-graph dwarf,32768 -o perf.data --",
    ),
    ("perf record, frame pointers", "perf record -q -e cpu-clock -F RATE --call-graph fp -o perf.data --"),
    ("sframe record --no-bpf", "sframe record --no-bpf -F RATE --format folded -o live.folded --"),
    ("sframe record --bpf", "sframe record --bpf -F RATE --format folded -o live.folded --"),
];

/// What a run took.
#[derive(Clone, Copy)]
struct Run {
    /// Of the program, from its start to its end.
    elapsed: f64,
    /// Processor time of the program.
    used: f64,
    /// Processor time of everything else.
    beside: f64,
}

/// Runs the program alone and under the profilers.
pub fn overhead(proof: &mut Proof, sframe: &Path) -> Result<()> {
    ensure!(output(Command::new("perf").arg("--version")).is_ok(), "perf is not to be had");
    let load = load()?;
    if proof.is_recorded {
        ensure!(load <= IDLE, "the load is {load}: run this on an idle machine, or with --no-record");
    }
    std::fs::write(proof.folder.join("overhead.cc"), SOURCE)?;
    proof.tool("g++", &["-O2", "overhead.cc", "-o", "work"])?;
    let sframe = sframe.canonicalize()?;
    proof.note(format!(
        "{ROUNDS} runs in each way, by turns; medians. Longer: how much longer the program took than alone. Beside: \
         processor time of the profiler, of the program's. perf has not unwound its copies yet, sframe has.\n"
    ))?;
    proof.note("| profiler | rate | longer | beside |\n|---|---:|---:|---:|")?;
    for rate in RATES {
        let ways: Vec<Vec<String>> = std::iter::once(Vec::new())
            .chain(PROFILERS.iter().map(|(_, words)| line(words, rate, &sframe)))
            .collect();
        let mut runs = vec![Vec::new(); ways.len()];
        for _ in 0..ROUNDS {
            for (way, runs) in ways.iter().zip(&mut runs) {
                runs.push(run(proof, way)?);
            }
        }
        let of = |place: usize, figure: fn(&Run) -> f64| median(runs[place].iter().map(figure).collect());
        let alone = of(0, |run| run.elapsed);
        for (place, (name, _)) in PROFILERS.iter().enumerate() {
            let longer = 100.0 * (of(place + 1, |run| run.elapsed) / alone - 1.0);
            let beside = 100.0 * of(place + 1, |run| run.beside / run.used);
            let (longer, beside) = (Measured(format!("{longer:.1} %")), Measured(format!("{beside:.1} %")));
            proof.note(format!("| {name} | {rate} Hz | {longer} | {beside} |"))?;
        }
    }
    Ok(())
}

/// The arguments of a profiler.
fn line(words: &str, rate: u32, sframe: &Path) -> Vec<String> {
    let word = |word| match word {
        "RATE" => rate.to_string(),
        "sframe" => sframe.display().to_string(),
        other => str::to_owned(other),
    };
    words.split(' ').map(word).collect()
}

fn run(proof: &Proof, profiler: &[String]) -> Result<Run> {
    let words: Vec<&str> = profiler.iter().map(String::as_str).chain(["./work", "took"]).collect();
    let [program, arguments @ ..] = &words[..] else { unreachable!("the program is there") };
    let mut command = Command::new(program);
    command.current_dir(&proof.folder).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    let (status, usage) = children::wait(child);
    ensure!(status.success(), "{}: {status}", words.join(" "));
    let took = std::fs::read_to_string(proof.folder.join("took"))?;
    let mut numbers = took.split_whitespace().map(|word| word.parse::<u64>().map(Duration::from_nanos));
    let mut next = || anyhow::Ok(numbers.next().context("the program says too little")??.as_secs_f64());
    let (elapsed, used) = (next()?, next()?);
    let beside = children::processor_time(&usage).as_secs_f64() - used;
    Ok(Run { elapsed, used, beside: beside.max(0.0) })
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// How many programs wanted to run in the last minute, on average.
fn load() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split_whitespace().next().context("/proc/loadavg is empty")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::{PROFILERS, line, median};
    use std::path::Path;

    #[test]
    fn profilers_get_the_rate_and_the_program() {
        let words = line(PROFILERS[3].1, 99, Path::new("/x/sframe"));
        assert_eq!(words[..5], ["/x/sframe", "record", "--bpf", "-F", "99"]);
        assert!(PROFILERS.iter().all(|(_, words)| words.contains(" RATE ") && words.ends_with(" --")));
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median(vec![]), 0.0);
    }
}
