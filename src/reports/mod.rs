//! Reports that options ask for: files of the link, definitions of symbols, places of sections.
//!
//! The linker makes each report as soon as it has the data, for most of them at the end. It keeps only
//! [`trace::ReportData`] for them, because nobody but archive extraction knows why the link has a member.

mod cross_reference;
mod dependency_file;
pub mod error_script;
mod map;
pub mod overwrite;
pub mod reproduce;
mod stats;
mod trace;
mod unwind_table;

use crate::arch::Target;
use crate::cli::{Config, Explanation, StatsFormat};
use crate::diag::words::shown;
use crate::layout::priority::Priorities;
use crate::merge::UsedOffsets;
use crate::passes::extract_members::Extracted;
use crate::passes::lay_out;
use crate::passes::open_inputs::Opened;
use crate::phase::{Bound, Folds, Image, Inputs, Placed, Resolved, Scanned, SectionStates, Session};
use crate::relocs::explain;
use crate::sframe_output;
use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;
use trace::ReportData;

/// `--verbose`: the script in use, and the files that the linker tried to open.
pub fn search<T: Target>(config: &Config, opened: &mut Opened<'_>, printed: &mut String) {
    if !config.reports.verbose {
        return;
    }
    let scripts = &config.scripts;
    match scripts.scripts.last().map(|script| &script.path).or(scripts.default_script.as_ref()) {
        Some(path) => {
            let path = path.display().to_string();
            printed.push_str(&format!("using external linker script: {}\n", shown(&path)));
        }
        None => {
            let text = lay_out::built_in_text::<T>(config);
            let rule = "=".repeat(50);
            printed.push_str(&format!("using internal linker script:\n{rule}\n{text}\n{rule}\n"));
        }
    }
    printed.push_str(&std::mem::take(&mut opened.attempts));
}

/// Reports on the files that take part. Returns the data about them for later reports.
pub fn files<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    opened: &Opened<'a>,
    extracted: &Extracted,
    printed: &mut String,
) -> ReportData<'a> {
    let options = &inputs.config.reports;
    let mut data = ReportData { paths: opened.paths.clone(), members: Vec::new() };
    if options.why_extract.is_some() || options.map.is_some() || options.print_map {
        data.members = trace::included_members(inputs, opened, extracted);
    }
    if options.trace > 0 {
        printed.push_str(&trace::files(inputs, opened, &data));
    }
    if let Some(path) = &options.why_extract {
        let text = trace::why_extract(inputs, &data);
        write_text(inputs.session, path, overwrite::REASONS, text, printed);
    }
    if let Some(path) = &options.archive_stats {
        let text = trace::archives(opened, extracted);
        write_text(inputs.session, path, overwrite::ARCHIVES, text, printed);
    }
    data
}

/// Reports on symbols. Definitions must be frozen.
pub fn symbols<T: Target>(link: &Resolved<'_, T>, printed: &mut String) {
    printed.push_str(&trace::symbols(link));
}

/// `--print-gc-sections`, `--why-live`.
pub fn collected<T: Target>(
    link: &Bound<'_, T>,
    sections: &SectionStates,
    used: &UsedOffsets,
    printed: &mut String,
) {
    if !link.config.gc.enabled {
        return;
    }
    if let Some(path) = &link.config.gc.print {
        let lines = crate::passes::collect_garbage::removed_sections(link, sections);
        let text: String = lines.into_iter().map(|line| line + "\n").collect();
        write_text(link.session, path, overwrite::REMOVED, text, printed);
    }
    if !link.config.gc.why_live.is_empty() {
        printed.push_str(&crate::passes::explain_liveness::text(link, sections, used));
    }
}

/// `--print-icf-sections`.
pub fn folded<T: Target>(link: &Bound<'_, T>, folds: &Folds, printed: &mut String) {
    let Some(path) = link.config.icf.print.as_ref().filter(|_| link.config.icf.is_on()) else { return };
    let (mut last, mut text) = (None, String::new());
    for (leader, folded) in folds.pairs() {
        if last.replace(leader) != Some(leader) {
            let _ = writeln!(text, "selected section {}", link.describe_section(leader));
        }
        let _ = writeln!(text, "  removing identical section {}", link.describe_section(folded));
    }
    let saved: u64 = folds.pairs().iter().map(|&(_, folded)| link.input_size(folded)).sum();
    let _ = writeln!(text, "ICF saved {saved} bytes");
    write_text(link.session, path, overwrite::FOLDED, text, printed);
}

