//! Reads files with an order of sections: `--symbol-ordering-file`, `--section-ordering-file`,
//! `--call-graph-ordering-file`, `--irpgo-profile`.
//!
//! A section ordering file is in gold's or in GNU ld's form. The contents show which: GNU ld's form has
//! output sections with braces, which gold's patterns cannot have.

use crate::diag::{Code, Diagnostic, Location};
use crate::input::ordering::{Call, OrderFiles, Word};
use crate::input::side_files::OptionFiles;
use crate::input::temporal_profile::{self, TemporalProfile};
use crate::phase::Session;
use crate::script::ast::OutputSection;
use crate::script::{Sources, Span, parse_section_order};
use hashbrown::HashSet;
use std::path::Path;

/// Reads ordering files. Returns the orders in gold's and lld's forms, and the scripts of section ordering
/// files in GNU ld's form.
pub fn run(session: Session<'_>, files: &mut OptionFiles<'_>) -> (OrderFiles, Vec<OutputSection>) {
    let options = &session.config.scripts;
    let mut orders = OrderFiles::default();
    let mut scripts = Vec::new();
    for path in &options.section_orders {
        // GNU ld searches for it as for a script of -T.
        let directories = &session.config.search.directories;
        let Some((name, text)) = files.find(path, directories, "section ordering file") else { continue };
        if !text.contains(&b'{') {
            orders.sections.extend(lines(files, &name, &text));
            continue;
        }
        let parsed = parse_section_order(files.sources, &name, &text);
        scripts.extend(files.accept(parsed).unwrap_or_default());
    }
    if let Some(path) = &options.symbol_order {
        let lines = listed(files, path, "symbol ordering file");
        orders.symbols = without_repetition(session, files.sources, lines);
    }
    if let Some(path) = &options.call_graph {
        let lines = listed(files, path, "call graph file");
        orders.calls =
            Some(lines.into_iter().filter_map(|line| call(session, files.sources, line)).collect());
        if options.symbol_order.is_some() {
            let message = "--symbol-ordering-file and --call-graph-ordering-file ask for two orders";
            session.sink.report(Diagnostic::error(Code::BadOption, message).help("give one of them"));
        }
    }
    let balance = &session.config.layout.balance;
    if let Some(path) = balance.profile.as_deref().filter(|_| balance.startup) {
        orders.traces = traces(files, path);
    }
    (orders, scripts)
}

/// The traces of `--irpgo-profile`.
fn traces(files: &mut OptionFiles<'_>, path: &Path) -> TemporalProfile {
    let Some(bytes) = files.read(path, "profile") else { return TemporalProfile::default() };
    let finding = match temporal_profile::read(&bytes) {
        Ok(profile) if profile.traces.iter().any(|trace| !trace.is_empty()) => return profile,
        Ok(_) => Diagnostic::warning(Code::Ordering, "the profile has no traces of the program's start")
            .help("clang's -mllvm -pgo-temporal-instrumentation, beside -fprofile-generate, records them"),
        Err(malformed) => {
            let message =
                format!("the profile cannot be used: {} (at {:#x})", malformed.what, malformed.offset);
            Diagnostic::error(Code::Ordering, message)
        }
    };
    files.sink.report(finding.at(Location::File(path.to_string_lossy().into_owned())));
    TemporalProfile::default()
}

/// The lines of a file.
fn listed(files: &mut OptionFiles<'_>, path: &Path, kind: &str) -> Vec<Word> {
    match files.read(path, kind) {
        Some(text) => lines(files, &path.to_string_lossy(), &text),
        None => Vec::new(),
    }
}

/// The trimmed lines. Empty lines and comments (`#`) are left out.
fn lines(files: &mut OptionFiles<'_>, name: &str, text: &[u8]) -> Vec<Word> {
    let Some(file) = files.sources.add(name, text) else {
        let message = format!("{name} is larger than 4 GiB");
        files.sink.report(Diagnostic::error(Code::CannotOpen, message));
        return Vec::new();
    };
    let text = files.sources.text(file);
    let mut start = 0u32;
    let mut found = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let trimmed = line.trim_ascii();
        if !trimmed.is_empty() && trimmed[0] != b'#' {
            let indent = (line.len() - line.trim_ascii_start().len()) as u32;
            let span = Span { file, start: start + indent, length: trimmed.len() as u32 };
            found.push(Word { text: trimmed.to_vec(), span });
        }
        start = start.saturating_add(line.len() as u32 + 1);
    }
    found
}

fn without_repetition(session: Session<'_>, sources: &Sources, lines: Vec<Word>) -> Vec<Word> {
    let mut known: HashSet<Vec<u8>, foldhash::fast::FixedState> = HashSet::default();
    let mut symbols = Vec::with_capacity(lines.len());
    for word in lines {
        if known.insert(word.text.clone()) {
            symbols.push(word);
        } else if session.config.diagnostics.warn_symbol_ordering {
            let name = session.name_text(&word.text);
            warn(session, sources, word.span, format!("duplicate ordered symbol: {name}"));
        }
    }
    symbols
}

/// Warns that a line of an ordering file has no effect.
pub fn warn(session: Session<'_>, sources: &Sources, span: Span, message: String) {
    session.sink.report(Diagnostic::warning(Code::Ordering, message).at(sources.location(span)).ordered(
        span.file,
        0,
        span.start.into(),
    ));
}

/// Parses a line `caller function count`. Reports any other line.
fn call(session: Session<'_>, sources: &Sources, line: Word) -> Option<Call> {
    let mut words = Vec::new();
    let mut at = 0;
    for text in line.text.split(u8::is_ascii_whitespace) {
        if !text.is_empty() {
            let span = Span { start: line.span.start + at, length: text.len() as u32, ..line.span };
            words.push(Word { text: text.to_vec(), span });
        }
        at += text.len() as u32 + 1;
    }
    let weight = |word: &Word| std::str::from_utf8(&word.text).ok()?.parse().ok();
    if let [from, to, count] = &words[..]
        && let Some(weight) = weight(count)
    {
        return Some(Call { from: from.clone(), to: to.clone(), weight });
    }
    session.sink.report(
        Diagnostic::error(Code::Ordering, "expected a caller, a function that it calls, and a count")
            .at(sources.location(line.span))
            .ordered(line.span.file, 0, line.span.start.into()),
    );
    None
}
