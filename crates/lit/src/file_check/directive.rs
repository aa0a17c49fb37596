//! The directives of a check file: their kinds, and how to recognise them.

use super::pattern::{Pattern, Style};
use anyhow::{Context, Result, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Next,
    Same,
    Not,
    Dag,
    Label,
    Empty,
    Count(usize),
}

impl Kind {
    /// The text between the prefix and the colon.
    pub fn suffix(self) -> String {
        match self {
            Kind::Plain => String::new(),
            Kind::Next => "-NEXT".into(),
            Kind::Same => "-SAME".into(),
            Kind::Not => "-NOT".into(),
            Kind::Dag => "-DAG".into(),
            Kind::Label => "-LABEL".into(),
            Kind::Empty => "-EMPTY".into(),
            Kind::Count(times) => format!("-COUNT-{times}"),
        }
    }
}

/// One directive.
#[derive(Clone, Debug)]
pub struct Directive {
    pub kind: Kind,
    pub prefix: String,
    /// Number of its line, or 0 if it is from the command line.
    pub line: usize,
    /// The text after the colon.
    pub text: String,
    pub pattern: Pattern,
}

/// Reads the directives of a text. Errors name the line.
pub fn read(text: &str, prefixes: &[String], comments: &[String], style: Style) -> Result<Vec<Directive>> {
    let mut directives: Vec<Directive> = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line)) {
        let Some((at, prefix, kind, rest)) =
            prefixes.iter().filter_map(|p| find(line, p)).min_by_key(|f| f.0)
        else {
            continue;
        };
        if comments.iter().any(|word| word_at(line, word).is_some_and(|comment| comment < at)) {
            continue;
        }
        let directive = one(number, prefix, kind, rest, style).with_context(|| format!("line {number}"))?;
        if directives.is_empty() && matches!(kind, Kind::Next | Kind::Same | Kind::Empty) {
            bail!("line {number}: {prefix}{} has no directive before it", kind.suffix());
        }
        directives.push(directive);
    }
    Ok(directives)
}

fn one(line: usize, prefix: &str, kind: Kind, rest: &str, style: Style) -> Result<Directive> {
    let text =
        if style.strict_whitespace && style.match_full_lines { rest } else { rest.trim_matches([' ', '\t']) };
    let pattern = match kind {
        Kind::Empty if !text.is_empty() => bail!("{prefix}-EMPTY takes no text"),
        Kind::Empty => Pattern::empty_line(),
        _ if text.is_empty() => bail!("{prefix}{} without a text", kind.suffix()),
        Kind::Not => Pattern::read(text, line, Style { match_full_lines: false, ..style })?,
        _ => Pattern::read(text, line, style)?,
    };
    Ok(Directive { kind, prefix: prefix.to_owned(), line, text: text.to_owned(), pattern })
}

/// Where `WORD:` is, unless it is the end of a longer word.
fn word_at(line: &str, word: &str) -> Option<usize> {
    let at = line.find(&format!("{word}:"))?;
    starts_word(line, at).then_some(at)
}

fn starts_word(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// The first directive with this prefix in a line: place, prefix, kind, and the text after it.
fn find<'a>(line: &'a str, prefix: &'a str) -> Option<(usize, &'a str, Kind, &'a str)> {
    line.match_indices(prefix).find_map(|(at, _)| {
        let (kind, rest) = kind_of(&line[at + prefix.len()..])?;
        starts_word(line, at).then_some((at, prefix, kind, rest))
    })
}

fn kind_of(text: &str) -> Option<(Kind, &str)> {
    let fixed = [
        (":", Kind::Plain),
        ("-NEXT:", Kind::Next),
        ("-SAME:", Kind::Same),
        ("-NOT:", Kind::Not),
        ("-DAG:", Kind::Dag),
        ("-LABEL:", Kind::Label),
        ("-EMPTY:", Kind::Empty),
    ];
    let fixed = fixed.iter().find_map(|(suffix, kind)| Some((*kind, text.strip_prefix(suffix)?)));
    fixed.or_else(|| {
        let (times, rest) = text.strip_prefix("-COUNT-")?.split_once(':')?;
        Some((Kind::Count(times.parse().ok().filter(|times| *times > 0)?), rest))
    })
}
