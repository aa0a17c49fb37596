//! `bench cores`: links with numbers of threads, up to as many as the machine has processors, beside other
//! linkers.
//!
//! Each linker takes part once for each number of threads, which its own option gives it, and once without
//! the option, as people start it. All of these link in turns. What a pass of this linker takes with each
//! number of threads is asked of further links, since the report itself takes time.

use std::fmt::Write;

use ::peers::{Family, Linker};
use anyhow::{Result, ensure};

use super::link::Bench;
use super::measure::measure;
use super::page::{self, Conditions};
use super::passes::{self, Pass};
use super::results::{Figure, LinkerResult};
use super::turns;

/// Passes that take less than this share of the link at every number of threads are left out.
const SHOWN: f64 = 0.02;

/// Both states of the output's place, as they stand in a cell.
const WALLS: [Figure; 2] = [Figure::WallReplaced, Figure::WallFresh];

/// Makes the page.
///
/// # Errors
/// A link of this linker fails, or cannot be measured.
pub fn render(benches: &[Bench], linkers: &[Linker], conditions: Conditions) -> Result<String> {
    let columns = columns(conditions.processors);
    let mut links = vec![];
    for bench in benches {
        eprintln!("{}: {}", bench.workload.name(), bench.workload.description());
        links.push(timed(bench, linkers, &columns, conditions.rounds)?);
    }
    let mut text = String::new();
    begin(&mut text, linkers, conditions)?;
    targets(&mut text, benches, linkers, &columns, &links)?;
    for (bench, results) in benches.iter().zip(&links) {
        writeln!(text, "\n## {}: {}\n", bench.workload.name(), bench.workload.description())?;
        walls(&mut text, linkers, &columns, results)?;
        for ours in linkers.iter().filter(|linker| linker.is_ours()) {
            pass_table(&mut text, bench, ours, &columns, conditions.rounds)?;
        }
    }
    Ok(text)
}

fn begin(text: &mut String, linkers: &[Linker], conditions: Conditions) -> Result<()> {
    let Conditions { rounds, processors, busy } = conditions;
    page::begin(text, "Links by numbers of threads", "bench cores --write")?;
    writeln!(
        text,
        "Medians of {rounds} rounds, and more of quick links, all linkers and numbers of threads in turns on {processors} processors, {busy} \
         other processes\nat work. Wall time ends when the linker's first process exits. Two times stand in a cell: over the output of the\n\
         link before, and where no output was. \"Itself\" is without an option for threads, as compilers start linkers.\n"
    )?;
    page::versions(text, linkers)
}

/// The numbers of threads: powers of two, and the number of processors. `None`: what the linker chooses.
pub fn columns(processors: usize) -> Vec<Option<usize>> {
    let mut columns: Vec<_> =
        std::iter::successors(Some(1), |&n| Some(2 * n)).take_while(|&n| n < processors).collect();
    columns.push(processors);
    columns.into_iter().map(Some).chain([None]).collect()
}

fn heading(column: Option<usize>) -> String {
    column.map_or("itself".into(), |threads| threads.to_string())
}

/// A linker that is told to use so many threads.
fn with_threads(linker: &Linker, threads: Option<usize>) -> Linker {
    let mut linker = linker.clone();
    if let Some(threads) = threads {
        let option = if linker.family == Family::Mold { "--thread-count" } else { "--threads" };
        linker.command.push(format!("{option}={threads}"));
    }
    linker
}

/// The results of a workload: of each linker, those of all columns.
fn timed(
    bench: &Bench,
    linkers: &[Linker],
    columns: &[Option<usize>],
    rounds: u64,
) -> Result<Vec<LinkerResult>> {
    let of = |linker: &Linker| {
        let given = bench.workload.given(linker);
        columns.iter().map(move |&column| with_threads(&given, column)).collect::<Vec<_>>()
    };
    let taking: Vec<Linker> = linkers.iter().flat_map(of).collect();
    let results = turns::run(bench, &taking, rounds)?;
    for (result, linker) in results.iter().zip(&taking) {
        if let (Err(problem), true) = (&result.outcome, linker.is_ours()) {
            anyhow::bail!("{}: {problem}", result.name);
        }
    }
    Ok(results)
}