/// `--explain-discarded`. It runs when references are known and before they end the link.
pub fn discarded<T: Target>(link: &Scanned<'_, T>, printed: &mut String) {
    match &link.config.reports.explain_discarded {
        None => {}
        Some(Explanation::Printed) => printed.push_str(&explain::text(link)),
        Some(Explanation::File(path)) => {
            let is_graph = path.extension().is_some_and(|extension| extension == "dot" || extension == "gv");
            let text = if is_graph { explain::graph(link) } else { explain::text(link) };
            write_text(link.session, path, overwrite::EXPLANATION, text, printed);
        }
    }
}

/// `--print-symbol-order`. It runs before the layout orders sections by it.
pub fn symbol_order<T: Target>(link: &Scanned<'_, T>, priorities: &Priorities, printed: &mut String) {
    if let Some(path) = &link.config.reports.symbol_order {
        let text = crate::passes::order_sections::symbols_in_order(link, priorities);
        write_text(
            link.session,
            path,
            overwrite::SYMBOL_ORDER,
            String::from_utf8_lossy(&text).into_owned(),
            printed,
        );
    }
}

/// Writes the map of a link that the layout refuses, and what the regions hold. People look there for the
/// reason why an `ASSERT` fails or a region is too small.
pub fn refused<T: Target>(link: &Image<'_, T>, data: &ReportData<'_>, printed: &mut String) {
    let options = &link.config.reports;
    if !link.sink.has_errors() {
        return;
    }
    if options.map.is_some() || options.print_map {
        show_map(link, map::map(link, data), printed);
    }
    if options.print_memory_usage {
        printed.push_str(&memory_usage(link));
    }
}

fn show_map<T: Target>(link: &Image<'_, T>, text: String, printed: &mut String) {
    if link.config.reports.print_map {
        printed.push_str(&text);
    }
    if let Some(path) = &link.config.reports.map {
        write_text(link.session, path, overwrite::MAP, text, printed);
    }
}

/// Reports on the finished link.
pub fn finish<T: Target>(link: &Image<'_, T>, data: &ReportData<'_>, printed: &mut String) {
    let options = &link.config.reports;
    let cross_references = if options.cref { cross_reference::table(link) } else { String::new() };
    let mut cross_references = Some(cross_references);
    if options.map.is_some() || options.print_map {
        let mut text = map::map(link, data);
        text.push_str(&cross_references.take().unwrap_or_default());
        show_map(link, text, printed);
    }
    printed.push_str(&cross_references.unwrap_or_default());
    if options.print_memory_usage {
        printed.push_str(&memory_usage(link));
    }
    if let Some(path) = &options.dependency_file {
        write_text(
            link.session,
            path,
            overwrite::DEPENDENCIES,
            dependency_file::rule(link, &data.paths),
            printed,
        );
    }
    // `--stats` as text already contains these lines.
    if link.config.sframe.print && options.stats != Some(StatsFormat::Text) {
        printed.push_str(&sframe_output::report::collect(link).to_string());
        printed.push_str(&unwind_table::lines(link));
    }
    if !link.config.sframe.print && options.stats.is_none() {
        printed.push_str(&sframe_output::derived::line(link));
    }
    if let Some(format) = options.stats {
        printed.push_str(&stats::stats(link, format));
    }
}

/// `--print-memory-usage`: how much of the script's `MEMORY` regions is in use.
fn memory_usage<T: Target>(link: &Placed<'_, T>) -> String {
    let size = |bytes: u64| {
        let units = [(1u64 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (1, "B")];
        let &(unit, name) =
            units.iter().find(|(unit, _)| bytes != 0 && bytes.is_multiple_of(*unit)).unwrap_or(&units[3]);
        let shown = format!("{} {name}", bytes / unit);
        format!("{shown:>13}")
    };
    let mut text = String::from("Memory region         Used Size  Region Size  %age Used\n");
    for (region, declared) in link.layout.regions.iter().zip(&link.plan.memory) {
        let used = region.current.wrapping_sub(region.origin);
        let share = used as f64 * 100.0 / region.length.max(1) as f64;
        let name = shown(&declared.name.text()).into_owned();
        let _ = writeln!(text, "{name:>16}: {}{}    {share:>6.2}%", size(used), size(region.length));
    }
    text
}

/// Writes a text to the file that was opened for it. `-` is standard output.
fn write_text(session: Session<'_>, path: &Path, what: &str, text: impl AsRef<[u8]>, printed: &mut String) {
    if path.as_os_str() == "-" {
        printed.push_str(&String::from_utf8_lossy(text.as_ref()));
    } else {
        // The call reports a failure, and the next checkpoint ends the link.
        let _ = session.files.write(what, session.sink, |mut file| file.write_all(text.as_ref()));
    }
}
