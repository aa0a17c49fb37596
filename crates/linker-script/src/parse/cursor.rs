//! The parser's access to tokens: it looks at them, demands them, records errors, goes on behind an error,
//! and opens included files.

use crate::lex::{Lexer, Mode, Token, TokenKind};
use crate::source::{Name, Sources, Span};
use diagnostics::{Code, Diagnostic};
use std::cell::Cell;

/// Finds an included file. The arguments are its name in the script and the name of the including file. The
/// result is the name and the text of the file, or why it cannot be read.
pub type Include<'a> = dyn FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'a;

/// Says that an error was recorded, so that the statement around it is given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported;

/// The parser gives up a text after this many errors, because more would only bury the first ones.
pub const MAX_ERRORS: usize = 20;

/// Inclusions may be nested this deep.
const MAX_INCLUDE_DEPTH: usize = 16;

/// A token that the parser has looked at. Most tokens are looked at twice or more before they are read, and
/// every link reads the default script.
#[derive(Clone, Copy)]
struct Seen<'a> {
    /// Where the lexer was.
    position: usize,
    mode: Mode,
    token: Token,
    /// The lexer behind the token.
    behind: Lexer<'a>,
}

/// The parser: its position, and its errors so far.
pub(super) struct Parser<'a, 'i> {
    sources: &'a mut Sources,
    include: &'a mut Include<'i>,
    lexer: Lexer<'a>,
    seen: Cell<Option<Seen<'a>>>,
    file: u32,
    /// The files around this one, outermost first.
    including: Vec<u32>,
    diagnostics: Vec<Diagnostic>,
    /// The number of operators and parentheses so far in the expression that is being read.
    pub(super) complexity: u32,
    /// The number of `GROUP`s that are open.
    pub(super) group_depth: u32,
}

impl<'a, 'i> Parser<'a, 'i> {
    pub(super) fn new(
        sources: &'a mut Sources,
        file: u32,
        text: &'a [u8],
        include: &'a mut Include<'i>,
    ) -> Self {
        Parser {
            sources,
            include,
            lexer: Lexer::new(file, text),
            seen: Cell::new(None),
            file,
            including: Vec::new(),
            diagnostics: Vec::new(),
            complexity: 0,
            group_depth: 0,
        }
    }

    /// The tree, or the errors if there were any.
    pub(super) fn finish<T>(self, tree: T) -> Result<T, Vec<Diagnostic>> {
        if self.diagnostics.is_empty() { Ok(tree) } else { Err(self.diagnostics) }
    }

    pub(super) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    /// The next token, without reading past it.
    pub(super) fn peek(&self, mode: Mode) -> Token {
        self.look(mode).token
    }

    /// Reads the next token.
    pub(super) fn next(&mut self, mode: Mode) -> Token {
        let seen = self.look(mode);
        self.lexer = seen.behind;
        seen.token
    }

