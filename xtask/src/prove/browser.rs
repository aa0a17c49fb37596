//! Proves size: links as much as a browser with debug information, as far as memory and disk of a small
//! machine allow, and compares with the other fast linkers. A second link has half as many objects, to show
//! that no pass grows faster than its input.

use super::proof::Proof;
use crate::bench::case::Case;
use crate::bench::generated::{self, Counts};
use crate::bench::generated_program::Program;
use crate::bench::linkers::find;
use crate::bench::measure::{Cost, measure, median};
use crate::bench::passes::{self, Pass};
use crate::peers;
use crate::records::Measured;
use ::peers::{Family, Linker};
use anyhow::{Result, ensure};
use std::path::PathBuf;

const OBJECTS: u64 = 20_000;
const PROCESSORS: usize = 2;
/// Counted rounds. Each of the four linkers begins one of them, because a link finds the memory in the state
/// that the previous one left.
const ROUNDS: usize = 4;
/// The most memory that a link may take.
const MEMORY: u64 = 24 << 30;
/// Passes with a smaller share of the link are not in the table.
const SMALLEST_SHARE: f64 = 0.01;
/// Twice as many objects may take twice as long, times this factor, because links vary.
const GROWTH: f64 = 1.25;

/// A generated link.
struct Inputs {
    folder: PathBuf,
    case: Case,
}

pub fn browser(proof: &mut Proof) -> Result<()> {
    let linkers = find(Some(&proof.prefix.join("ld")), &peers::folder(), &[])?;
    let is_fast = |linker: &Linker| {
        matches!(linker.family, Family::SFrameLd | Family::Lld | Family::Mold | Family::Wild)
    };
    let linkers: Vec<Linker> = linkers.into_iter().filter(is_fast).collect();
    let half = prepare(proof, OBJECTS / 2, "half")?;
    let passes_of_half = passes_of(&half, &linkers[0])?;
    std::fs::remove_dir_all(&half.folder)?;
    let whole = prepare(proof, OBJECTS, "whole")?;
    beside_others(proof, &whole, &linkers)?;
    let passes_of_whole = passes_of(&whole, &linkers[0])?;
    std::fs::remove_dir_all(&whole.folder)?;
    growth(proof, &passes_of_half, &passes_of_whole)
}

fn prepare(proof: &mut Proof, objects: u64, name: &str) -> Result<Inputs> {
    let folder = proof.folder.join(name);
    let (case, Counts { symbols, relocations, bytes }) =
        generated::prepare(&folder, Program::large(objects))?;
    proof.note(format!(
        "- {objects} objects: {:.1} million symbols, {:.1} million relocations, {:.1} GB of which {:.1} GB are debug \
         information without its relocations and strings",
        symbols as f64 / 1e6,
        relocations as f64 / 1e6,
        bytes as f64 / 1e9,
        (Program::large(objects).debug * objects) as f64 / 1e9,
    ))?;
    Ok(Inputs { folder, case })
}

/// Links into a file and removes it again. With `check`, the program runs first.
fn link(
    inputs: &Inputs,
    linker: &Linker,
    more: &[&str],
    check: bool,
) -> Result<Result<(Cost, String), String>> {
    let output = inputs.folder.join("output");
    let mut command = linker.command.clone();
    command.extend(inputs.case.link.iter().cloned());
    command.extend(more.iter().map(|word| String::from(*word)));
    command.extend(["-o".into(), output.display().to_string()]);
    let run = measure(&inputs.folder, PROCESSORS, &command)?;
    let mut result = if run.cost.success {
        Ok((run.cost, run.messages))
    } else {
        Err(run.messages.lines().take(2).collect::<Vec<_>>().join(" "))
    };
    if let (true, Ok(_)) = (check, &result)
        && let Err(problem) = inputs.case.check(&inputs.folder, &output)
    {
        result = Err(problem);
    }
    drop(std::fs::remove_file(&output));
    Ok(result)
}

/// Links with all linkers in turns, and compares the medians.
fn beside_others(proof: &mut Proof, inputs: &Inputs, linkers: &[Linker]) -> Result<()> {
    let mut costs: Vec<Result<Vec<Cost>, String>> = linkers.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..=ROUNDS {
        for turn in 0..linkers.len() {
            let number = (round + turn) % linkers.len();
            let Ok(counted) = &mut costs[number] else { continue };
            match link(inputs, &linkers[number], &[], round == 0)? {
                // The first round only warms the file cache.
                Ok((cost, _)) => counted.extend((round > 0).then_some(cost)),
                Err(problem) => costs[number] = Err(problem),
            }
        }
    }
    proof.note(format!(
        "\nMedians of {ROUNDS} links each, in turns, {PROCESSORS} processors, where no output was:\n"
    ))?;
    proof.note("| linker | wall, s | CPU, s | peak memory, GiB |\n|---|---:|---:|---:|")?;
    for (linker, costs) in linkers.iter().zip(&costs) {
        let costs = match costs {
            Ok(costs) => costs,
            Err(problem) => {
                ensure!(linker.family != Family::SFrameLd, "{problem}");
                proof.note(format!("| {} | fails: {} | | |", linker.version, problem.replace('|', "/")))?;
                continue;
            }
        };
        let median = |of: fn(&Cost) -> f64| median(costs.iter().map(of)).unwrap_or(f64::NAN);
        let memory = median(|cost| cost.peak_memory as f64);
        proof.note(format!(
            "| {} | {:.2} | {:.2} | {:.1} |",
            linker.version,
            Measured(median(|cost| cost.wall)),
            Measured(median(|cost| cost.cpu)),
            Measured(memory / f64::from(1 << 30)),
        ))?;
        ensure!(
            linker.family != Family::SFrameLd || memory <= MEMORY as f64,
            "the link takes {memory} bytes"
        );
    }
    Ok(())
}

/// The medians of the passes.
fn passes_of(inputs: &Inputs, linker: &Linker) -> Result<Vec<Pass>> {
    let mut links = Vec::new();
    for round in 0..=ROUNDS {
        let linked = link(inputs, linker, &["--time-report"], round == 0)?;
        let (_, messages) = linked.map_err(anyhow::Error::msg)?;
        links.extend((round > 0).then(|| passes::read(&messages)));
    }
    Ok(passes::medians(&links))
}

fn growth(proof: &mut Proof, half: &[Pass], whole: &[Pass]) -> Result<()> {
    let total = |passes: &[Pass]| passes.iter().map(|pass| pass.wall).sum::<f64>();
    proof.note(format!(
        "\nPasses of sframe-ld, medians of {ROUNDS} links; a growth of 2 is linear, beyond {:.1} stands bold:\n",
        2.0 * GROWTH
    ))?;
    proof.note("| pass | half, ms | whole, ms | growth |\n|---|---:|---:|---:|")?;
    for pass in whole.iter().filter(|pass| pass.wall >= SMALLEST_SHARE * total(whole)) {
        let before = half.iter().find(|other| other.name == pass.name).map_or(0.0, |pass| pass.wall);
        let growth = pass.wall / before;
        let mark = if growth > 2.0 * GROWTH { "**" } else { "" };
        let growth = Measured(format!("{mark}{growth:.2}{mark}"));
        proof.note(format!(
            "| {} | {:.0} | {:.0} | {growth} |",
            pass.name,
            Measured(before),
            Measured(pass.wall)
        ))?;
    }
    let (before, after) = (total(half), total(whole));
    let growth = Measured(after / before);
    proof.note(format!("| all | {:.0} | {:.0} | {growth:.2} |", Measured(before), Measured(after)))
}
