//! Parses version scripts and lists of symbols into trees.
//!
//! The language has words, quoted words and the marks `{ } : ;`, which mean the same everywhere. The parser
//! stops at the first error, because behind a wrong node it cannot know what the rest means.

use super::{Language, SymbolPattern, VersionNode, VersionScript, version_error};
use crate::ast::Name;
use crate::source::{Sources, Span};
use diagnostics::Diagnostic;

type Result<T> = std::result::Result<T, Vec<Diagnostic>>;

/// Reads a version script. [`VersionScript::check`] finds errors between several scripts.
///
/// # Errors
/// The first error of the text.
pub fn parse_version_script(sources: &mut Sources, name: &str, text: &[u8]) -> Result<VersionScript> {
    let span = add(sources, name, text)?;
    parse_version_command(sources, span)
}

/// Reads the version script between the braces of a linker script's `VERSION { … }`.
///
/// # Errors
/// The first error of the text.
pub fn parse_version_command(sources: &Sources, span: Span) -> Result<VersionScript> {
    let mut parser = Parser::new(sources, span);
    let mut nodes = Vec::new();
    while parser.peek()?.kind != Kind::End {
        nodes.push(parser.node()?);
    }
    Ok(VersionScript { nodes })
}

/// Reads the list of `--dynamic-list` or `--export-dynamic-symbol-list`: `{ pattern; … };`.
///
/// # Errors
/// The first error of the text.
pub fn parse_dynamic_list(sources: &mut Sources, name: &str, text: &[u8]) -> Result<Vec<SymbolPattern>> {
    let span = add(sources, name, text)?;
    let mut parser = Parser::new(sources, span);
    let mut patterns = Vec::new();
    while parser.peek()?.kind != Kind::End {
        parser.expect(Kind::Open)?;
        parser.patterns(&mut patterns, Language::C)?;
        parser.expect(Kind::Close)?;
        parser.expect(Kind::Semicolon)?;
    }
    Ok(patterns)
}

/// Reads the file of `--retain-symbols-file`: names with blanks between them. Wildcards have no meaning
/// there.
///
/// # Errors
/// The text has more than 4 GiB.
pub fn parse_symbol_names(sources: &mut Sources, name: &str, text: &[u8]) -> Result<Vec<SymbolPattern>> {
    let whole = add(sources, name, text)?;
    let text = &*sources.text(whole.file);
    let mut patterns = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte == b'#' {
            at += memchr::memchr(b'\n', &text[at..]).unwrap_or(text.len() - at);
            continue;
        }
        let length = text[at..].iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
        if length > 0 {
            let span = Span { start: at as u32, length: length as u32, ..whole };
            let name = Name { bytes: text[at..at + length].into(), span };
            patterns.push(SymbolPattern { name, language: Language::C, quoted: true });
        }
        at += length.max(1);
    }
    Ok(patterns)
}

