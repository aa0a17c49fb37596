//! Chooses the functions of the linker's own SFrame section, which determines its size.
//!
//! The functions of inputs are united once liveness is frozen, at the same time as other passes run. The
//! functions of the PLTs follow when the PLTs have their entries.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::phase::{Live, Numbered, Scanned};
use crate::sframe::collect::{Batch, Chosen, LeftOut, Origin, Role, Table, unite};
use crate::sframe::encoding;
use crate::sframe_output::table::describe;
use crate::sframe_output::{compact, plt};
use crate::tables::section::Kind;

/// One message names at most so many functions.
const NAMED: usize = 5;

/// Unites the functions of inputs; `None` if the linker makes no SFrame section. It only reads the link, so
/// another thread can scan relocations at the same time.
pub fn unite_inputs<T: Target>(link: &Live<'_, T>) -> Option<Table> {
    let row = link.synthetic.find(Kind::SFrame)?;
    let alive = link.sections.is_alive(link.synthetic_id(row));
    alive.then(|| unite(link, &link.sections, &link.described.batches))
}

/// Chooses the functions; none if the linker makes no SFrame section. `united` has the functions of inputs.
pub fn run<T: Target>(link: &Numbered<'_, T>, united: Option<Table>) -> Chosen {
    let Some(mut table) = united else { return Chosen::default() };
    let plts = (link.config.sframe.plt && !link.config.is_relocatable()).then(|| plt::describe(link));
    let described = &link.described.batches;
    table.take(link, &link.sections, described.len() as u32, plts.as_slice());
    let batches: Vec<&Batch> = described.iter().chain(&plts).collect();
    report_left_out(link, &batches);
    report_overlays(link, &table);
    let compact = compact::is_wanted(link.config).then(|| compact::of_table(&table));
    let compact = compact.transpose().unwrap_or_else(|reason| {
        link.sink.report(Diagnostic::error(Code::LayoutError, format!("compact table: {reason}")));
        None
    });
    Chosen { plts, table: Some(table), compact }
}

/// Reports in one message all functions that the SFrame version cannot express. Functions whose rows cannot
/// be derived from `.eh_frame` appear only in reports, because every C library has some.
fn report_left_out<T: Target>(link: &Scanned<'_, T>, batches: &[&Batch]) {
    let written = batches.iter().filter(|batch| batch.role == Role::Written);
    let all: Vec<&LeftOut> = written
        .flat_map(|batch| batch.shares())
        .filter(|share| !matches!(share.origin, Origin::EhFrame(_)))
        .flat_map(|share| share.left_out)
        .filter(|left_out| link.sections.is_in_output(left_out.place.section))
        .collect();
    if all.is_empty() {
        return;
    }
    let named = all.iter().take(NAMED);
    let place = |left_out: &LeftOut| link.describe_place(left_out.place.section, left_out.place.offset);
    let notes = named.map(|left_out| format!("{}: {}", place(left_out), left_out.reason)).collect();
    link.sink.report(left_out_message(all.len(), notes, encoding::<T>(link.config).version));
}

/// The message for `count` functions, of which the `notes` name the first ones.
fn left_out_message(count: usize, notes: Vec<String>, version: sframe_format::Version) -> Diagnostic {
    let version = version as u8;
    let functions = match count {
        1 => "1 function is".to_owned(),
        _ => format!("{count} functions are"),
    };
    let mut diagnostic = Diagnostic::warning(
        Code::SFrameNote,
        format!("{functions} left out: SFrame V{version} cannot express them"),
    )
    .at(Location::Link);
    for note in notes {
        diagnostic = diagnostic.note(note);
    }
    if count > NAMED {
        diagnostic = diagnostic.note(format!("and {} more", count - NAMED));
    }
    if version == 2 {
        diagnostic = diagnostic.help("--sframe-version=3 can express more");
    }
    diagnostic
}

/// Refuses functions in overlays, with one error for each output section: sections of an overlay share
/// addresses, so a program counter does not identify a function.
fn report_overlays<T: Target>(link: &Scanned<'_, T>, table: &Table) {
    let plan = &link.plan;
    if plan.outputs.iter().all(|output| !output.overlay) {
        return;
    }
    let mut last = None;
    for function in &table.functions {
        let section = function.place.section;
        let Some(rule) = link.rules[section.index()] else { continue };
        let row = plan.rule(rule).output;
        let output = &plan.outputs[row.index()];
        if !output.overlay || last == Some(row) {
            continue;
        }
        last = Some(row);
        let name = String::from_utf8_lossy(&output.name);
        link.sink.report_recoverable(
            Diagnostic::error(
                Code::LayoutError,
                format!("functions of overlay section {name} cannot be in one sorted SFrame blob"),
            )
            .note(format!("the first one is at {}", describe(link, function.place)))
            .note("sections of an overlay have the same addresses")
            .help("--sframe=concat or --sframe=discard without --sframe-index")
            .ordered(link.rank_of_file(section), section.0, 0),
        );
    }
}
