//! The parser's access to tokens: looking at them, demanding them, recording errors, recovering
//! behind an error, and opening included files.

use crate::diag::{Code, Diagnostic};
use crate::script::lex::{Lexer, Mode, Token, TokenKind};
use crate::script::source::{Name, Sources, Span};

/// Returns the name and the text of an included file, or why it cannot be read. The arguments are
/// the name in the script and the name of the including file.
pub type Include<'a> = dyn FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'a;

/// An error was recorded; the statement that it is in is given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported;

/// Errors after which a text is given up: more would only bury the first ones.
pub const MAX_ERRORS: usize = 20;

/// Included files inside included files.
const MAX_INCLUDE_DEPTH: usize = 16;

/// The position of the parser, and its errors so far.
pub(super) struct Parser<'a, 'i> {
    sources: &'a mut Sources,
    include: &'a mut Include<'i>,
    lexer: Lexer<'a>,
    file: u32,
    /// The files around this one, outermost first.
    including: Vec<u32>,
    diagnostics: Vec<Diagnostic>,
    /// Operators and parentheses of the expression that is being read.
    pub(super) complexity: u32,
    /// `GROUP`s that are open.
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
            file,
            including: Vec::new(),
            diagnostics: Vec::new(),
            complexity: 0,
            group_depth: 0,
        }
    }

    /// The tree, unless something was wrong.
    pub(super) fn finish<T>(self, tree: T) -> Result<T, Vec<Diagnostic>> {
        if self.diagnostics.is_empty() { Ok(tree) } else { Err(self.diagnostics) }
    }

    pub(super) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    /// The next token, left where it is.
    pub(super) fn peek(&self, mode: Mode) -> Token {
        let mut lexer = self.lexer;
        lexer.next(mode)
    }

    /// The next token, passed over.
    pub(super) fn next(&mut self, mode: Mode) -> Token {
        self.lexer.next(mode)
    }

    /// The position, for [`Parser::reset`].
    pub(super) fn mark(&self) -> Lexer<'a> {
        self.lexer
    }

    /// Back to a position of the same text.
    pub(super) fn reset(&mut self, mark: Lexer<'a>) {
        self.lexer = mark;
    }

    /// The bytes of a token, quotes removed.
    pub(super) fn bytes(&self, token: Token) -> &'a [u8] {
        self.lexer.bytes(token)
    }

    /// The bytes of a name that is not quoted, as keywords are; else nothing.
    pub(super) fn word(&self, token: Token) -> &'a [u8] {
        if token.kind == TokenKind::Word { self.bytes(token) } else { b"" }
    }

    /// Passes over a mark if it is the next token.
    pub(super) fn accept(&mut self, mode: Mode, mark: &str) -> bool {
        let found = self.peek(mode).is(mark);
        if found {
            self.next(mode);
        }
        found
    }

    /// Passes over a mark; it is an error if another token is next.
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

    /// A name, quoted or not. Messages call its role `what`.
    pub(super) fn name(&mut self, mode: Mode, what: &str) -> Result<Name, Reported> {
        let token = self.peek(mode);
        if !token.is_name() {
            return Err(self.unexpected(token, what));
        }
        self.next(mode);
        Ok(self.name_of(token))
    }

    /// `(name)`.
    pub(super) fn name_in_parentheses(&mut self, mode: Mode, what: &str) -> Result<Name, Reported> {
        self.expect(Mode::Statement, "(")?;
        let name = self.name(mode, what)?;
        self.expect(Mode::Statement, ")")?;
        Ok(name)
    }

    pub(super) fn name_of(&self, token: Token) -> Name {
        Name { bytes: self.bytes(token).into(), span: token.span }
    }

    /// The text between the brace that was just read and the one that closes it.
    pub(super) fn skip_block(&mut self, opening: Token) -> Result<Span, Reported> {
        match self.lexer.skip_block() {
            Some(span) => Ok(span),
            None => Err(self.error(opening.span, "this `{` is not closed")),
        }
    }

    /// Records that something else stands where `wanted` should.
    pub(super) fn unexpected(&mut self, token: Token, wanted: &str) -> Reported {
        let found = match token.kind {
            TokenKind::End => "the end of the script".to_owned(),
            TokenKind::Unclosed if self.sources.slice(token.span).starts_with(b"/*") => {
                return self.error(token.span, "this comment is not closed");
            }
            TokenKind::Unclosed => return self.error(token.span, "this quote is not closed"),
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

    /// Passes over the rest of the statement that began at `statement` and failed at the current
    /// token: to behind the next `;` or the next block, or to in front of a brace that closes the
    /// enclosing block.
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
                    // A stray brace in front of everything must not hold the parser here.
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

    /// `INCLUDE file`, its word already read: reads `items` from that file to its end.
    pub(super) fn include<T>(
        &mut self,
        items: &mut Vec<T>,
        read: fn(&mut Parser<'_, '_>, &mut Vec<T>),
    ) -> Result<(), Reported> {
        let name = self.name(Mode::FileList, "the name of a file to include")?;
        if self.including.len() == MAX_INCLUDE_DEPTH {
            let message = format!("files are included more than {MAX_INCLUDE_DEPTH} deep");
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
        // A file that includes itself twice would be read 2¹⁶ times before it is too deep.
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

    /// Whether there are so many errors that more would be of no use.
    pub(super) fn gave_up(&self) -> bool {
        self.diagnostics.len() >= MAX_ERRORS
    }
}

pub(super) fn too_large(name: &str) -> Diagnostic {
    Diagnostic::error(Code::ScriptSyntax, format!("script `{name}` is larger than 4 GiB"))
}

/// A diagnostic about a place in a script.
pub(in crate::script) fn syntax_error(sources: &Sources, span: Span, message: String) -> Diagnostic {
    Diagnostic::error(Code::ScriptSyntax, message).at(sources.location(span)).ordered(
        span.file,
        0,
        span.start.into(),
    )
}