/// The span of a whole new text.
fn add(sources: &mut Sources, name: &str, text: &[u8]) -> Result<Span> {
    match sources.add(name, text) {
        // `add` refuses a text whose length does not fit.
        Some(file) => Ok(Span { file, start: 0, length: sources.text(file).len() as u32 }),
        None => {
            let message = format!("`{name}` is larger than 4 GiB");
            Err(vec![Diagnostic::error(diagnostics::Code::VersionScript, message)])
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Word,
    Quoted,
    Open,
    Close,
    Colon,
    Semicolon,
    End,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Word => "a name",
            Kind::Quoted => "a name in quotes",
            Kind::Open => "`{`",
            Kind::Close => "`}`",
            Kind::Colon => "`:`",
            Kind::Semicolon => "`;`",
            Kind::End => "the end",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: Kind,
    /// Its bytes, without quotes.
    bytes: &'a [u8],
    span: Span,
}

struct Parser<'a> {
    sources: &'a Sources,
    text: &'a [u8],
    whole: Span,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(sources: &'a Sources, whole: Span) -> Self {
        Parser { sources, text: sources.slice(whole), whole, at: 0 }
    }

    fn node(&mut self) -> Result<VersionNode> {
        let first = self.next()?;
        let name = match first.kind {
            Kind::Open => None,
            Kind::Word | Kind::Quoted => {
                self.expect(Kind::Open)?;
                Some(name_of(first))
            }
            _ => return Err(self.unexpected(first, "a version or `{`")),
        };
        let mut node = VersionNode {
            span: first.span,
            name,
            global: Vec::new(),
            local: Vec::new(),
            depends: Vec::new(),
        };
        self.patterns(&mut node.global, Language::C)?;
        loop {
            let token = self.next()?;
            let patterns = match (token.kind, token.bytes) {
                (Kind::Close, _) => {
                    node.span = node.span.to(token.span);
                    break;
                }
                (Kind::Word, b"global") => &mut node.global,
                (Kind::Word, b"local") => &mut node.local,
                _ => return Err(self.unexpected(token, "a pattern or `}`")),
            };
            self.expect(Kind::Colon)?;
            self.patterns(patterns, Language::C)?;
        }
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::Semicolon => return Ok(node),
                Kind::Word | Kind::Quoted => node.depends.push(name_of(token)),
                _ => return Err(self.unexpected(token, "`;` or a version")),
            }
        }
    }

    /// Reads `pattern; extern "language" { … }; …` up to a closing brace, `global:` or `local:`, which it
    /// leaves unread.
    fn patterns(&mut self, patterns: &mut Vec<SymbolPattern>, language: Language) -> Result<()> {
        loop {
            let start = self.at;
            let token = self.next()?;
            let follows = self.peek()?.kind;
            match token.kind {
                Kind::Semicolon => continue,
                Kind::Word if token.bytes == b"extern" && follows == Kind::Quoted => {
                    let language = self.language()?;
                    self.expect(Kind::Open)?;
                    self.plain_patterns(patterns, language)?;
                }
                Kind::Word if follows == Kind::Colon => {
                    self.at = start;
                    return Ok(());
                }
                Kind::Word | Kind::Quoted => {
                    patterns.push(pattern_of(token, language));
                    self.end_of_pattern()?;
                }
                _ => {
                    self.at = start;
                    return Ok(());
                }
            }
        }
    }

    /// Reads patterns up to the closing brace of an `extern` block, and that brace.
    fn plain_patterns(&mut self, patterns: &mut Vec<SymbolPattern>, language: Language) -> Result<()> {
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::Close => return Ok(()),
                Kind::Semicolon => {}
                Kind::Word | Kind::Quoted => {
                    patterns.push(pattern_of(token, language));
                    if self.peek()?.kind != Kind::Close {
                        self.end_of_pattern()?;
                    }
                }
                _ => return Err(self.unexpected(token, "a pattern or `}`")),
            }
        }
    }

    fn end_of_pattern(&mut self) -> Result<()> {
        self.expect(Kind::Semicolon)
    }

    fn language(&mut self) -> Result<Language> {
        let token = self.next()?;
        match token.bytes {
            b"C" => Ok(Language::C),
            b"C++" => Ok(Language::Cxx),
            other => {
                let message = format!("unknown language `{}`", String::from_utf8_lossy(other));
                let wrong = version_error(self.sources, token.span, message);
                Err(vec![wrong.help("the languages are \"C\" and \"C++\"")])
            }
        }
    }

    fn expect(&mut self, kind: Kind) -> Result<()> {
        let token = self.next()?;
        if token.kind == kind { Ok(()) } else { Err(self.unexpected(token, kind.as_str())) }
    }

    fn unexpected(&self, token: Token<'_>, wanted: &str) -> Vec<Diagnostic> {
        let found = match token.kind {
            Kind::End => "the end".to_owned(),
            _ => format!("`{}`", String::from_utf8_lossy(self.sources.slice(token.span))),
        };
        vec![version_error(self.sources, token.span, format!("expected {wanted}, found {found}"))]
    }

    fn peek(&mut self) -> Result<Token<'a>> {
        let at = self.at;
        let token = self.next();
        self.at = at;
        token
    }

    fn next(&mut self) -> Result<Token<'a>> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = &self.text[start..];
        let (kind, length) = match rest.first() {
            None => (Kind::End, 0),
            Some(b'{') => (Kind::Open, 1),
            Some(b'}') => (Kind::Close, 1),
            Some(b';') => (Kind::Semicolon, 1),
            Some(b'"') => match memchr::memchr(b'"', &rest[1..]) {
                Some(inner) => (Kind::Quoted, inner + 2),
                None => return Err(self.not_closed(start, 1, "quote")),
            },
            Some(b':') if rest.get(1) != Some(&b':') => (Kind::Colon, 1),
            Some(_) => (Kind::Word, word_length(rest)),
        };
        self.at = start + length;
        let bytes = if kind == Kind::Quoted { &rest[1..length - 1] } else { &rest[..length] };
        Ok(Token { kind, bytes, span: self.span(start, length) })
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            match &self.text[self.at..] {
                [byte, ..] if byte.is_ascii_whitespace() || *byte == 0x0b => self.at += 1,
                [b'#', inner @ ..] => self.at += 1 + memchr::memchr(b'\n', inner).unwrap_or(inner.len()),
                [b'/', b'*', inner @ ..] => match memchr::memmem::find(inner, b"*/") {
                    Some(length) => self.at += length + 4,
                    None => return Err(self.not_closed(self.at, 2, "comment")),
                },
                _ => return Ok(()),
            }
        }
    }

    fn not_closed(&self, start: usize, length: usize, what: &str) -> Vec<Diagnostic> {
        vec![version_error(self.sources, self.span(start, length), format!("unclosed {what}"))]
    }

    fn span(&self, start: usize, length: usize) -> Span {
        // This is inside the whole span, whose end fits 32 bits.
        Span { start: self.whole.start + start as u32, length: length as u32, ..self.whole }
    }
}

/// The length of a word. It ends at a blank, a mark or a comment. Two colons belong to the word, one colon
/// does not.
fn word_length(rest: &[u8]) -> usize {
    let mut length = 0;
    loop {
        match &rest[length..] {
            [b':', b':', ..] => length += 2,
            [b'{' | b'}' | b';' | b':' | b'"', ..] | [b'/', b'*', ..] | [] => return length,
            [byte, ..] if byte.is_ascii_whitespace() || *byte == 0x0b => return length,
            _ => length += 1,
        }
    }
}

fn name_of(token: Token<'_>) -> Name {
    Name { bytes: token.bytes.into(), span: token.span }
}

fn pattern_of(token: Token<'_>, language: Language) -> SymbolPattern {
    SymbolPattern { name: name_of(token), language, quoted: token.kind == Kind::Quoted }
}
