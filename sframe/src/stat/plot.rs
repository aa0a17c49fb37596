//! Draws the distribution of table sizes (SVG), in a size that fits into a mail.

use super::spread::Spread;
use crate::Problem;
use crate::destination::{self, Way};
use diagnostics::words::count;
use plotters::prelude::*;
use std::path::Path;

/// Width and height of a panel in pixels.
const PANEL: (u32, u32) = (800, 320);
/// Height of the heading.
const HEADING: u32 = 40;
const BARS: [RGBColor; 2] = [RGBColor(0x4c, 0x72, 0xb0), RGBColor(0xdd, 0x84, 0x52)];
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
const SANS: &str = "sans-serif";

/// Checks the file for the picture before the work for it begins.
///
/// # Errors
/// It cannot be written, or its name asks for another kind of picture.
pub fn check(path: &Path) -> Result<(), Problem> {
    let ending = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
    let known = ending.is_none_or(|ending| ending == "svg");
    let named = known.then_some(()).ok_or_else(|| "the picture is written as SVG; name it FILE.svg".into());
    named
        .and_then(|()| destination::check(path, Way::Written))
        .map_err(|message| Problem::new(path.display().to_string(), message))
}

/// Draws one panel for each table. All panels have the same axes.
///
/// # Errors
/// There is nothing to draw, or the file cannot be written.
pub fn write(path: &Path, spreads: &[Spread], files: usize) -> Result<(), String> {
    let text = draw(spreads, files)?;
    std::fs::write(path, text).map_err(|error| format!("cannot write: {error}"))
}

fn draw(spreads: &[Spread], files: usize) -> Result<String, String> {
    if spreads.is_empty() {
        return Err("there is nothing to plot".into());
    }
    let mut text = String::new();
    let end = spreads.iter().map(Spread::end).fold(0.0, f64::max);
    let most = spreads.iter().flat_map(|spread| &spread.buckets).copied().max().unwrap_or(0);
    // Leave room above the highest bar for the name of the median.
    let axes = Axes { end, top: most + most / 8 + 1 };
    {
        let size = (PANEL.0, HEADING + PANEL.1 * spreads.len() as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let failed = |error: DrawingAreaErrorKind<_>| format!("cannot draw: {error}");
        root.fill(&WHITE).map_err(failed)?;
        let title =
            format!("Share of file size taken by stack-trace tables, {}", count(files as u64, "file"));
        let root = root.titled(&title, (SANS, 22)).map_err(failed)?;
        for (place, (area, spread)) in root.split_evenly((spreads.len(), 1)).iter().zip(spreads).enumerate() {
            panel(area, spread, axes, BARS[place % BARS.len()]).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// Where the axes of all panels end, so that the panels can be compared.
#[derive(Clone, Copy)]
struct Axes {
    /// In per cent.
    end: f64,
    /// In files.
    top: u64,
}

fn panel<'a>(area: &Area<'a>, spread: &Spread, axes: Axes, color: RGBColor) -> Result<(), Failure<'a>> {
    let caption = format!(
        "{}: min {:.2} %, median {:.2} %, mean {:.2} %, max {:.2} %",
        spread.table, spread.min, spread.median, spread.mean, spread.max
    );
    let mut chart = ChartBuilder::on(area)
        .caption(caption, (SANS, 15))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..axes.end, 0..axes.top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(BLACK.mix(0.5))
        .x_label_formatter(&|share| format!("{share}"))
        .x_desc("share of the file, per cent")
        .y_desc("files")
        .label_style((SANS, 12))
        .draw()?;
    let width = spread.bucket_width;
    let bars = spread.buckets.iter().enumerate().map(|(place, &count)| {
        let from = place as f64 * width;
        let mut bar = Rectangle::new([(from, 0), (from + width, count)], color.filled());
        bar.set_margin(0, 0, 1, 1);
        bar
    });
    chart.draw_series(bars)?;
    let median = vec![(spread.median, 0), (spread.median, axes.top)];
    chart.draw_series([PathElement::new(median, BLACK.stroke_width(2))])?;
    let name = EmptyElement::at((spread.median, axes.top)) + Text::new("median", (6, 2), (SANS, 12));
    chart.draw_series([name])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::stat::spread::Spread;

    #[test]
    fn a_bar_is_drawn_for_every_bucket() {
        let spreads: Vec<Spread> =
            [Spread::new("first", vec![1.0, 2.0, 7.5]), Spread::new("second", vec![4.0])]
                .into_iter()
                .flatten()
                .collect();
        let text = draw(&spreads, 3).unwrap();
        assert!(text.starts_with("<svg") && text.contains("first: min 1.00 %"), "{text}");
        let bars = text.matches("<rect").count();
        let buckets: usize = spreads.iter().map(|spread| spread.buckets.len()).sum();
        assert!(bars >= buckets, "{bars} of {buckets}");
        assert!(draw(&[], 0).is_err());
    }
}
