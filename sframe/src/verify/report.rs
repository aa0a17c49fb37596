//! Prints what `sframe verify` found.

use super::compare::{Comparison, Count, Difference};
use super::explain::{DifferenceKind, Gap};
use super::file::Verified;
use super::structure;
use crate::args::Verify;
use crate::compact;
use crate::open::{Input, Kind, Problem};
use crate::report::{Outcome, hexadecimal, print_json, write};
use crate::rewritten;
use diagnostics::words;
use serde::Serialize;
use sframe_format::compact::SECTION_NAME;
use sframe_format::verify::{FindingKind, Severity};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// How many differences of one kind are printed for a file, unless the user asks for all.
const SHOWN: usize = 20;

/// What helps if a table is not that of the code beside it, as after tools that move code.
const ATTACH: &str =
    "  if a tool has changed the code since the link, sframe attach makes the rows anew from .eh_frame";
/// What helps if a table says nothing of code that has moved, or was linked without rows.
const ATTACH_MORE: &str = "  sframe attach makes rows for that code from .eh_frame";

/// The findings about one file.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// Its name.
    pub file: String,
    /// Versions of its blobs.
    pub versions: Vec<u8>,
    /// Functions of its SFrame sections.
    pub functions: u64,
    /// Errors and warnings about the structure, and notes if the user asks for them.
    pub structure: Vec<StructureReport>,
    /// Number of structural errors.
    pub errors: u64,
    /// Number of warnings.
    pub warnings: u64,
    /// Functions of discarded text that are still there.
    pub dead: u64,
    /// The comparison with the call frame information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonReport>,
    /// Whether `sframe attach` can give the file other rows.
    #[serde(skip)]
    can_attach: bool,
}

/// A finding about the structure.
#[derive(Debug, Serialize)]
pub struct StructureReport {
    severity: &'static str,
    section: String,
    offset: String,
    message: String,
}

/// The comparison with `.eh_frame`.
#[derive(Debug, Serialize)]
pub struct ComparisonReport {
    /// Functions of `.eh_frame`.
    pub cfi: Count,
    /// Functions of `.eh_frame` that SFrame covers completely.
    pub covered: Count,
    /// Functions of `.eh_frame` that SFrame does not cover, by reason.
    pub uncovered: BTreeMap<Gap, Count>,
    /// SFrame functions that `.eh_frame` does not describe.
    pub extra: Count,
    /// Functions with a symbol that neither side describes.
    pub unknown: Count,
    /// Functions with differences.
    pub wrong: Count,
    /// Functions of `.eh_frame` that were not compared, because too many share addresses.
    pub not_compared: Count,
    /// Stretches of code with constant rules that were compared.
    pub stretches: u64,
    /// Signal frames without a mark, because V1 and V2 have none.
    pub lost_signals: u64,
    /// Functions without a relocation.
    pub unresolved: u64,
    /// Differences by kind.
    pub kinds: BTreeMap<DifferenceKind, u64>,
    /// All differences, sorted by kind and address.
    pub differences: Vec<DifferenceReport>,
    /// FDEs of `.eh_frame` that cannot be read.
    pub unreadable: Vec<String>,
    /// FDEs that were not compared, because `.eh_frame_hdr` lists others of the same code.
    pub replaced: u64,
}

/// A difference.
#[derive(Debug, Serialize)]
pub struct DifferenceReport {
    kind: DifferenceKind,
    place: String,
    start: String,
    bytes: u64,
    expected: String,
    found: String,
    section: String,
    fde: String,
}

impl FileReport {
    /// Adds the findings about compact tables.
    pub fn add_tables(&mut self, broken: &[(String, sframe_format::Error)]) {
        self.errors += broken.len() as u64;
        self.structure.extend(broken.iter().map(|(section, error)| {
            let (offset, message) = compact::finding(error);
            StructureReport { severity: "error", section: section.clone(), offset, message }
        }));
    }

    /// Adds what is wrong with a table in place of `.eh_frame` whose code was rewritten.
    pub fn add_rewritten(&mut self, input: &Input<'_>) {
        let table = input.compact.iter().find(|table| table.name != SECTION_NAME);
        let Some(table) = table.filter(|_| input.is_rewritten) else { return };
        let (severity, section, offset) = ("error", table.name.clone(), hexadecimal(0));
        self.errors += 1;
        self.structure.push(StructureReport { severity, section, offset, message: rewritten::complaint() });
    }

