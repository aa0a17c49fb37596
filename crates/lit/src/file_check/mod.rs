//! `FileCheck`: compares a text with the directives of a check file, as LLVM's program does.
//!
//! No pattern reaches over the end of a line, so the search goes line by line, and a place is a line and a
//! byte in it. `CHECK-LABEL` lines are found first. They divide the input into blocks, and the directives
//! between two labels examine only their block.

mod directive;
mod numeric;
mod pattern;

use anyhow::{Context, Result, bail};
use clap::Parser;
use directive::{Directive, Kind};
use pattern::{Pattern, Style, Variables};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "FileCheck")]
struct Arguments {
    /// File that holds the directives
    check_file: PathBuf,
    /// File to check
    #[arg(long, default_value = "-")]
    input_file: PathBuf,
    #[arg(long, alias = "check-prefix", value_delimiter = ',')]
    check_prefixes: Vec<String>,
    #[arg(long, value_delimiter = ',', default_value = "COM,RUN")]
    comment_prefixes: Vec<String>,
    #[arg(long)]
    allow_empty: bool,
    #[arg(long)]
    allow_unused_prefixes: bool,
    #[arg(long)]
    strict_whitespace: bool,
    #[arg(long)]
    match_full_lines: bool,
    #[arg(long)]
    ignore_case: bool,
    #[arg(long)]
    enable_var_scope: bool,
    #[arg(long)]
    implicit_check_not: Vec<String>,
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// Accepted: failures always show the input
    #[arg(long)]
    dump_input: Option<String>,
    #[arg(long)]
    dump_input_context: Option<usize>,
    #[arg(short, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// The command. Exit status 1: the input is not as it should be. Exit status 2: nothing could be checked.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    // One or two dashes are accepted, as everywhere in LLVM.
    let one_dash = |word: &OsString| {
        let text = word.to_str()?.strip_prefix('-')?;
        (text.len() > 2 && !text.starts_with(['-', 'D', 'v'])).then(|| OsString::from(format!("--{text}")))
    };
    let words = arguments.iter().map(|word| one_dash(word).unwrap_or_else(|| word.clone()));
    let arguments = Arguments::parse_from(std::iter::once("FileCheck".into()).chain(words));
    match check_files(&arguments) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(failure)) => {
            eprint!("{failure}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("FileCheck: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Checks the files. Returns the text of the failure, if there is one.
fn check_files(arguments: &Arguments) -> Result<Option<String>> {
    let read = |path: &Path| {
        let text = text_of(path).with_context(|| path.display().to_string())?;
        anyhow::Ok(if arguments.strict_whitespace { text } else { one_space_for_many(&text) })
    };
    let (checks, input) = (read(&arguments.check_file)?, read(&arguments.input_file)?);
    if input.trim().is_empty() && !arguments.allow_empty {
        return Ok(Some("FileCheck: the input is empty (--allow-empty lets that pass)\n".into()));
    }
    let style = Style {
        strict_whitespace: arguments.strict_whitespace,
        match_full_lines: arguments.match_full_lines,
        ignore_case: arguments.ignore_case,
    };
    let default = ["CHECK".to_owned()];
    let prefixes = if arguments.check_prefixes.is_empty() { &default[..] } else { &arguments.check_prefixes };
    let name = arguments.check_file.display().to_string();
    let directives = directive::read(&checks, prefixes, &arguments.comment_prefixes, style)
        .with_context(|| format!("in {name}"))?;
    for prefix in prefixes {
        if !arguments.allow_unused_prefixes && !directives.iter().any(|d| d.prefix == *prefix) {
            bail!("{name} has no directive with the prefix {prefix}");
        }
    }
    let implicit = arguments.implicit_check_not.iter().map(|text| {
        let pattern = Pattern::read(text.trim(), 0, Style { match_full_lines: false, ..style })?;
        Ok(Directive {
            kind: Kind::Not,
            prefix: "--implicit-check-not".into(),
            line: 0,
            text: text.clone(),
            pattern,
        })
    });
    let implicit = implicit.collect::<Result<Vec<_>>>()?;
    let mut variables = Variables::default();
    for definition in &arguments.define {
        variables.define(definition)?;
    }
    let lines: Vec<&str> = input.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let checker =
        Checker { lines: &lines, variables, implicit: &implicit, scoped: arguments.enable_var_scope };
    let failure = checker.check(&directives)?;
    Ok(failure.map(|failure| failure.shown(&name, &lines)))
}

/// The text of a file, or of standard input for `-`. Bytes that are not text are replaced.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)?
    } else {
        std::fs::File::open(path)?.read_to_end(&mut bytes)?
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// In patterns and in the input, any run of spaces and tabs counts as one space.
fn one_space_for_many(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' ' | '\t' if result.ends_with(' ') => (),
            ' ' | '\t' => result.push(' '),
            _ => result.push(c),
        }
    }
    result
}

