//! `--cores`: how long links would take on more processors than the machine has.
//!
//! Each pass of a link begins when the one before has ended, and threads work in parallel only within a pass.
//! So the time of a link is the sum of its passes. The times of a pass with one thread and with two split it
//! into two parts: one that a second thread does not shorten (work for one thread, waiting for memory, locks
//! in the system), and one that it halves. With n threads, the second part takes an nth:
//!
//! ```text
//! 1 thread: 10 ms, 2 threads: 6 ms      so 2 ms stay and 8 ms are shared
//! 16 threads: 2 + 8 / 16 = 2.5 ms
//! ```
//!
//! This is a bound, not a forecast: it ignores caches, and assumes that work can be divided without end.

use std::fmt::Write;

use ::peers::Linker;
use anyhow::{Result, ensure};

use super::link::Bench;
use super::measure::measure;
use super::passes::{self, Pass};

/// The numbers of threads in the table. Those after the first two are calculated.
const THREADS: [u32; 5] = [1, 2, 4, 8, 16];
/// How many passes are listed that take most at the end.
const LIMITING: usize = 5;

/// A pass, split by what a second thread shortens.
struct Split {
    name: String,
    /// Milliseconds that no further thread shortens.
    serial: f64,
    /// Milliseconds, with one thread, that threads share.
    parallel: f64,
}

impl Split {
    /// `one` and `two` are the milliseconds with one thread and with two.
    fn new(name: &str, one: f64, two: f64) -> Self {
        let serial = (2.0 * two - one).clamp(0.0, two);
        Split { name: name.to_owned(), serial, parallel: (one - serial).max(0.0) }
    }

    fn at(&self, threads: u32) -> f64 {
        self.serial + self.parallel / f64::from(threads)
    }
}

/// Times the links with one thread and with two, and says what more threads would bring.
///
/// # Errors
/// A link fails.
pub fn render(benches: &[Bench], ours: &Linker, rounds: u64) -> Result<String> {
    let mut text = String::from(
        "# What more processors would bring\n\nWritten by `cargo xtask bench --cores`. Milliseconds in the passes of a \
         link (`--time-report`), over an old output: measured with one and two\nthreads, calculated from these for more: \
         what a second thread does not shorten in a pass stays, the rest is divided. It is a bound:\ncaches and the \
         memory's speed are not in it.\n",
    );
    for bench in benches {
        let splits = split(bench, &bench.workload.given(ours), rounds)?;
        writeln!(text, "\n## {}: {}\n", bench.workload.name(), bench.workload.description())?;
        table(&mut text, &splits)?;
    }
    Ok(text)
}

/// The passes of a workload, split.
fn split(bench: &Bench, ours: &Linker, rounds: u64) -> Result<Vec<Split>> {
    let mut links: [Vec<Vec<Pass>>; 2] = [Vec::new(), Vec::new()];
    let output = bench.output(ours);
    for round in 0..=rounds {
        for (threads, links) in (1..).zip(&mut links) {
            let mut command = ours.command.clone();
            command.extend(bench.case.link.iter().cloned());
            command.extend(["--time-report".into(), "-o".into(), output.display().to_string()]);
            let run = measure(&bench.folder, threads, &command)?;
            ensure!(run.cost.success, "{}", run.messages);
            let passes = passes::read(&run.messages);
            ensure!(!passes.is_empty(), "no report in {:?}", run.messages);
            // The first round only warms the file cache.
            links.extend((round > 0).then_some(passes));
        }
    }
    bench.clean(std::slice::from_ref(ours));
    let [one, two] = links.map(|links| passes::medians(&links));
    let of_two = |name: &str| two.iter().find(|pass| pass.name == name).map_or(0.0, |pass| pass.wall);
    Ok(one.iter().map(|pass| Split::new(&pass.name, pass.wall, of_two(&pass.name))).collect())
}

fn table(text: &mut String, splits: &[Split]) -> Result<()> {
    let total = |threads| splits.iter().map(|split| split.at(threads)).sum::<f64>();
    let row =
        |cells: &mut dyn Iterator<Item = String>| cells.map(|cell| format!(" {cell} |")).collect::<String>();
    writeln!(text, "| threads |{}", row(&mut THREADS.iter().map(u32::to_string)))?;
    writeln!(text, "|---|{}", "---:|".repeat(THREADS.len()))?;
    writeln!(text, "| wall, ms |{}", row(&mut THREADS.iter().map(|&n| format!("{:.1}", total(n)))))?;
    let gain = |n| format!("{:.2}×", total(1) / total(n));
    writeln!(text, "| to one thread |{}", row(&mut THREADS.iter().map(|&n| gain(n))))?;
    let most = THREADS[THREADS.len() - 1];
    let mut limiting: Vec<&Split> = splits.iter().collect();
    limiting.sort_by(|one, other| other.at(most).total_cmp(&one.at(most)));
    writeln!(
        text,
        "\nWith {most} threads, most time goes to:\n\n| pass | ms | that stays | share |\n|---|---:|---:|---:|"
    )?;
    for split in limiting.iter().take(LIMITING) {
        let share = 100.0 * split.at(most) / total(most);
        writeln!(text, "| {} | {:.1} | {:.1} | {share:.0} % |", split.name, split.at(most), split.serial)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_split_by_what_a_second_thread_shortens() {
        let at_16 = |one, two| Split::new("pass", one, two).at(16);
        assert_eq!(at_16(16.0, 8.0), 1.0, "all of it");
        assert_eq!(at_16(5.0, 5.0), 5.0, "nothing");
        assert_eq!(at_16(5.0, 6.0), 6.0, "the second thread is in the way");
        assert_eq!(at_16(10.0, 6.0), 2.0 + 0.5);
        assert_eq!(at_16(32.0, 15.0), 2.0, "more than all of it counts as all");
    }
}
