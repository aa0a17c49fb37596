//! Draws the results (SVG): wall times as ratios, and how the cost grows.

use std::path::Path;

use ::peers::{Family, Linker};
use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::results::{CaseResult, Figure, LinkerResult};

/// Width of a picture; height of a workload's group, and of a bar in it; in pixels.
const WIDTH: u32 = 900;
const BAR: u32 = 14;
const GAP: u32 = 14;
const HEADING: u32 = 50;
/// Width of the names on the left.
const NAMES: u32 = 150;
/// Larger ratios are cut off here.
const GREATEST: f64 = 4.0;
const SANS: &str = "sans-serif";
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn color(family: Family) -> RGBColor {
    match family {
        Family::SFrameLd => RGBColor(0xc4, 0x4e, 0x52),
        Family::Wild => RGBColor(0xdd, 0x84, 0x52),
        Family::Mold => RGBColor(0x4c, 0x72, 0xb0),
        Family::Lld => RGBColor(0x55, 0xa8, 0x68),
        Family::Gold => RGBColor(0xcc, 0xb9, 0x74),
        Family::Gnu | Family::Other => RGBColor(0x8c, 0x8c, 0x8c),
    }
}

/// Writes `wall.svg`, and `growth.svg` if several sizes were linked.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, results: &[CaseResult], linkers: &[Linker]) -> Result<()> {
    std::fs::write(folder.join("wall.svg"), wall(results, linkers)?)?;
    if results.iter().filter(|case| case.objects.is_some()).count() >= 2 {
        std::fs::write(folder.join("growth.svg"), growth(results, linkers)?)?;
    }
    Ok(())
}

/// The results of linkers under their own names, each with its color. Variants of a linker are only in the
/// table.
fn shown<'r>(case: &'r CaseResult, linkers: &[Linker]) -> Vec<(&'r LinkerResult, RGBColor)> {
    let row = |linker: &Linker| {
        let result = case.linkers.iter().find(|result| result.name == linker.name)?;
        result.outcome.is_ok().then_some((result, color(linker.family)))
    };
    linkers.iter().filter_map(row).collect()
}

/// Draws a group of bars for each workload: wall times over an old output, as ratios to sframe-ld's.
fn wall(results: &[CaseResult], linkers: &[Linker]) -> Result<String> {
    let groups: Vec<_> = results.iter().map(|case| (case, shown(case, linkers))).collect();
    let bars: usize = groups.iter().map(|(_, rows)| rows.len()).sum();
    let height = HEADING + bars as u32 * BAR + groups.len() as u32 * (GAP + BAR);
    draw((WIDTH, height), "Wall time over an old output, as a ratio to sframe-ld's", |root| {
        let scale = f64::from(WIDTH - NAMES - 60) / GREATEST;
        let x = |ratio: f64| NAMES as i32 + (ratio.min(GREATEST) * scale) as i32;
        for line in 0..=GREATEST as i32 {
            let at = x(f64::from(line));
            root.draw(&PathElement::new([(at, 0), (at, height as i32)], GRID.stroke_width(1)))?;
        }
        let mut y = 0;
        for (case, rows) in &groups {
            root.draw(&Text::new(case.name.clone(), (6, y), (SANS, 14).into_font().style(FontStyle::Bold)))?;
            y += BAR as i32;
            let own = rows.first().and_then(|(result, _)| result.spread(Figure::WallReplaced));
            for (result, color) in rows {
                let (Some(spread), Some(own)) = (result.spread(Figure::WallReplaced), own) else { continue };
                let ratio = spread.median / own.median;
                let bar = Rectangle::new([(x(0.0), y + 1), (x(ratio), y + BAR as i32 - 1)], color.filled());
                root.draw(&bar)?;
                root.draw(&Text::new(result.name.clone(), (20, y + 1), (SANS, 11)))?;
                root.draw(&Text::new(format!("{ratio:.2}"), (x(ratio) + 4, y + 1), (SANS, 11)))?;
                y += BAR as i32;
            }
            y += GAP as i32;
        }
        Ok(())
    })
}

/// Draws CPU time per object against the number of objects.
fn growth(results: &[CaseResult], linkers: &[Linker]) -> Result<String> {
    let points = |linker: &Linker| -> Vec<(f64, f64)> {
        let point = |case: &CaseResult| {
            let objects = case.objects? as f64;
            let result = case.linkers.iter().find(|result| result.name == linker.name)?;
            Some((objects, result.spread(Figure::Cpu)?.median * 1e3 / objects))
        };
        results.iter().filter_map(point).collect()
    };
    let lines: Vec<_> = linkers.iter().map(|linker| (linker, points(linker))).collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let widest = all().map(|point| point.0).fold(1.0, f64::max);
    let least = all().map(|point| point.0).fold(widest, f64::min);
    let highest = all().map(|point| point.1).fold(0.0, f64::max);
    draw((WIDTH, 420), "CPU time per object, in microseconds, by the number of objects", |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(12)
            .x_label_area_size(32)
            .y_label_area_size(56)
            .build_cartesian_2d((least * 0.9..widest * 1.1).log_scale(), 0.0..highest * 1.1)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .label_style((SANS, 12))
            .draw()?;
        for (linker, points) in &lines {
            let color = color(linker.family);
            let series = LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3);
            chart
                .draw_series(series)?
                .label(linker.name.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE)
            .border_style(GRID)
            .label_font((SANS, 12))
            .draw()?;
        Ok(())
    })
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// A picture with a title; `fill` draws what is below it.
fn draw(
    size: (u32, u32),
    title: &str,
    fill: impl for<'a> FnOnce(&Area<'a>) -> Result<(), Failure<'a>>,
) -> Result<String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let failed = |error: Failure<'_>| anyhow!("cannot draw: {error}");
        root.fill(&WHITE).map_err(failed)?;
        let root = root.titled(title, (SANS, 18)).map_err(failed)?;
        fill(&root).map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::Cost;
    use crate::bench::results::Costs;

    #[test]
    fn pictures_show_each_linker_of_each_workload() {
        let linker =
            |name: &str, family| Linker { name: name.into(), family, version: name.into(), command: vec![] };
        let linkers = [linker("ours", Family::SFrameLd), linker("theirs", Family::Mold)];
        let result = |linker: &Linker| {
            let cost =
                Cost { wall: 1.0, cpu: 1.0, cpu_behind: 0.0, faults: 1, peak_memory: 1, success: true };
            let costs = Costs { fresh: vec![cost.clone()], replaced: vec![cost] };
            LinkerResult { name: linker.name.clone(), output_size: 1, outcome: Ok(costs) }
        };
        let case = |objects| CaseResult {
            name: format!("case-{objects}"),
            description: "",
            objects: Some(objects),
            linkers: linkers.iter().map(result).collect(),
        };
        let results = [case(10), case(100)];
        let text = wall(&results, &linkers).unwrap();
        for words in ["ours", "theirs", "case-10", "case-100"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let text = growth(&results, &linkers).unwrap();
        assert!(text.contains("ours") && text.contains("theirs"), "{text}");
    }
}
