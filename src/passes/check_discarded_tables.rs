//! Reports tables that code needs and that the script discards.
//!
//! A script may discard tables that only tools or the dynamic linker read. But code holds the addresses of
//! PLT entries, GOT slots and copies of libraries' variables. Without them, it would jump and read anywhere.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::phase::{Copies, DynamicRow, Numbered, SectionState};
use crate::tables::section::Kind;

/// Reports each such table, and names a symbol that needs it.
pub fn run<T: Target>(link: &Numbered<'_, T>) {
    for (kind, is_in) in TABLES {
        let Some(row) = link.synthetic.find(kind) else { continue };
        let id = link.synthetic_id(row);
        if !link.sections.is(id, SectionState::DISCARDED_BY_SCRIPT) {
            continue;
        }
        let Some(needing) = link.rows.iter().find(|row| is_in(row, &link.copies)) else { continue };
        let name = String::from_utf8_lossy(link.section_info(id).name).into_owned();
        let symbol = link.symbol_text(needing.symbol);
        let mut finding = Diagnostic::error(
            Code::DiscardedReference,
            format!("the script discards {name}, which code needs"),
        )
        .about(symbol.as_bytes())
        .note(format!("it would hold an entry for {symbol}"))
        .help(format!("give it a place: {name} : {{ *({name}) }}"));
        if let Some(rule) = link.rules[id.index()] {
            let span = link.plan.outputs[link.plan.rule(rule).output.index()].span;
            finding = finding.at(link.plan.sources.location(span));
        }
        link.sink.report_recoverable(finding);
    }
}

/// A kind of table, and a test whether a row has an entry in it.
type Table = (Kind, fn(&DynamicRow, &Copies) -> bool);

const TABLES: [Table; 7] = [
    (Kind::Plt, |row, _| row.plt.is_some()),
    (Kind::PltSec, |row, _| row.plt.is_some()),
    (Kind::PltGot, |row, _| row.plt_got.is_some()),
    (Kind::GotPlt, |row, _| row.plt.is_some()),
    (Kind::Got, |row, _| {
        let plain = [row.got, row.got_tp, row.tls_gd, row.tls_desc, row.resolved];
        let signed = [row.signed_got, row.signed_tls_desc];
        plain.iter().chain(&signed).any(Option::is_some)
    }),
    (Kind::CopyData, |row, copies| copies.of(row).is_some_and(|copy| !copy.relro)),
    (Kind::CopyRelro, |row, copies| copies.of(row).is_some_and(|copy| copy.relro)),
];
