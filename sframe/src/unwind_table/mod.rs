//! `sframe unwind-table`: checks the table that stands for `.eh_frame` in a finished file, or says what one
//! would take.
//!
//! A file with such a table still has the frames that the table replaces in `.debug_frame`, or all of them in
//! `.eh_frame` (`--unwind-table=add`). In a file without one, the command makes a table of `.eh_frame` in
//! memory. In either case it then holds what the table says, at every address, against gimli's evaluation of
//! the frames: every register, the size of arguments, the start of the function, the personality routine and
//! the language-specific data. gimli shares no code with the encoder.

mod made;
mod sections;
mod truth;

use super::args::UnwindTable;
use super::edit::read_file;
use super::open::Problem;
use super::report::{Outcome, complain, print, print_json};
use super::rewritten;
use made::Made;
use sections::Sections;
use serde::Serialize;
use sframe_format::CompactTable;
use sframe_format::compact::WHOLE_SECTION_NAME;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use truth::{Counts, Frames};

/// The largest number of differences that are printed for a file.
const SHOWN: usize = 10;

/// What was found in a file.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    /// Whether the file has the table; otherwise it was made in memory.
    has_table: bool,
    functions: u64,
    entries: u32,
    rules: u32,
    /// Functions with a personality routine.
    handlers: u32,
    table_size: u64,
    /// Bytes of `.eh_frame` and its header in the file.
    frames_size: u64,
    /// Bytes of frames that a table would leave in `.eh_frame`, with their header.
    kept_size: u64,
    /// Frames that stay, by reason.
    kept: BTreeMap<String, u64>,
    rows_compared: u64,
    addresses_compared: u64,
    differences: Vec<String>,
}

pub fn run(arguments: &UnwindTable) -> Outcome {
    let mut outcome = Outcome::Fine;
    let mut reports = Vec::new();
    for file in &arguments.files {
        match examine(file) {
            Ok(report) => {
                let found = if report.differences.is_empty() { Outcome::Fine } else { Outcome::Findings };
                outcome = outcome.max(found);
                reports.push(report);
            }
            Err(problem) => {
                complain(&problem);
                outcome = Outcome::Unusable;
            }
        }
    }
    let printed = if arguments.json {
        print_json(&reports)
    } else {
        print(&reports.iter().map(text).collect::<String>())
    };
    outcome.max(Outcome::of(printed))
}

fn examine(path: &Path) -> Result<Report, Problem> {
    let name = path.display().to_string();
    let bytes = read_file(path)?;
    let malformed = |error: object::Error| Problem::new(&*name, error.to_string());
    let file = object::File::parse(&bytes[..]).map_err(malformed)?;
    let sections = Sections::of(&file).map_err(|what| Problem::new(&*name, what))?;
    if sections.table.is_some() && sections.is_rewritten {
        return Err(Problem::new(&*name, rewritten::complaint()));
    }
    let mut report = Report {
        file: name.clone(),
        has_table: sections.table.is_some(),
        functions: 0,
        entries: 0,
        rules: 0,
        handlers: 0,
        table_size: 0,
        frames_size: sections.eh_frame.0.len() as u64 + sections.header_size,
        kept_size: 0,
        kept: BTreeMap::new(),
        rows_compared: 0,
        addresses_compared: 0,
        differences: Vec::new(),
    };
    let (bytes, address) = match &sections.table {
        Some((bytes, address)) => (Cow::Borrowed(&**bytes), *address),
        None => {
            let Made { bytes, address, kept, kept_size } =
                made::table(&sections).map_err(|error| Problem::new(&*name, error))?;
            (report.kept, report.kept_size) = (kept, kept_size);
            (Cow::Owned(bytes), address)
        }
    };
    let broken = |error: sframe_format::Error| Problem::new(&*name, format!("{WHOLE_SECTION_NAME}: {error}"));
    let table = CompactTable::parse(&*bytes, address).map_err(broken)?;
    table.verify().map_err(broken)?;
    let header = table.header();
    (report.entries, report.rules, report.handlers) = (header.entries, header.rules, header.whole.handlers);
    report.table_size = header.length.into();
    let mut counts = Counts::default();
    truth::compare(&table, Frames::EhFrame(&sections.eh_frame.0, sections.eh_frame.1), &mut counts);
    if report.has_table {
        report.kept.insert("they are in .eh_frame alone".to_owned(), counts.kept);
    }
    // Inputs may have had a `.debug_frame`, for code that the table does not know.
    if let Some(debug_frame) = &sections.debug_frame {
        truth::compare(&table, Frames::DebugFrame(debug_frame), &mut counts);
    }
    report.functions = counts.functions;
    (report.rows_compared, report.addresses_compared) = (counts.rows, counts.addresses);
    report.differences = counts.differences;
    Ok(report)
}

fn text(report: &Report) -> String {
    use std::fmt::Write;
    let Report { file, functions, table_size, frames_size, kept_size, .. } = report;
    let mut out = String::new();
    let how = if report.has_table { "has an unwind table" } else { "would have an unwind table" };
    let _ = writeln!(out, "{file} {how} of {table_size} bytes");
    let taken = table_size + kept_size;
    if !report.has_table && *functions > 0 && *frames_size > 0 {
        let (each, share) = (taken as f64 / *functions as f64, taken as f64 / *frames_size as f64);
        let _ = writeln!(
            out,
            "  with the frames that stay {taken} bytes, {each:.2} for a function, {share:.3} of {frames_size} bytes of .eh_frame and header"
        );
    }
    if report.has_table && *functions == 0 {
        let _ = writeln!(out, "  no frames are left to compare it with: .debug_frame is gone");
    }
    let _ = writeln!(
        out,
        "  {} entries, {} rules, {} functions with a personality routine",
        report.entries, report.rules, report.handlers
    );
    for (reason, count) in &report.kept {
        let _ = writeln!(out, "  {count} frames stay: {reason}");
    }
    let _ = writeln!(
        out,
        "  compared {functions} functions, {} rows at {} addresses: {} differences",
        report.rows_compared,
        report.addresses_compared,
        report.differences.len()
    );
    for difference in report.differences.iter().take(SHOWN) {
        let _ = writeln!(out, "  {difference}");
    }
    out
}
