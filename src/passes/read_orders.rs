//! Reads files that say in which order sections are to stand: `--symbol-ordering-file`, `--section-ordering-file`,
//! `--call-graph-ordering-file`.
//!
//! A section ordering file is gold's or GNU ld's by what it holds: GNU ld's has output sections with braces, which the
//! patterns of gold's cannot have.

use crate::diag::{Code, Diagnostic};
use crate::input::InputSource;
use crate::input::ordering::{Call, OrderFiles, Word};
use crate::phase::Session;
use crate::script::ast::OutputSection;
use crate::script::{Sources, Span, parse_section_order};
use hashbrown::HashSet;
use std::path::{Path, PathBuf};

/// Reads them: gives the orders, and what section ordering files in GNU ld's form say. The files are
/// added to `paths`.
pub fn run(
    session: Session<'_>,
    sources: &mut Sources,
    source: &dyn InputSource,
    paths: &mut Vec<PathBuf>,
) -> (OrderFiles, Vec<OutputSection>) {
    let options = &session.config.scripts;
    let mut orders = OrderFiles::default();
    let mut scripts = Vec::new();
    for path in &options.section_orders {
        let Some(text) = read(session, path, "section ordering file", source) else { continue };
        let name = path.to_string_lossy();
        if !text.contains(&b'{') {
            let lines = lines(session, sources, &name, text);
            orders.sections.extend(lines);
            continue;
        }
        match parse_section_order(sources, &name, &text) {
            Ok(sections) => scripts.extend(sections),
            Err(found) => found.into_iter().for_each(|diagnostic| session.sink.report(diagnostic)),
        }
    }
    if let Some(path) = &options.symbol_order
        && let Some(text) = read(session, path, "symbol ordering file", source)
    {
        let lines = lines(session, sources, &path.to_string_lossy(), text);
        orders.symbols = without_repetition(session, sources, lines);
    }
    if let Some(path) = &options.call_graph {
        let text = read(session, path, "call graph file", source).unwrap_or_default();
        let lines = lines(session, sources, &path.to_string_lossy(), text);
        orders.calls = Some(lines.into_iter().filter_map(|line| call(session, sources, line)).collect());
        if options.symbol_order.is_some() {
            let message = "--symbol-ordering-file and --call-graph-ordering-file ask for two orders";
            session.sink.report(Diagnostic::error(Code::BadOption, message).help("give one of them"));
        }
    }
    let files = options.section_orders.iter().chain(&options.symbol_order).chain(&options.call_graph);
    paths.extend(files.cloned());
    (orders, scripts)
}

fn read(session: Session<'_>, path: &Path, what: &str, source: &dyn InputSource) -> Option<Vec<u8>> {
    match source.read(path) {
        Ok(text) => Some(text.to_vec()),
        Err(error) => {
            let reason = match error.kind() {
                std::io::ErrorKind::NotFound => "No such file or directory".to_string(),
                _ => error.to_string(),
            };
            let message = format!("cannot open {what} {}: {reason}", path.display());
            session.sink.report(Diagnostic::error(Code::CannotOpen, message));
            None
        }
    }
}

/// The lines that say something, each without the space around it. Empty lines and those that
/// begin with `#` say nothing.
fn lines(session: Session<'_>, sources: &mut Sources, name: &str, text: Vec<u8>) -> Vec<Word> {
    let Some(file) = sources.add(name, text) else {
        let message = format!("{name} is larger than 4 GiB");
        session.sink.report(Diagnostic::error(Code::CannotOpen, message));
        return Vec::new();
    };
    let text = sources.text(file);
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

/// Reports a line that orders nothing.
pub fn warn(session: Session<'_>, sources: &Sources, span: Span, message: String) {
    session.sink.report(Diagnostic::warning(Code::Ordering, message).at(sources.location(span)).ordered(
        span.file,
        0,
        span.start.into(),
    ));
}

/// `caller function count`.
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