    /// Puts the findings into words.
    pub fn new(input: &Input<'_>, verified: &Verified, arguments: &Verify) -> Self {
        let comparison = verified.comparison.as_ref();
        let mut report = Self {
            file: input.name.clone(),
            versions: verified.versions.iter().map(|version| *version as u8).collect(),
            functions: verified.functions,
            structure: Vec::new(),
            errors: 0,
            warnings: 0,
            dead: 0,
            comparison: comparison.map(|found| ComparisonReport::new(input, found, arguments.demangle)),
            can_attach: input.kind == Kind::Linked && can_attach(input),
        };
        for (section, findings) in input.sframe.iter().zip(&verified.structure) {
            for finding in findings {
                report.dead += u64::from(finding.kind == FindingKind::Dead);
                report.errors += u64::from(structure::is_error(finding));
                let severity = finding.kind.severity();
                report.warnings += u64::from(severity == Severity::Warning);
                if severity == Severity::Note && !arguments.notes {
                    continue;
                }
                let prefix = format!("offset {:#x}: ", finding.offset);
                let message = finding.to_string();
                report.structure.push(StructureReport {
                    severity: match severity {
                        Severity::Error => "error",
                        Severity::Warning => "warning",
                        Severity::Note => "note",
                    },
                    section: section.name.clone(),
                    offset: hexadecimal(finding.offset as u64),
                    message: message.strip_prefix(&prefix).unwrap_or(&message).to_owned(),
                });
            }
        }
        report
    }

    /// The step that mends the file, if one does.
    fn advice(&self, comparison: &ComparisonReport) -> Option<&'static str> {
        if !self.can_attach {
            None
        } else if comparison.wrong.functions > 0 || self.errors > 0 {
            Some(ATTACH)
        } else {
            comparison.uncovered.contains_key(&Gap::Expressible).then_some(ATTACH_MORE)
        }
    }

    /// Whether there is something wrong. Code that is not covered counts only with `complete`.
    pub fn outcome(&self, complete: bool) -> Outcome {
        let wrong =
            |found: &ComparisonReport| !found.differences.is_empty() || found.not_compared.functions > 0;
        let wrong = self.errors > 0 || self.comparison.as_ref().is_some_and(wrong);
        let missing = complete && self.comparison.as_ref().is_some_and(|found| !found.uncovered.is_empty());
        if wrong || missing { Outcome::Findings } else { Outcome::Fine }
    }
}

impl ComparisonReport {
    fn new(input: &Input<'_>, comparison: &Comparison, demangled: bool) -> Self {
        let mut kinds: BTreeMap<DifferenceKind, u64> = BTreeMap::new();
        for difference in &comparison.differences {
            *kinds.entry(difference.kind).or_default() += 1;
        }
        let difference = |difference: &Difference| DifferenceReport {
            kind: difference.kind,
            place: input.places.describe(difference.range.start, demangled),
            start: hexadecimal(difference.range.start),
            bytes: difference.range.end - difference.range.start,
            expected: difference.expected.clone(),
            found: difference.found.clone(),
            section: input
                .sframe
                .get(difference.section)
                .map(|section| section.name.clone())
                .unwrap_or_default(),
            fde: hexadecimal(difference.fde as u64),
        };
        let unreadable = |(offset, reason): &(usize, String)| format!("offset {offset:#x}: {reason}");
        Self {
            cfi: comparison.cfi,
            covered: comparison.covered,
            uncovered: comparison.uncovered.clone(),
            extra: comparison.extra,
            unknown: comparison.unknown,
            wrong: comparison.wrong,
            not_compared: comparison.not_compared,
            stretches: comparison.stretches,
            lost_signals: comparison.lost_signals,
            unresolved: comparison.unresolved,
            kinds,
            differences: comparison.differences.iter().map(difference).collect(),
            unreadable: comparison.unreadable.iter().map(unreadable).collect(),
            replaced: comparison.replaced,
        }
    }
}

/// Whether a file has a table that `sframe attach` makes. Only the linker makes one in place of `.eh_frame`.
fn can_attach(input: &Input<'_>) -> bool {
    input.sframe.iter().any(|section| !section.derived)
        || input.compact.iter().any(|table| table.name == SECTION_NAME)
}