/// Times one workload and writes the table of its wall times.
///
/// # Errors
/// A link of this linker fails, or cannot be measured.
pub fn compare(text: &mut String, bench: &Bench, linkers: &[Linker], conditions: Conditions) -> Result<()> {
    let columns = columns(conditions.processors);
    walls(text, linkers, &columns, &timed(bench, linkers, &columns, conditions.rounds)?)
}

/// The wall times of one workload.
fn walls(
    text: &mut String,
    linkers: &[Linker],
    columns: &[Option<usize>],
    results: &[LinkerResult],
) -> Result<()> {
    head(text, "linker, wall, ms", columns)?;
    for (linker, results) in linkers.iter().zip(results.chunks(columns.len())) {
        write!(text, "| {} |", linker.name)?;
        for result in results {
            let cell = WALLS.map(|figure| {
                result.spread(figure).map_or("-".into(), |spread| format!("{:.1}", spread.median))
            });
            write!(text, " {} |", cell.join(" / "))?;
        }
        writeln!(text)?;
    }
    Ok(())
}

/// The head of a table with such columns.
///
/// # Errors
/// None in practice, because a `String` takes everything.
pub fn head(text: &mut String, first: &str, columns: &[Option<usize>]) -> Result<()> {
    let cells: String = columns.iter().map(|&column| format!(" {} |", heading(column))).collect();
    writeln!(text, "| {first} |{cells}\n|---|{}", "---:|".repeat(columns.len()))?;
    Ok(())
}

/// The greatest ratio to the faster of mold and wild that meets the target.
fn target(workload: &str, column: Option<usize>) -> Option<f64> {
    let is_large = matches!(workload, "llvm" | "generated-8000" | "generated-30000");
    match column? {
        1 | 2 => Some(0.85),
        8 => Some(1.0),
        16 => Some(if is_large { 0.9 } else { 1.0 }),
        _ => None,
    }
}

