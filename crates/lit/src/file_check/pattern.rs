//! One pattern: text, `{{regular expressions}}` and variables.

use super::numeric::{Format, Number, Numeric};
use anyhow::{Context, Result, bail};
use fancy_regex::Regex;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Options for reading patterns.
#[derive(Clone, Copy, Default)]
pub struct Style {
    pub strict_whitespace: bool,
    pub match_full_lines: bool,
    pub ignore_case: bool,
}

/// A part of a pattern.
#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Regex(String),
    /// `[[NAME:regex]]`
    Define(String, String),
    /// `[[NAME]]`
    Use(String),
    Numeric(Numeric),
}

#[derive(Clone, Debug)]
pub struct Pattern {
    pieces: Vec<Piece>,
    style: (bool, bool, bool),
}

/// Values of variables so far.
#[derive(Default)]
pub struct Variables {
    texts: BTreeMap<String, String>,
    numbers: BTreeMap<String, Number>,
}

impl Variables {
    /// Reads `NAME=TEXT` or `#NAME=NUMBER` from the command line.
    pub fn define(&mut self, definition: &str) -> Result<()> {
        let (name, value) = definition.split_once('=').with_context(|| format!("-D{definition}: no `=`"))?;
        match name.strip_prefix('#') {
            Some(name) => {
                let (format, _) = Numeric::read(name, 0)?.regex(&self.numbers).unwrap_or_default();
                let name = name.rsplit(',').next().unwrap_or(name).trim();
                let (_, value) = Numeric::read(value, 0)?.regex(&self.numbers)?;
                self.numbers.insert(name.to_owned(), Number { format, ..Format::default().parse(&value)? });
            }
            None => {
                self.texts.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(())
    }

    /// Forgets all variables, except those whose names begin with `$`.
    pub fn forget_locals(&mut self) {
        self.texts.retain(|name, _| name.starts_with('$'));
        self.numbers.retain(|name, _| name.starts_with('$'));
    }

    /// Lines with the values that a pattern uses.
    pub fn shown(&self, pattern: &Pattern) -> String {
        let mut shown = String::new();
        for piece in &pattern.pieces {
            match piece {
                Piece::Use(name) => {
                    let value = self.texts.get(name).map_or("undefined", String::as_str);
                    let _ = writeln!(shown, "    with {name} = {value}");
                }
                Piece::Numeric(numeric) => {
                    for name in numeric.uses() {
                        if let Some(number) = self.numbers.get(name) {
                            let _ = writeln!(shown, "    with {name} = {:#x}", number.value);
                        }
                    }
                }
                _ => (),
            }
        }
        shown
    }
}

impl Pattern {
    /// The pattern of `CHECK-EMPTY`.
    pub fn empty_line() -> Self {
        Pattern { pieces: vec![Piece::Regex("^$".into())], style: (false, false, false) }
    }

    /// Reads a pattern. `line` is its line in the file.
    pub fn read(text: &str, line: usize, style: Style) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("{{") {
                let (regex, after) = after.split_once("}}").context("{{ without }}")?;
                pieces.push(Piece::Regex(regex.to_owned()));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("[[#") {
                let (inner, after) = after.split_once("]]").context("[[# without ]]")?;
                pieces.push(Piece::Numeric(Numeric::read(inner, line)?));
                rest = after;
            } else if let Some((piece, after)) = variable(rest)? {
                pieces.push(piece);
                rest = after;
            } else {
                let skip = rest.chars().next().map_or(0, char::len_utf8);
                let next = ["{{", "[["].iter().filter_map(|sign| rest[skip..].find(sign)).min();
                let (plain, after) = rest.split_at(next.map_or(rest.len(), |at| at + skip));
                match pieces.last_mut() {
                    Some(Piece::Text(text)) => text.push_str(plain),
                    _ => pieces.push(Piece::Text(plain.to_owned())),
                }
                rest = after;
            }
        }
        Ok(Pattern { pieces, style: (style.strict_whitespace, style.match_full_lines, style.ignore_case) })
    }

    /// The pattern with the values of its variables.
    pub fn matcher(&self, variables: &Variables) -> Result<Matcher> {
        let (strict, full, ignore_case) = self.style;
        let blanks = if strict { "" } else { " *" };
        let mut text = String::from(if ignore_case { "(?i)" } else { "" });
        if full {
            write!(text, "^{blanks}")?;
        }
        let (mut names, mut numbers): (Vec<String>, Vec<(String, Format, String)>) = Default::default();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(&fancy_regex::escape(plain)),
                Piece::Regex(regex) => write!(text, "(?:{regex})")?,
                Piece::Define(name, regex) => {
                    write!(text, "(?P<s{}>{regex})", names.len())?;
                    names.push(name.clone());
                }
                Piece::Use(name) => match names.iter().rposition(|own| own == name) {
                    Some(index) => write!(text, "\\k<s{index}>")?,
                    None => {
                        let value = variables.texts.get(name);
                        let value = value.with_context(|| format!("undefined variable {name}"))?;
                        text.push_str(&fancy_regex::escape(value));
                    }
                },
                Piece::Numeric(numeric) => {
                    let (format, regex) = numeric.regex(&variables.numbers)?;
                    let group = format!("n{}", numbers.len());
                    write!(text, "(?P<{group}>{regex})")?;
                    numbers.push((numeric.defines.clone().unwrap_or_default(), format, group));
                }
            }
        }
        if full {
            write!(text, "{blanks}$")?;
        }
        let regex = Regex::new(&text).with_context(|| format!("bad regular expression {text}"))?;
        Ok(Matcher { regex, names, numbers })
    }
}