/// A place in the input: index of a line and byte in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    line: usize,
    byte: usize,
}

/// Where a pattern matched. It is always in one line.
#[derive(Clone, Copy, Debug)]
struct Match {
    start: Place,
    end: Place,
}

/// Why the input is not as it should be.
struct Failure {
    directive: Directive,
    reason: String,
    /// The start of the directive's search, or the place of its match.
    place: Place,
    variables: String,
}

impl Failure {
    fn shown(&self, check_file: &str, lines: &[&str]) -> String {
        let Directive { kind, prefix, line, text, .. } = &self.directive;
        let mut shown =
            format!("{check_file}:{line}: {prefix}{}: {}\n    {text}\n", kind.suffix(), self.reason);
        shown.push_str(&self.variables);
        let (first, last) = (self.place.line.saturating_sub(4), (self.place.line + 16).min(lines.len()));
        for (index, content) in lines.iter().enumerate().take(last).skip(first) {
            let mark = if index == self.place.line { '>' } else { ' ' };
            let _ = writeln!(shown, "{mark}{:5}: {content}", index + 1);
            if index == self.place.line {
                let blanks = content.get(..self.place.byte).map_or(0, |before| before.chars().count());
                let _ = writeln!(shown, "{:>width$}", '^', width = blanks + 9);
            }
        }
        if last < lines.len() {
            let _ = writeln!(shown, "       ({} more lines)", lines.len() - last);
        }
        shown
    }
}

struct Checker<'a> {
    lines: &'a [&'a str],
    variables: Variables,
    implicit: &'a [Directive],
    /// Whether `CHECK-LABEL` forgets variables, except those whose names begin with `$`.
    scoped: bool,
}

type Checked<T> = std::result::Result<T, Box<Failure>>;

