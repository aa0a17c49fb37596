//! `bench jobs`: many links at once, as a build of a project with many programs ends.
//!
//! make runs the links, as many at a time as the machine has processors, and tells each of its jobserver. A
//! linker that starts a thread for each processor without asking, or that asks and waits, shows here.

use std::fmt::Write;
use std::path::PathBuf;

use ::peers::Linker;
use anyhow::{Context, Result, ensure};

use super::link::Bench;
use super::measure::{Cost, measure, median};
use super::page::{self, Conditions};

/// How many programs the build has.
const PROGRAMS: usize = 16;

/// Makes the page.
///
/// # Errors
/// make is missing, or a link of this linker fails.
pub fn render(benches: &[Bench], linkers: &[Linker], conditions: Conditions) -> Result<String> {
    let Conditions { rounds, processors, .. } = conditions;
    let mut text = String::new();
    page::begin(&mut text, "Many links at once", "bench jobs --write")?;
    writeln!(
        text,
        "`make -j{processors}` with {PROGRAMS} links of the same inputs, which it tells of its jobserver, on {processors} processors; medians of \
         {rounds} rounds\nin turns, over old outputs. Wall time ends when make ends, CPU time and peak memory are of all its processes.\n"
    )?;
    page::versions(&mut text, linkers)?;
    for bench in benches {
        let (name, description) = (bench.workload.name(), bench.workload.description());
        eprintln!("{name}: {description}");
        writeln!(text, "\n## {name}: {description}\n")?;
        let taking: Vec<Linker> = linkers.iter().flat_map(|linker| variants(bench, linker)).collect();
        render_table(&mut text, &taking, &timed(bench, &taking, conditions)?)?;
    }
    Ok(text)
}

/// A linker as a compiler starts it, and this project's with one thread, which cannot be in another's way.
fn variants(bench: &Bench, linker: &Linker) -> Vec<Linker> {
    let given = bench.workload.given(linker);
    let mut alone = given.clone();
    alone.name += " --threads=1";
    alone.command.push("--threads=1".into());
    if linker.is_ours() { vec![given, alone] } else { vec![given] }
}

/// The costs of each linker's rounds, or why a link failed.
fn timed(
    bench: &Bench,
    linkers: &[Linker],
    conditions: Conditions,
) -> Result<Vec<Result<Vec<Cost>, String>>> {
    let mut found: Vec<Result<Vec<Cost>, String>> = linkers.iter().map(|_| Ok(vec![])).collect();
    let makefiles: Vec<PathBuf> =
        linkers.iter().map(|linker| makefile(bench, linker)).collect::<Result<_>>()?;
    for round in 0..=conditions.rounds {
        for turn in 0..linkers.len() {
            let number = (round as usize + turn) % linkers.len();
            let Ok(costs) = &mut found[number] else { continue };
            let jobs = format!("-j{}", conditions.processors);
            let makefile = makefiles[number].display().to_string();
            let command = ["make", "-s", &jobs, "-f", &makefile].map(String::from);
            let run = measure(&bench.folder, conditions.processors, &command)?;
            ensure!(run.cost.success || !linkers[number].is_ours(), "{}", run.messages);
            if !run.cost.success {
                let first_lines: Vec<&str> = run.messages.lines().take(3).collect();
                found[number] = Err(format!("link failed: {}", first_lines.join(" / ")));
            } else if round > 0 {
                costs.push(run.cost);
            }
        }
    }
    for (linker, makefile) in linkers.iter().zip(&makefiles) {
        drop(std::fs::remove_file(makefile));
        (0..PROGRAMS).for_each(|number| drop(std::fs::remove_file(output(bench, linker, number))));
    }
    Ok(found)
}

fn output(bench: &Bench, linker: &Linker, number: usize) -> PathBuf {
    let output = bench.output(linker);
    output.with_file_name(format!("{}-{number}", output.file_name().unwrap_or_default().to_string_lossy()))
}

/// Writes what make reads. A `+` before a command makes make tell it of the jobserver, as it tells another
/// make. Since version 4.4, it tells every command, by a pipe with a name.
fn makefile(bench: &Bench, linker: &Linker) -> Result<PathBuf> {
    let words: Vec<String> = linker.command.iter().chain(&bench.case.link).map(|word| quoted(word)).collect();
    let mut text = String::from("all:");
    (0..PROGRAMS).for_each(|number| text += &format!(" link-{number}"));
    text += "\n.PHONY: all\n";
    for number in 0..PROGRAMS {
        let output = output(bench, linker, number).display().to_string();
        writeln!(text, "link-{number}:\n\t+{} -o {}", words.join(" "), quoted(&output))?;
    }
    let path = bench.output(linker).with_extension("mk");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// A word for the shell, in a recipe.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''").replace('$', "$$"))
}

fn render_table(text: &mut String, linkers: &[Linker], found: &[Result<Vec<Cost>, String>]) -> Result<()> {
    let of = |costs: &[Cost], figure: fn(&Cost) -> f64| median(costs.iter().map(figure)).unwrap_or_default();
    let ours = found.first().and_then(|costs| costs.as_ref().ok()).map(|costs| of(costs, |cost| cost.wall));
    writeln!(
        text,
        "| linker | wall, ms | to the first | CPU, ms | peak memory, MiB |\n|---|---:|---:|---:|---:|"
    )?;
    for (linker, costs) in linkers.iter().zip(found) {
        match costs {
            Err(problem) => writeln!(text, "| {} | {} | | | |", linker.name, problem.replace('|', "/"))?,
            Ok(costs) => {
                let wall = of(costs, |cost| cost.wall);
                let ratio = ours.map_or(String::new(), |ours| format!("{:.2}×", wall / ours));
                writeln!(
                    text,
                    "| {} | {:.1} | {ratio} | {:.1} | {:.0} |",
                    linker.name,
                    wall * 1e3,
                    of(costs, |cost| cost.cpu) * 1e3,
                    of(costs, |cost| cost.peak_memory as f64) / f64::from(1 << 20)
                )?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_as_they_are() {
        assert_eq!(quoted("-z"), "'-z'");
        assert_eq!(quoted("it's $ORIGIN"), "'it'\\''s $$ORIGIN'");
    }

    #[test]
    fn a_linker_that_fails_has_a_row() {
        let linker = |name: &str| Linker {
            name: name.into(),
            family: ::peers::Family::Wild,
            version: String::new(),
            command: vec![],
        };
        let cost =
            Cost { wall: 0.5, cpu: 1.0, cpu_behind: 0.0, faults: 0, peak_memory: 1 << 20, success: true };
        let mut text = String::new();
        render_table(&mut text, &[linker("a"), linker("b")], &[Ok(vec![cost]), Err("no | yes".into())])
            .unwrap();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows, ["| a | 500.0 | 1.00× | 1000.0 | 1 |", "| b | no / yes | | | |"]);
    }
}