/// Sums over files.
#[derive(Debug, Default, Serialize)]
pub struct Total {
    /// Files that were verified.
    pub files: u64,
    /// Files that have no SFrame section.
    pub without: u64,
    /// Files that cannot be used.
    pub unusable: u64,
    /// SFrame functions.
    pub functions: u64,
    /// Structural errors.
    pub errors: u64,
    /// Structural warnings.
    pub warnings: u64,
    /// Functions of discarded text.
    pub dead: u64,
    /// Functions of `.eh_frame`.
    pub cfi: Count,
    /// Functions of `.eh_frame` that SFrame covers completely.
    pub covered: Count,
    /// Functions of `.eh_frame` that SFrame does not cover, by reason.
    pub uncovered: BTreeMap<Gap, Count>,
    /// SFrame functions that `.eh_frame` does not describe.
    pub extra: Count,
    /// Functions with a symbol that neither side describes.
    pub unknown: Count,
    /// Functions with differences.
    pub wrong: Count,
    /// Functions of `.eh_frame` that were not compared, because too many share addresses.
    pub not_compared: Count,
    /// Stretches of code that were compared.
    pub stretches: u64,
    /// Differences by kind.
    pub kinds: BTreeMap<DifferenceKind, u64>,
    /// FDEs of `.eh_frame` that cannot be read.
    pub unreadable: u64,
}

impl Total {
    /// Adds a file.
    pub fn add(&mut self, report: &FileReport) {
        self.files += 1;
        self.functions += report.functions;
        self.errors += report.errors;
        self.warnings += report.warnings;
        self.dead += report.dead;
        let Some(comparison) = &report.comparison else { return };
        self.cfi.append(comparison.cfi);
        self.covered.append(comparison.covered);
        self.extra.append(comparison.extra);
        self.unknown.append(comparison.unknown);
        self.wrong.append(comparison.wrong);
        self.not_compared.append(comparison.not_compared);
        self.stretches += comparison.stretches;
        self.unreadable += comparison.unreadable.len() as u64;
        for (gap, count) in &comparison.uncovered {
            self.uncovered.entry(*gap).or_default().append(*count);
        }
        for (kind, count) in &comparison.kinds {
            *self.kinds.entry(*kind).or_default() += count;
        }
    }
}

#[derive(Serialize)]
struct Everything<'a> {
    files: &'a [FileReport],
    total: &'a Total,
}

/// Prints all reports, and their sum if there are several.
///
/// # Errors
/// They cannot be written.
pub fn print(reports: &[FileReport], total: &Total, arguments: &Verify) -> Result<(), Problem> {
    if arguments.json {
        return print_json(&Everything { files: reports, total });
    }
    write(|output| write_text(output, reports, total, arguments))
}

fn write_text(
    output: &mut dyn Write,
    reports: &[FileReport],
    total: &Total,
    arguments: &Verify,
) -> io::Result<()> {
    let single = reports.len() == 1;
    for report in reports {
        write_findings(output, report, arguments)?;
        let wrong = report.outcome(arguments.complete) != Outcome::Fine;
        if single || wrong || arguments.verbose {
            write_summary(output, report)?;
        }
    }
    if single { Ok(()) } else { write_total(output, total) }
}

fn write_findings(output: &mut dyn Write, report: &FileReport, arguments: &Verify) -> io::Result<()> {
    for finding in &report.structure {
        let StructureReport { severity, section, offset, message } = finding;
        let line = format!("{}: {severity}: {section}+{offset}: {message}", report.file);
        writeln!(output, "{}", words::shown(&line))?;
    }
    let Some(comparison) = &report.comparison else { return Ok(()) };
    for unreadable in comparison.unreadable.iter().filter(|_| arguments.notes) {
        writeln!(output, "{}: note: .eh_frame {unreadable}", words::shown(&report.file))?;
    }
    let mut shown: BTreeMap<DifferenceKind, usize> = BTreeMap::new();
    for difference in &comparison.differences {
        let count = shown.entry(difference.kind).or_default();
        *count += 1;
        if *count > SHOWN && !arguments.all {
            continue;
        }
        let line = format!(
            "{}: wrong {} at {}, {}: expected {}, found {} ({}, FDE at {})",
            report.file,
            difference.kind.name(),
            difference.place,
            words::count(difference.bytes, "byte"),
            difference.expected,
            difference.found,
            difference.section,
            difference.fde
        );
        writeln!(output, "{}", words::shown(&line))?;
    }
    for (kind, count) in shown.iter().filter(|(_, count)| **count > SHOWN && !arguments.all) {
        writeln!(
            output,
            "{}: {} more of wrong {}; --all shows them",
            words::shown(&report.file),
            count - SHOWN,
            kind.name()
        )?;
    }
    Ok(())
}

