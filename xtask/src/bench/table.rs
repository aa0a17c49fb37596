//! Writes the table of results as Markdown.
//!
//! An absolute time says more about the machine than about the linker. So every number stands beside its
//! ratio to mold's.

use std::fmt::Write;

use anyhow::Result;

use super::page::{self, Conditions};
use super::results::{CaseResult, Figure, Spread};
use super::targets;
use ::peers::{Family, Linker};

/// The headings of the figures that have ratios, and of the figures without.
const WITH_RATIO: [(&str, Figure); 4] = [
    ("wall, no output before, ms", Figure::WallFresh),
    ("wall, over an old output, ms", Figure::WallReplaced),
    ("CPU, ms", Figure::Cpu),
    ("peak memory, MiB", Figure::Memory),
];
const ALONE: [(&str, Figure); 2] =
    [("CPU behind the end, ms", Figure::CpuBehind), ("faults, thousands", Figure::Faults)];

pub fn render(results: &[CaseResult], linkers: &[Linker], conditions: Conditions) -> Result<String> {
    let Conditions { rounds, processors, busy } = conditions;
    let mut text = String::new();
    page::begin(&mut text, "How fast sframe-ld links", "bench --write")?;
    writeln!(
        text,
        "Medians of {rounds} rounds (least to greatest), or of as many as a table says, all linkers in turns on \
         {processors} processors, each with the threads\nthat it starts by itself, {busy} other processes at work, where no \
         output was and over the one of the link before, as in a build. Wall \
         time ends when the linker's first process exits; CPU time (user\nand system), page faults and peak memory are \
         those of its whole process tree, over an old output. CPU behind the end is the part\nthat is used when the first \
         process has ended. A number followed by × is the ratio to {}: only ratios carry over to other machines.\n\n\
         Folding equal code and indexing debug information are timed by proofs of their own: \
         [icf](../tests/proofs/icf.md), [gdb-index](../tests/proofs/gdb-index.md).\n\n\
         ![Wall times beside other linkers](wall.svg)\n",
        baseline(linkers).map_or("the first linker", |linker| &linker.name)
    )?;
    page::versions(&mut text, linkers)?;
    targets::render(&mut text, results, linkers)?;
    for case in results {
        render_case(&mut text, case, linkers)?;
    }
    render_growth(&mut text, results, linkers)?;
    Ok(text)
}

/// The linker that ratios refer to: mold if it takes part.
pub fn baseline(linkers: &[Linker]) -> Option<&Linker> {
    linkers.iter().find(|linker| linker.family == Family::Mold).or(linkers.first())
}

fn render_case(text: &mut String, case: &CaseResult, linkers: &[Linker]) -> Result<()> {
    writeln!(text, "\n## {}: {}\n", case.name, case.description)?;
    let rounds = case.linkers.iter().filter_map(|result| Some(result.outcome.as_ref().ok()?.replaced.len()));
    if let (Some(least), Some(most)) = (rounds.clone().min(), rounds.max())
        && least < most
    {
        writeln!(text, "{most} rounds; {least} of the linkers that take long beside the quickest.\n")?;
    }
    write!(text, "| linker |")?;
    WITH_RATIO.iter().try_for_each(|(heading, _)| write!(text, " {heading} | × |"))?;
    ALONE.iter().try_for_each(|(heading, _)| write!(text, " {heading} |"))?;
    let columns = 2 * WITH_RATIO.len() + ALONE.len() + 1;
    writeln!(text, " output, MiB |\n|---|{}", "---:|".repeat(columns))?;
    let base = baseline(linkers).and_then(|base| case.linkers.iter().find(|result| result.name == base.name));
    for result in &case.linkers {
        write!(text, "| {} |", result.name)?;
        if let Err(problem) = &result.outcome {
            writeln!(text, " {}{}", problem.replace('|', "/"), " |".repeat(columns))?;
            continue;
        }
        for (_, figure) in WITH_RATIO {
            let Some(spread) = result.spread(figure) else { continue };
            let ratio = base.and_then(|base| base.spread(figure)).map(|base| spread.median / base.median);
            let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}×"));
            let Spread { median, least, greatest } = spread;
            write!(text, " {median:.1} ({least:.1} to {greatest:.1}) | {ratio} |")?;
        }
        for (_, figure) in ALONE {
            write!(text, " {:.1} |", result.spread(figure).map_or(0.0, |spread| spread.median))?;
        }
        writeln!(text, " {:.1} |", result.output_size as f64 / (1024.0 * 1024.0))?;
    }
    Ok(())
}

