//! Proves the unwinders of `--unwind-table=replace` by tests that nobody here wrote: those of gcc, of two C++
//! libraries, of LLVM's libunwind, of Rust and of glibc, as far as they unwind. Each is linked as usual, with
//! the look-ups for libgcc, and with the unwinder in libgcc's place. The usual program says what is right.

mod dejagnu;
mod glibc;
mod llvm;
mod outcome;
mod program;
mod rust;
pub mod ways;

use super::proof::Proof;
use crate::records::Measured;
use anyhow::{Result, ensure};
use outcome::Outcome;
use program::Program;
use std::time::Duration;
use ways::{Way, ways};

#[derive(clap::Args)]
pub struct Wanted {
    /// Only the tests whose name in the record contains one of these words; then nothing is recorded
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
}

pub fn exceptions(proof: &mut Proof, wanted: &Wanted) -> Result<()> {
    let ways = ways(proof)?;
    let names: Vec<&str> = ways.iter().map(|way| way.name).collect();
    proof.note(format!(
        "Tests that run, each in several forms. A number says how many programs end well; the others fail by `.eh_frame`, too. Run\n\
         times are sums.\n\n| tests | programs | {} | run times |\n|---|---:|{}---|",
        names.join(" | "),
        "---:|".repeat(ways.len())
    ))?;
    let suites = dejagnu::suites().chain(llvm::suites()?).chain(rust::suites()).chain(glibc::suites());
    proof.is_recorded &= wanted.only.is_empty();
    let is_wanted = |name: &str| wanted.only.is_empty() || wanted.only.iter().any(|word| name.contains(word));
    let (mut unlike, mut all, mut good) = (Vec::new(), 0, 0);
    for suite in suites.filter(|suite| is_wanted(&suite.name())) {
        let mut results = Results::new(&ways);
        suite.visit(proof, &mut |program| results.add(proof, program))?;
        let Results { programs, sums, .. } = &results;
        let passed: Vec<String> = sums.iter().map(|sum| sum.passed.to_string()).collect();
        let times: Vec<String> = sums.iter().map(|sum| format!("{:.1} s", sum.time.as_secs_f64())).collect();
        let times = Measured(times.join(", "));
        proof.note(format!("| {} | {programs} | {} | {times} |", suite.name(), passed.join(" | ")))?;
        (all, good) = (all + programs, good + sums[0].passed);
        unlike.extend(results.unlike);
    }
    ensure!(good > all / 2, "of {all} programs, only {good} end well by .eh_frame");
    ensure!(unlike.is_empty(), "not as by .eh_frame:\n{}", unlike.join("\n"));
    proof.note("\nEach program ends and prints by every way as it does by `.eh_frame`.")
}

/// What a suite's programs did.
struct Results<'a> {
    ways: &'a [Way],
    programs: u32,
    sums: Vec<Sum>,
    /// The programs that did not do as the usual one.
    unlike: Vec<String>,
}

#[derive(Clone, Default)]
struct Sum {
    passed: u32,
    time: Duration,
}

impl<'a> Results<'a> {
    fn new(ways: &'a [Way]) -> Self {
        Results { ways, programs: 0, sums: vec![Sum::default(); ways.len()], unlike: Vec::new() }
    }

    fn add(&mut self, proof: &Proof, program: &Program) -> Result<()> {
        self.programs += 1;
        let make = |way| program.link(proof, way)?.map(|made| program.run(&made)).transpose();
        let outcomes: Vec<Result<Option<Outcome>>> = std::thread::scope(|scope| {
            let running: Vec<_> = self.ways.iter().map(|way| scope.spawn(move || make(way))).collect();
            running.into_iter().map(|run| run.join().expect("a run does not panic")).collect()
        });
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
        for (sum, outcome) in self.sums.iter_mut().zip(&outcomes) {
            sum.time += outcome.as_ref().map_or(Duration::ZERO, |outcome| outcome.time);
            sum.passed += u32::from(outcome.as_ref().is_some_and(|outcome| outcome.status.success()));
        }
        let run = |way: &Way| program.run(&proof.folder.join(way.folder));
        for (way, outcome) in self.ways.iter().zip(&outcomes).skip(1) {
            let same = match (&outcomes[0], outcome) {
                (Some(expected), Some(outcome)) => {
                    outcome.is_one_of(expected, || run(&self.ways[0]), || run(way))?
                }
                (expected, outcome) => expected.is_none() && outcome.is_none(),
            };
            if !same {
                let ends = [&outcomes[0], outcome].map(|outcome| outcome::said(outcome.as_ref()));
                let unlike = format!("{}, {}: {} and not {}", program.name, way.name, ends[1], ends[0]);
                println!("{unlike}");
                self.unlike.push(unlike);
            }
        }
        Ok(())
    }
}