    fn look(&self, mode: Mode) -> Seen<'a> {
        let position = self.lexer.position();
        match self.seen.get() {
            Some(seen) if seen.position == position && seen.mode == mode => seen,
            _ => {
                let mut behind = self.lexer;
                let token = behind.next(mode);
                let seen = Seen { position, mode, token, behind };
                self.seen.set(Some(seen));
                seen
            }
        }
    }

    /// The position, for [`Parser::reset`].
    pub(super) fn mark(&self) -> Lexer<'a> {
        self.lexer
    }

    /// Goes back to a position in the same text.
    pub(super) fn reset(&mut self, mark: Lexer<'a>) {
        self.lexer = mark;
    }

    /// The bytes of a token, without quotes.
    pub(super) fn bytes(&self, token: Token) -> &'a [u8] {
        self.lexer.bytes(token)
    }

    /// The bytes of a name that is not quoted, as keywords are; nothing for any other token.
    pub(super) fn word(&self, token: Token) -> &'a [u8] {
        if token.kind == TokenKind::Word { self.bytes(token) } else { b"" }
    }

    /// Reads a mark if it is the next token, and returns whether it is.
    pub(super) fn accept(&mut self, mode: Mode, mark: &str) -> bool {
        let found = self.peek(mode).is(mark);
        if found {
            self.next(mode);
        }
        found
    }

    /// Reads a mark. If another token is next, that is an error.
    pub(super) fn expect(&mut self, mode: Mode, mark: &str) -> Result<Token, Reported> {
        let token = self.peek(mode);
        if token.is(mark) {
            return Ok(self.next(mode));
        }
        Err(self.unexpected(token, &format!("`{mark}`")))
    }

    /// Demands the end of the text.
    pub(super) fn expect_end(&mut self, mode: Mode) -> Result<(), Reported> {
        let token = self.peek(mode);
        if token.kind == TokenKind::End { Ok(()) } else { Err(self.unexpected(token, "the end")) }
    }

    /// Reads a name, quoted or not. Messages call it `what`.
    pub(super) fn name(&mut self, mode: Mode, what: &str) -> Result<Name, Reported> {
        let token = self.peek(mode);
        if !token.is_name() {
            return Err(self.unexpected(token, what));
        }
        self.next(mode);
        Ok(self.name_of(token))
    }

    /// Reads `(name)`.
    pub(super) fn name_in_parentheses(&mut self, mode: Mode, what: &str) -> Result<Name, Reported> {
        self.expect(Mode::Statement, "(")?;
        let name = self.name(mode, what)?;
        self.expect(Mode::Statement, ")")?;
        Ok(name)
    }

    pub(super) fn name_of(&self, token: Token) -> Name {
        Name { bytes: self.bytes(token).into(), span: token.span }
    }

    /// Reads to the end of a block whose brace was just read, and returns the text inside.
    pub(super) fn skip_block(&mut self, opening: Token) -> Result<Span, Reported> {
        self.lexer.skip_block().map_err(|unclosed| match unclosed {
            Some(token) => self.unexpected(token, "`}`"),
            None => self.error(opening.span, "this `{` is not closed"),
        })
    }

    /// Records the error that this token stands where `wanted` should.
    pub(super) fn unexpected(&mut self, token: Token, wanted: &str) -> Reported {
        let found = match token.kind {
            TokenKind::End => "the end of the script".to_owned(),
            TokenKind::Unclosed if self.sources.slice(token.span).starts_with(b"/*") => {
                return self.error(token.span, "unclosed comment");
            }
            TokenKind::Unclosed => return self.error(token.span, "unclosed quote"),
            TokenKind::Word | TokenKind::Quoted | TokenKind::Number => {
                format!("`{}`", String::from_utf8_lossy(self.sources.slice(token.span)))
            }
            TokenKind::Mark(mark) => format!("`{mark}`"),
            TokenKind::Stray => {
                format!("`{}`", self.sources.slice(token.span).escape_ascii())
            }
        };
        self.error(token.span, format!("expected {wanted}, found {found}"))
    }

    /// Records an error.
    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) -> Reported {
        if self.diagnostics.len() < MAX_ERRORS {
            let diagnostic = syntax_error(self.sources, span, message.into());
            self.diagnostics.push(diagnostic);
        }
        Reported
    }

    /// Records an error with advice.
    pub(super) fn error_with_help(&mut self, span: Span, message: String, help: String) -> Reported {
        if self.diagnostics.len() < MAX_ERRORS {
            let diagnostic = syntax_error(self.sources, span, message).help(help);
            self.diagnostics.push(diagnostic);
        }
        Reported
    }

    /// Skips the rest of the statement that began at `statement` and failed at the current token. It stops
    /// behind the next `;` or the next block, or before the brace that closes the enclosing block.
    pub(super) fn recover(&mut self, statement: Lexer<'a>) {
        let wrong = self.lexer.position();
        self.lexer = statement;
        let mut depth = 0usize;
        loop {
            let before = self.lexer;
            let token = self.next(Mode::FileList);
            match token.kind {
                TokenKind::End | TokenKind::Unclosed => return,
                TokenKind::Mark("{") => depth += 1,
                TokenKind::Mark("}") if depth == 0 => {
                    // If the statement itself is a stray brace, the parser must read it, or it would stay
                    // here forever.
                    if before.position() > statement.position() {
                        self.lexer = before;
                    }
                    return;
                }
                TokenKind::Mark("}") => depth -= 1,
                TokenKind::Mark(";") => {}
                _ => continue,
            }
            if depth == 0 && self.lexer.position() >= wrong {
                return;
            }
        }
    }

    /// Carries out `INCLUDE file`, whose keyword was read already: reads `items` from that file to its end.
    pub(super) fn include<T>(
        &mut self,
        items: &mut Vec<T>,
        read: fn(&mut Parser<'_, '_>, &mut Vec<T>),
    ) -> Result<(), Reported> {
        let name = self.name(Mode::FileList, "the name of a file to include")?;
        if self.including.len() == MAX_INCLUDE_DEPTH {
            let message = format!("inclusions are nested more than {MAX_INCLUDE_DEPTH} deep");
            return Err(self.error(name.span, message));
        }
        let opened = (self.include)(&name.text(), self.sources.name(self.file));
        let (path, text) = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                let message = format!("cannot include `{}`: {reason}", name.text());
                return Err(self.error(name.span, message));
            }
        };
        let mut including = self.including.clone();
        including.push(self.file);
        // Without this test, a file that includes itself twice would be read 2¹⁶ times before the nesting is
        // too deep.
        if including.iter().any(|&file| self.sources.name(file) == path) {
            return Err(self.error(name.span, format!("`{path}` includes itself")));
        }
        let file = match self.sources.include(&path, text) {
            Ok(file) => file,
            Err(message) => return Err(self.error(name.span, message)),
        };
        let text = self.sources.text(file);
        let mut inner = Parser {
            sources: &mut *self.sources,
            include: &mut *self.include,
            lexer: Lexer::new(file, &text),
            seen: Cell::new(None),
            file,
            including,
            diagnostics: std::mem::take(&mut self.diagnostics),
            complexity: 0,
            group_depth: self.group_depth,
        };
        read(&mut inner, items);
        let token = inner.peek(Mode::Statement);
        if token.kind != TokenKind::End {
            inner.unexpected(token, "the end of the included file");
        }
        self.diagnostics = inner.diagnostics;
        Ok(())
    }

    /// Whether there are so many errors that the parser gives up.
    pub(super) fn gave_up(&self) -> bool {
        self.diagnostics.len() >= MAX_ERRORS
    }
}

pub(super) fn too_large(name: &str) -> Diagnostic {
    Diagnostic::error(Code::ScriptSyntax, format!("script `{name}` is larger than 4 GiB"))
}

/// A diagnostic about a place in a script.
pub(crate) fn syntax_error(sources: &Sources, span: Span, message: String) -> Diagnostic {
    Diagnostic::error(Code::ScriptSyntax, message).at(sources.location(span)).ordered(
        span.file,
        0,
        span.start.into(),
    )
}