/// The CPU time per object for every size. It stays the same if the cost grows no faster than the link.
fn render_growth(text: &mut String, results: &[CaseResult], linkers: &[Linker]) -> Result<()> {
    let sizes: Vec<(usize, &CaseResult)> =
        results.iter().filter_map(|case| Some((case.objects?, case))).collect();
    if sizes.len() < 2 {
        return Ok(());
    }
    writeln!(text, "\n## How the cost grows: CPU time per object, µs\n")?;
    writeln!(text, "![CPU time per object](growth.svg)\n")?;
    writeln!(
        text,
        "The last column is the ratio of the largest link to the smallest (target for sframe-ld: 1.2).\n"
    )?;
    write!(text, "| linker |")?;
    for (objects, _) in &sizes {
        write!(text, " {objects} objects |")?;
    }
    writeln!(text, " growth |\n|---|{}---:|", "---:|".repeat(sizes.len()))?;
    for linker in linkers {
        let per_object = |(objects, case): &(usize, &CaseResult)| {
            let result = case.linkers.iter().find(|result| result.name == linker.name)?;
            Some(result.spread(Figure::Cpu)?.median * 1e3 / *objects as f64)
        };
        let values: Vec<Option<f64>> = sizes.iter().map(per_object).collect();
        write!(text, "| {} |", linker.name)?;
        for value in &values {
            write!(text, " {} |", value.map_or("-".into(), |value| format!("{value:.1}")))?;
        }
        match (values.first().copied().flatten(), values.last().copied().flatten()) {
            (Some(first), Some(last)) => writeln!(text, " {:.2}× |", last / first)?,
            _ => writeln!(text, " - |")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::Cost;
    use crate::bench::results::{Costs, LinkerResult};

    fn result(name: &str, walls: &[f64]) -> LinkerResult {
        let cost = |&wall| Cost {
            wall,
            cpu: 2.0 * wall,
            cpu_behind: 0.0,
            faults: 1000,
            peak_memory: 1 << 20,
            success: true,
        };
        let costs: Vec<Cost> = walls.iter().map(cost).collect();
        LinkerResult {
            name: name.into(),
            output_size: 1 << 20,
            outcome: Ok(Costs { fresh: costs.clone(), replaced: costs }),
        }
    }

    fn linker(name: &str, family: Family) -> Linker {
        Linker { name: name.into(), family, version: name.into(), command: vec![] }
    }

    #[test]
    fn ratios_refer_to_the_median_of_mold() {
        let linkers = [linker("ours", Family::SFrameLd), linker("mold", Family::Mold)];
        let results = vec![result("ours", &[0.3, 0.1, 0.2]), result("mold", &[0.1, 0.1, 0.9])];
        let case = CaseResult { name: "x".into(), description: "y", objects: None, linkers: results };
        let mut text = String::new();
        render_case(&mut text, &case, &linkers).unwrap();
        let row = text.lines().find(|line| line.starts_with("| ours")).unwrap();
        assert!(
            row.starts_with(
                "| ours | 200.0 (100.0 to 300.0) | 2.00× | 200.0 (100.0 to 300.0) | 2.00× | 400.0 (200.0 to 600.0) | 2.00× |"
            ),
            "{row}"
        );
    }

    #[test]
    fn growth_is_cpu_per_object_of_largest_to_smallest() {
        let linkers = [linker("ours", Family::SFrameLd)];
        let case = |objects, wall| CaseResult {
            name: "x".into(),
            description: "y",
            objects: Some(objects),
            linkers: vec![result("ours", &[wall])],
        };
        let mut text = String::new();
        render_growth(&mut text, &[case(500, 0.5), case(8000, 12.0)], &linkers).unwrap();
        assert!(text.ends_with("| ours | 2000.0 | 3000.0 | 1.50× |\n"), "{text}");
    }
}
