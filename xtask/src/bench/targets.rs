//! The targets: by how much sframe-ld must be ahead of wild and of mold on each workload.
//!
//! Of the two ratios, with an old output and without one, the worse one counts.

use std::fmt::Write;

use ::peers::{Family, Linker};
use anyhow::Result;

use super::results::{CaseResult, Figure, LinkerResult};
use super::workload::SCRIPT;

/// The greatest ratios that meet a workload's target.
struct Target {
    workload: &'static str,
    wall_to_wild: f64,
    wall_to_mold: f64,
    memory_to_wild: f64,
}

const fn target(workload: &'static str, wall_to_wild: f64, wall_to_mold: f64, memory_to_wild: f64) -> Target {
    Target { workload, wall_to_wild, wall_to_mold, memory_to_wild }
}

const TARGETS: &[Target] = &[
    target("tiny", 1.0, 0.7, 1.0),
    target("static", 1.0, 0.7, 1.0),
    target("rust", 0.8, 0.8, 1.0),
    target("llvm", 0.9, 0.7, 1.0),
    target("llvm-gc", 0.9, 0.7, 1.0),
    target("database", 1.0, 0.75, 1.1),
    target("functions", 1.0, 0.7, 1.1),
    target("generated-500", 0.8, 0.6, 1.0),
    target("generated-2000", 0.8, 0.6, 1.0),
    target("generated-8000", 0.8, 0.6, 1.0),
    target("generated-30000", 0.8, 0.6, 1.0),
];
/// The ratio of CPU time to wild's, for each workload.
const CPU_TO_WILD: f64 = 1.0;
/// The share of CPU time that may be used after the first process ended.
const BEHIND: f64 = 0.1;
/// The ratio of a link with GNU ld's script to the link with the default layout.
const SCRIPT_TO_DEFAULT: f64 = 1.05;

/// Writes the table of targets, each with the ratio that was reached.
///
/// # Errors
/// None in practice, because a `String` takes everything.
pub fn render(text: &mut String, results: &[CaseResult], linkers: &[Linker]) -> Result<()> {
    let of_family = |family| linkers.iter().find(|linker| linker.family == family).map(|linker| &linker.name);
    let Some(ours) = of_family(Family::SFrameLd) else { return Ok(()) };
    let find = |workload: &str, name: Option<&String>| -> Option<&LinkerResult> {
        let case = results.iter().find(|case| case.name == workload)?;
        case.linkers.iter().find(|result| Some(&result.name) == name)
    };
    writeln!(text, "\n## Targets\n\nWhat is met stands plain, what is missed in bold.\n")?;
    writeln!(
        text,
        "| workload | wall to wild | wall to mold | CPU to wild | peak memory to wild | CPU behind the end |"
    )?;
    writeln!(text, "|---|---:|---:|---:|---:|---:|")?;
    for target in TARGETS {
        let Some(own) = find(target.workload, Some(ours)) else { continue };
        let wild = find(target.workload, of_family(Family::Wild));
        let mold = find(target.workload, of_family(Family::Mold));
        let walls = [Figure::WallFresh, Figure::WallReplaced];
        let behind = ratio(own, Figure::CpuBehind, Some(own), Figure::Cpu);
        let cells = [
            cell(worst(own, wild, &walls), target.wall_to_wild),
            cell(worst(own, mold, &walls), target.wall_to_mold),
            cell(worst(own, wild, &[Figure::Cpu]), CPU_TO_WILD),
            cell(worst(own, wild, &[Figure::Memory]), target.memory_to_wild),
            cell(behind, BEHIND),
        ];
        writeln!(text, "| {} | {} |", target.workload, cells.join(" | "))?;
    }
    if let Some(script) = find("llvm", Some(&format!("{ours} -T {SCRIPT}"))) {
        let default = find("llvm", Some(ours));
        let reached = worst(script, default, &[Figure::WallFresh, Figure::WallReplaced]);
        writeln!(
            text,
            "\nThrough GNU ld's script, to the default layout: {}.",
            cell(reached, SCRIPT_TO_DEFAULT)
        )?;
    }
    writeln!(
        text,
        "\n[misses.md](misses.md) says why targets are missed and what was tried. [few-cores.md](few-cores.md) has times by numbers of \
         threads,\n[file-systems.md](file-systems.md) by where the output goes, [jobs.md](jobs.md) of many links at once, \
         [builds.md](builds.md) of both builds of the linker;\n[browser](../tests/proofs/browser.md) is a link of a browser's size. [outputs.md](outputs.md) \
         compares outputs with those of the linker before\nthe work on speed."
    )?;
    Ok(())
}

fn ratio(own: &LinkerResult, figure: Figure, other: Option<&LinkerResult>, to: Figure) -> Option<f64> {
    Some(own.spread(figure)?.median / other?.spread(to)?.median)
}

/// The greatest of the ratios of these figures.
fn worst(own: &LinkerResult, other: Option<&LinkerResult>, figures: &[Figure]) -> Option<f64> {
    figures.iter().filter_map(|&figure| ratio(own, figure, other, figure)).reduce(f64::max)
}

fn cell(reached: Option<f64>, allowed: f64) -> String {
    match reached {
        None => "-".into(),
        Some(reached) if reached <= allowed => format!("{reached:.2}× (≤ {allowed})"),
        Some(reached) => format!("**{reached:.2}×** (≤ {allowed})"),
    }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn missed_targets_are_bold() {
        assert_eq!(cell(Some(0.8), 0.8), "0.80× (≤ 0.8)");
        assert_eq!(cell(Some(0.91), 0.9), "**0.91×** (≤ 0.9)");
        assert_eq!(cell(None, 0.9), "-");
    }
}