/// `[[NAME]]` or `[[NAME:regex]]` at the start of a text. Other brackets are plain text.
fn variable(text: &str) -> Result<Option<(Piece, &str)>> {
    let Some(after) = text.strip_prefix("[[") else { return Ok(None) };
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let sign = usize::from(after.starts_with('$'));
    let end = sign + after[sign..].find(|c| !letter(c)).unwrap_or(after.len() - sign);
    let (name, rest) = after.split_at(end);
    if end == sign || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    if let Some(rest) = rest.strip_prefix("]]") {
        return Ok(Some((Piece::Use(name.to_owned()), rest)));
    }
    let Some(rest) = rest.strip_prefix(':') else { return Ok(None) };
    // Brackets of the expression's character classes come in pairs.
    let (mut depth, mut escaped) = (0usize, false);
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => depth += 1,
            ']' if depth > 0 => depth -= 1,
            ']' if rest[at..].starts_with("]]") => {
                let piece = Piece::Define(name.to_owned(), rest[..at].to_owned());
                return Ok(Some((piece, &rest[at + 2..])));
            }
            _ => (),
        }
    }
    bail!("[[{name}: without ]]")
}

/// A pattern that a search can use.
pub struct Matcher {
    regex: Regex,
    names: Vec<String>,
    numbers: Vec<(String, Format, String)>,
}

impl Matcher {
    /// The first match in a line, starting at this byte. Sets the variables that the pattern defines.
    pub fn find(&self, line: &str, from: usize, variables: &mut Variables) -> Result<Option<(usize, usize)>> {
        let Some(captures) = self.regex.captures_from_pos(line, from)? else { return Ok(None) };
        for (index, name) in self.names.iter().enumerate() {
            let value = captures.name(&format!("s{index}")).map_or("", |found| found.as_str());
            variables.texts.insert(name.clone(), value.to_owned());
        }
        for (name, format, group) in self.numbers.iter().filter(|(name, ..)| !name.is_empty()) {
            let value = captures.name(group).map_or("", |found| found.as_str());
            variables.numbers.insert(name.clone(), format.parse(value)?);
        }
        Ok(captures.get(0).map(|found| (found.start(), found.end())))
    }
}