fn write_summary(output: &mut dyn Write, report: &FileReport) -> io::Result<()> {
    let versions: Vec<String> = report.versions.iter().map(|version| format!("V{version}")).collect();
    write!(output, "{}: ", words::shown(&report.file))?;
    if versions.is_empty() {
        write!(output, "nothing that SFrame can describe")?;
    } else {
        let functions = words::count(report.functions, "function");
        write!(output, "SFrame {}, {functions}", versions.join(" and "))?;
    }
    let (errors, warnings) = (words::count(report.errors, "error"), words::count(report.warnings, "warning"));
    write!(output, ", {errors}, {warnings}")?;
    if report.dead > 0 {
        write!(output, ", {} dead", report.dead)?;
    }
    let Some(comparison) = &report.comparison else {
        return writeln!(output, "; no .eh_frame to compare with");
    };
    writeln!(output)?;
    let right = comparison.cfi.functions - comparison.wrong.functions;
    writeln!(
        output,
        "  .eh_frame: {}, {right} without a difference, {} wrong; {} compared",
        counted(comparison.cfi),
        comparison.wrong.functions,
        stretches(comparison.stretches)
    )?;
    write_counts(output, &comparison.kinds, &comparison.uncovered, comparison.extra, comparison.unknown)?;
    if let Some(advice) = report.advice(comparison) {
        writeln!(output, "{advice}")?;
    }
    if comparison.lost_signals > 0 {
        writeln!(
            output,
            "  signal frames without a mark, which this version does not have: {}",
            comparison.lost_signals
        )?;
    }
    write_not_compared(output, comparison.not_compared)?;
    if comparison.unresolved > 0 {
        writeln!(output, "  functions of no known section: {}", comparison.unresolved)?;
    }
    if !comparison.unreadable.is_empty() {
        writeln!(output, "  FDEs of .eh_frame that cannot be read: {}", comparison.unreadable.len())?;
    }
    if comparison.replaced > 0 {
        writeln!(
            output,
            "  old FDEs of rewritten code, for which .eh_frame_hdr lists new ones: {}",
            comparison.replaced
        )?;
    }
    Ok(())
}

fn write_not_compared(output: &mut dyn Write, count: Count) -> io::Result<()> {
    if count.functions == 0 {
        return Ok(());
    }
    writeln!(
        output,
        "  not compared: {}, for more functions share addresses than a program has; the tables are damaged",
        counted(count)
    )
}

fn write_counts(
    output: &mut dyn Write,
    kinds: &BTreeMap<DifferenceKind, u64>,
    uncovered: &BTreeMap<Gap, Count>,
    extra: Count,
    unknown: Count,
) -> io::Result<()> {
    for (kind, count) in kinds {
        writeln!(output, "  wrong {}: {count}", kind.name())?;
    }
    for (gap, count) in uncovered {
        writeln!(output, "  not covered: {}, {}", counted(*count), gap.name())?;
    }
    if extra.functions > 0 {
        writeln!(output, "  not in .eh_frame: {}", counted(extra))?;
    }
    if unknown.functions > 0 {
        writeln!(output, "  described by neither: {}", counted(unknown))?;
    }
    Ok(())
}

/// `2 functions (30 bytes)`.
fn counted(count: Count) -> String {
    format!("{} ({})", words::count(count.functions, "function"), words::count(count.bytes, "byte"))
}

fn stretches(number: u64) -> String {
    format!("{number} {}", if number == 1 { "stretch" } else { "stretches" })
}

fn write_total(output: &mut dyn Write, total: &Total) -> io::Result<()> {
    writeln!(
        output,
        "{}, {}, {}, {}, {} dead; {} without SFrame, {} unusable",
        words::count(total.files, "file"),
        words::count(total.functions, "SFrame function"),
        words::count(total.errors, "error"),
        words::count(total.warnings, "warning"),
        total.dead,
        words::count(total.without, "file"),
        total.unusable
    )?;
    let share = 100.0 * total.covered.functions as f64 / total.cfi.functions.max(1) as f64;
    writeln!(
        output,
        "  .eh_frame: {}, {} covered in full ({share:.3} %), {} wrong; {} compared",
        counted(total.cfi),
        total.covered.functions,
        total.wrong.functions,
        stretches(total.stretches)
    )?;
    write_counts(output, &total.kinds, &total.uncovered, total.extra, total.unknown)?;
    write_not_compared(output, total.not_compared)?;
    if total.unreadable > 0 {
        writeln!(output, "  FDEs of .eh_frame that cannot be read: {}", total.unreadable)?;
    }
    Ok(())
}