impl Checker<'_> {
    fn check(mut self, directives: &[Directive]) -> Result<Option<Failure>> {
        match self.blocks(directives) {
            Ok(()) => Ok(None),
            Err(failure) => Ok(Some(*failure)),
        }
    }

    fn end(&self) -> Place {
        Place { line: self.lines.len(), byte: 0 }
    }

    fn blocks(&mut self, directives: &[Directive]) -> Checked<()> {
        // Labels come first: a directive between two labels cannot match after the second one.
        let (mut labels, mut from) = (Vec::new(), Place { line: 0, byte: 0 });
        for (index, label) in directives.iter().enumerate().filter(|(_, d)| d.kind == Kind::Label) {
            let found = self.search(label, from, self.end())?;
            let found = found.ok_or_else(|| self.failure(label, "no such line", from))?;
            labels.push((index, found));
            from = found.end;
        }
        let (mut next, mut from) = (0, Place { line: 0, byte: 0 });
        for (index, found) in labels {
            self.block(&directives[next..index], from, found.start)?;
            if self.scoped {
                self.variables.forget_locals();
            }
            (next, from) = (index + 1, found.end);
        }
        self.block(&directives[next..], from, self.end())
    }

    /// Checks the directives of a block between two places.
    fn block(&mut self, directives: &[Directive], from: Place, to: Place) -> Checked<()> {
        let (mut at, mut index) = (from, 0);
        let implicit = self.implicit;
        let mut absent: Vec<&Directive> = implicit.iter().collect();
        while let Some(directive) = directives.get(index) {
            match directive.kind {
                Kind::Not => {
                    absent.push(directive);
                    index += 1;
                }
                Kind::Dag => {
                    let count = directives[index..].iter().take_while(|d| d.kind == Kind::Dag).count();
                    let (start, end) = self.in_any_order(&directives[index..index + count], at, to)?;
                    self.all_absent(&absent, at, start)?;
                    absent.clear();
                    at = end;
                    index += count;
                }
                _ => {
                    let found = self.positive(directive, at, to)?;
                    self.all_absent(&absent, at, found.0)?;
                    absent = implicit.iter().collect();
                    at = found.1;
                    index += 1;
                }
            }
        }
        self.all_absent(&absent, at, to)
    }

    /// Finds the text that must be there. Returns the start of the first match and the end of the last one.
    fn positive(&mut self, directive: &Directive, from: Place, to: Place) -> Checked<(Place, Place)> {
        let times = if let Kind::Count(times) = directive.kind { times } else { 1 };
        let (mut first, mut at) = (None, from);
        for number in 1..=times {
            let found = self.search(directive, at, to)?.ok_or_else(|| {
                let reason = match times {
                    1 => "not found from here".to_owned(),
                    _ => format!("not found from here for the {number}. of {times} times"),
                };
                self.failure(directive, &reason, at)
            })?;
            first = first.or(Some(found.start));
            at = found.end;
        }
        let start = first.unwrap_or(from);
        let distance = start.line - from.line;
        let wrong = match directive.kind {
            Kind::Next | Kind::Empty if distance == 0 => Some("found in the line of the match before"),
            Kind::Next | Kind::Empty if distance > 1 => Some("found, but not in the next line"),
            Kind::Same if distance > 0 => Some("found, but not in the same line"),
            _ => None,
        };
        match wrong {
            Some(reason) => Err(self.failure(directive, reason, start)),
            None => Ok((start, at)),
        }
    }

    /// Finds each of several patterns in any order. No two matches may overlap.
    fn in_any_order(&mut self, directives: &[Directive], from: Place, to: Place) -> Checked<(Place, Place)> {
        let mut taken: Vec<Match> = Vec::new();
        for directive in directives {
            let mut at = from;
            let found = loop {
                let found = self.search(directive, at, to)?;
                let found = found.ok_or_else(|| self.failure(directive, "not found from here", from))?;
                let overlaps = |other: &&Match| found.start < other.end && other.start < found.end;
                match taken.iter().find(overlaps) {
                    Some(other) => at = other.end,
                    None => break found,
                }
            };
            taken.push(found);
        }
        let start = taken.iter().map(|found| found.start).min().unwrap_or(from);
        let end = taken.iter().map(|found| found.end).max().unwrap_or(from);
        Ok((start, end))
    }

    fn all_absent(&mut self, absent: &[&Directive], from: Place, to: Place) -> Checked<()> {
        for directive in absent {
            if let Some(found) = self.search(directive, from, to)? {
                return Err(self.failure(directive, "found, though it should not be there", found.start));
            }
        }
        Ok(())
    }

    /// The first match between two places. This sets the variables that the pattern defines.
    fn search(&mut self, directive: &Directive, from: Place, to: Place) -> Checked<Option<Match>> {
        let matcher = directive.pattern.matcher(&self.variables);
        let matcher = matcher.map_err(|error| self.failure(directive, &format!("{error:#}"), from))?;
        // An empty line is a line of its own, never the rest of the line of the last match.
        let first = from.line + usize::from(directive.kind == Kind::Empty);
        for line in first..self.lines.len().min(to.line + 1) {
            let content = if line == to.line { &self.lines[line][..to.byte] } else { self.lines[line] };
            let begin = if line == from.line { from.byte } else { 0 };
            if begin > content.len() || line == to.line && to.byte == 0 {
                continue;
            }
            let found = matcher.find(content, begin, &mut self.variables);
            let found = found.map_err(|error| self.failure(directive, &format!("{error:#}"), from))?;
            if let Some((start, end)) = found {
                let place = |byte| Place { line, byte };
                return Ok(Some(Match { start: place(start), end: place(end) }));
            }
        }
        Ok(None)
    }

    fn failure(&self, directive: &Directive, reason: &str, place: Place) -> Box<Failure> {
        let variables = self.variables.shown(&directive.pattern);
        Box::new(Failure { directive: directive.clone(), reason: reason.to_owned(), place, variables })
    }
}

#[cfg(test)]
mod tests;