/// For each workload and number of threads: the better of this project's builds to the fastest other linker.
fn targets(
    text: &mut String,
    benches: &[Bench],
    linkers: &[Linker],
    columns: &[Option<usize>],
    links: &[Vec<LinkerResult>],
) -> Result<()> {
    writeln!(
        text,
        "\n## To the fastest other linker\n\nThe better of our builds; of both states of the output's place, the worse one. What misses its \
         target is bold.\n"
    )?;
    head(text, "workload", columns)?;
    for (bench, results) in benches.iter().zip(links) {
        let workload = bench.workload.name();
        write!(text, "| {workload} |")?;
        for (number, &column) in columns.iter().enumerate() {
            let of = |is_ours: bool, figure| {
                let chosen = linkers.iter().zip(results.chunks(columns.len()));
                let chosen = chosen.filter(|(linker, _)| linker.is_ours() == is_ours);
                let times =
                    chosen.filter_map(|(_, results)| Some(results.get(number)?.spread(figure)?.median));
                times.reduce(f64::min)
            };
            let ratios = WALLS.iter().filter_map(|&figure| Some(of(true, figure)? / of(false, figure)?));
            write!(text, " {} |", ratio(ratios.reduce(f64::max), target(&workload, column)))?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn ratio(reached: Option<f64>, allowed: Option<f64>) -> String {
    match (reached, allowed) {
        (None, _) => "-".into(),
        (Some(reached), None) => format!("{reached:.2}×"),
        (Some(reached), Some(allowed)) if reached <= allowed => format!("{reached:.2}× (≤ {allowed})"),
        (Some(reached), Some(allowed)) => format!("**{reached:.2}×** (≤ {allowed})"),
    }
}

/// What each pass takes.
fn pass_table(
    text: &mut String,
    bench: &Bench,
    ours: &Linker,
    columns: &[Option<usize>],
    rounds: u64,
) -> Result<()> {
    let of = |&column| reported(bench, &with_threads(&bench.workload.given(ours), column), rounds);
    let by_column: Vec<Vec<Pass>> = columns.iter().map(of).collect::<Result<_>>()?;
    writeln!(text, "\nThe passes of {}, ms (processor time of all threads):\n", ours.name)?;
    head(text, "pass", columns)?;
    let total = |passes: &[Pass]| passes.iter().map(|pass| pass.wall).sum::<f64>();
    let find = |passes: &[Pass], name: &str| passes.iter().find(|pass| pass.name == name).cloned();
    for Pass { name, .. } in by_column.first().into_iter().flatten() {
        let is_shown =
            |passes: &Vec<Pass>| find(passes, name).is_some_and(|pass| pass.wall >= SHOWN * total(passes));
        if !by_column.iter().any(is_shown) {
            continue;
        }
        write!(text, "| {name} |")?;
        for passes in &by_column {
            match find(passes, name) {
                Some(pass) => write!(text, " {:.1} ({:.1}) |", pass.wall, pass.cpu)?,
                None => write!(text, " - |")?,
            }
        }
        writeln!(text)?;
    }
    write!(text, "| all |")?;
    for passes in &by_column {
        let cpu: f64 = passes.iter().map(|pass| pass.cpu).sum();
        write!(text, " {:.1} ({cpu:.1}) |", total(passes))?;
    }
    writeln!(text)?;
    Ok(())
}

/// The medians of the passes of several links over an old output.
fn reported(bench: &Bench, linker: &Linker, rounds: u64) -> Result<Vec<Pass>> {
    let output = bench.output(linker);
    let mut links = Vec::new();
    for round in 0..=rounds {
        let mut command = linker.command.clone();
        command.extend(bench.case.link.iter().cloned());
        command.extend(["--time-report".into(), "-o".into(), output.display().to_string()]);
        let run = measure(&bench.folder, bench.processors, &command)?;
        ensure!(run.cost.success, "{}", run.messages);
        let passes = passes::read(&run.messages);
        ensure!(!passes.is_empty(), "no report in {:?}", run.messages);
        // The first round has no old output to write over.
        links.extend((round > 0).then_some(passes));
    }
    bench.clean(std::slice::from_ref(linker));
    Ok(passes::medians(&links))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::Cost;
    use crate::bench::results::Costs;

    #[test]
    fn columns_end_at_the_number_of_processors_and_at_none_given() {
        assert_eq!(columns(1), [Some(1), None]);
        assert_eq!(columns(2), [Some(1), Some(2), None]);
        assert_eq!(columns(12), [Some(1), Some(2), Some(4), Some(8), Some(12), None]);
        assert_eq!(columns(16).len(), 6);
    }

    #[test]
    fn each_linker_is_told_in_its_own_words() {
        let option = |family| {
            let linker = Linker { name: String::new(), family, version: String::new(), command: vec![] };
            with_threads(&linker, Some(4)).command
        };
        assert_eq!(option(Family::Mold), ["--thread-count=4"]);
        assert_eq!(option(Family::Wild), ["--threads=4"]);
        assert_eq!(option(Family::SFrameLd), ["--threads=4"]);
    }

    #[test]
    fn a_cell_has_both_times_and_a_linker_that_fails_has_none() {
        let cost = |wall| Cost { wall, cpu: wall, cpu_behind: 0.0, faults: 0, peak_memory: 0, success: true };
        let result = |outcome| LinkerResult { name: "x".into(), output_size: 0, outcome };
        let costs = Costs { fresh: vec![cost(0.2)], replaced: vec![cost(0.3)] };
        let linker =
            Linker { name: "x".into(), family: Family::Wild, version: String::new(), command: vec![] };
        let mut text = String::new();
        let results = [result(Ok(costs)), result(Err("fails".into()))];
        walls(&mut text, &[linker], &[Some(1), None], &results).unwrap();
        assert_eq!(
            text,
            "| linker, wall, ms | 1 | itself |\n|---|---:|---:|\n| x | 300.0 / 200.0 | - / - |\n"
        );
    }

    #[test]
    fn missed_targets_are_bold() {
        assert_eq!(ratio(Some(0.95), target("llvm", Some(16))), "**0.95×** (≤ 0.9)");
        assert_eq!(ratio(Some(0.95), target("rust", Some(16))), "0.95× (≤ 1)");
        assert_eq!(ratio(Some(0.95), target("rust", Some(4))), "0.95×");
        assert_eq!(ratio(None, None), "-");
    }
}
