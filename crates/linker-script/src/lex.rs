//! Splits the text of a script into tokens, one at a time.
//!
//! The language has no single set of tokens: `*`, `-`, `/`, `:` and `=` are operators in expressions, and
//! letters of names elsewhere. Only the parser knows where it is. So it says with each token which [`Mode`]
//! it wants. The lexer remembers nothing but its position, and the parser can set it back.

use super::source::Span;

/// The context of the next token. It decides which characters belong to names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Commands, names of output sections, and symbols on the left of an assignment.
    Statement,
    /// Values.
    Expression,
    /// Input section statements: names with wildcards, archives with a colon.
    Pattern,
    /// Names of files, formats and machines: anything up to a separator.
    FileList,
}

/// A token and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

/// The kinds of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    /// The end of the text.
    End,
    /// A name without quotes.
    Word,
    /// A name in quotes.
    Quoted,
    /// A number. Its text has the value.
    Number,
    /// An operator or separator.
    Mark(&'static str),
    /// A quote or comment that is not closed.
    Unclosed,
    /// A byte that begins no token.
    Stray,
}

impl Token {
    /// Whether it is this operator or separator.
    pub fn is(self, mark: &str) -> bool {
        matches!(self.kind, TokenKind::Mark(text) if text == mark)
    }

    /// Whether it is a name, quoted or not.
    pub fn is_name(self) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Quoted)
    }
}

/// Operators and separators, grouped by first byte, longer ones before their prefixes.
const MARKS: [&str; 40] = [
    "<<=", "<<", "<=", "<", ">>=", ">>", ">=", ">", "||", "|=", "|", "&&", "&=", "&", "==", "=", "!=", "!",
    "+=", "+", "-=", "-", "*=", "*", "/=", "/", "^=", "^", "%", "~", "?", ":", ";", ",", "(", ")", "{", "}",
    "[", "]",
];

/// By byte: the place in [`MARKS`] of the first mark that begins with it.
const FIRST_MARK: [u8; 256] = {
    let mut first = [MARKS.len() as u8; 256];
    let mut mark = MARKS.len();
    while mark > 0 {
        mark -= 1;
        first[MARKS[mark].as_bytes()[0] as usize] = mark as u8;
    }
    first
};

/// The mark at the start of `rest`, whose first byte is `first`.
fn mark(rest: &[u8], first: u8) -> Option<&'static str> {
    let marks = &MARKS[FIRST_MARK[usize::from(first)].into()..];
    let same = marks.iter().take_while(|mark| mark.as_bytes()[0] == first);
    same.copied().find(|mark| rest.starts_with(mark.as_bytes()))
}

/// By mode and byte: whether names may contain the byte.
const LETTERS: [[bool; 256]; 4] = {
    let mut letters = [[false; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        letters[Mode::Statement as usize][byte] = is_statement_letter(byte as u8);
        letters[Mode::Expression as usize][byte] = is_expression_letter(byte as u8);
        letters[Mode::Pattern as usize][byte] = is_statement_letter(byte as u8) || is_wildcard(byte as u8);
        letters[Mode::FileList as usize][byte] = is_file_letter(byte as u8);
        byte += 1;
    }
    letters
};

/// A position in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    file: u32,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of a text. The text's length must fit 32 bits.
    pub fn new(file: u32, text: &'a [u8]) -> Self {
        Lexer { text, file, at: 0 }
    }

    /// The offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Reads the next token.
    pub fn next(&mut self, mode: Mode) -> Token {
        if let Err(start) = self.skip_blanks() {
            self.at = self.text.len();
            return self.token(TokenKind::Unclosed, start);
        }
        let start = self.at;
        let Some(&first) = self.text.get(start) else {
            return self.token(TokenKind::End, start);
        };
        if first == b'"' {
            return self.quoted(start);
        }
        let rest = &self.text[start..];
        let (kind, length) = scan(rest, first, mode);
        self.at = start + length.max(1);
        self.token(kind, start)
    }

    /// The bytes of a token of this text, without quotes.
    pub fn bytes(&self, token: Token) -> &'a [u8] {
        let start = token.span.start as usize;
        let bytes = self.text.get(start..start + token.span.length as usize).unwrap_or_default();
        match token.kind {
            TokenKind::Quoted => bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default(),
            _ => bytes,
        }
    }

    /// Skips a block whose opening brace has been read, with its closing brace, and returns the text between
    /// them. Braces in comments and quotes do not count.
    ///
    /// # Errors
    /// The block is not closed, with the comment or quote whose end is missing, if one is to blame.
    pub fn skip_block(&mut self) -> Result<Span, Option<Token>> {
        let start = self.at;
        let mut depth = 1usize;
        loop {
            self.skip_blanks().map_err(|comment| Some(self.token(TokenKind::Unclosed, comment)))?;
            let end = self.at;
            match self.text.get(end).ok_or(None)? {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'"' => match self.quoted(end) {
                    unclosed if unclosed.kind == TokenKind::Unclosed => return Err(Some(unclosed)),
                    _ => continue,
                },
                _ => {}
            }
            self.at = end + 1;
            if depth == 0 {
                return Ok(self.span(start, end));
            }
        }
    }

    fn quoted(&mut self, start: usize) -> Token {
        match memchr::memchr(b'"', &self.text[start + 1..]) {
            Some(length) => {
                self.at = start + 1 + length + 1;
                self.token(TokenKind::Quoted, start)
            }
            None => {
                self.at = self.text.len();
                Token { kind: TokenKind::Unclosed, span: self.span(start, start + 1) }
            }
        }
    }

    /// Skips blanks and comments.
    ///
    /// # Errors
    /// The start of the comment, if one is not closed.
    fn skip_blanks(&mut self) -> Result<(), usize> {
        loop {
            match &self.text[self.at..] {
                [b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c', ..] => self.at += 1,
                [b'/', b'*', inner @ ..] => match memchr::memmem::find(inner, b"*/") {
                    Some(length) => self.at += length + 4,
                    None => return Err(self.at),
                },
                [b'#', inner @ ..] => {
                    self.at += 1 + memchr::memchr(b'\n', inner).unwrap_or(inner.len());
                }
                _ => return Ok(()),
            }
        }
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        let end = if kind == TokenKind::Unclosed { start + 2 } else { self.at };
        Token { kind, span: self.span(start, end) }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        // The length of the text fits 32 bits, so these fit too.
        Span { file: self.file, start: start as u32, length: (end - start) as u32 }
    }
}

/// The kind and the length of the token at the start of `rest`. It must not be a blank or a quoted name.
fn scan(rest: &[u8], first: u8, mode: Mode) -> (TokenKind, usize) {
    if mode == Mode::Expression {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        if first.is_ascii_digit() {
            return (TokenKind::Number, digits);
        }
        if first == b'$' {
            let digits = rest[1..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let next = rest.get(1 + digits).copied().unwrap_or(b' ');
            if digits > 0 && !is_expression_letter(next) {
                return (TokenKind::Number, 1 + digits);
            }
        }
    }
    let length = word_length(rest, mode);
    if length > 0 {
        return (TokenKind::Word, length);
    }
    match mark(rest, first) {
        Some(mark) => (TokenKind::Mark(mark), mark.len()),
        None => (TokenKind::Stray, 1),
    }
}

/// The number of bytes at the start of `rest` that make a name in this mode.
fn word_length(rest: &[u8], mode: Mode) -> usize {
    if mode == Mode::Expression {
        match rest.first() {
            // A fill may stand directly before it: `} =0x90 /DISCARD/ : { … }`.
            Some(b'/') if rest.starts_with(b"/DISCARD/") => return b"/DISCARD/".len(),
            Some(b'/' | b'~') => return 0,
            _ => {}
        }
    }
    let letters = &LETTERS[mode as usize];
    let mut length = 0;
    while let Some(&byte) = rest.get(length) {
        let may_end = matches!(byte, b'+' | b'-' | b'*' | b'/' | b'^');
        if !letters[usize::from(byte)] || may_end && ends_name(&rest[length..], mode) {
            break;
        }
        length += 1;
    }
    length
}

/// Whether the text here is an assignment operator or the start of a comment, which end a name although their
/// bytes may be in names.
fn ends_name(tail: &[u8], mode: Mode) -> bool {
    match mode {
        Mode::Statement => starts_assignment(tail) || tail.starts_with(b"/*"),
        Mode::Pattern => starts_assignment(tail),
        Mode::FileList => tail.starts_with(b"/*"),
        Mode::Expression => false,
    }
}

const fn is_expression_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'\\' | b'$' | b'~') || byte >= 0x80
}

const fn is_statement_letter(byte: u8) -> bool {
    is_expression_letter(byte) || matches!(byte, b'+' | b'-' | b'[' | b']' | b'@')
}

const fn is_wildcard(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'^' | b'!' | b':')
}

const fn is_file_letter(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !matches!(byte, b'(' | b')' | b'{' | b'}' | b';' | b',' | b'"' | 0)
}

/// Whether the text here is an assignment operator. Without this test, `x+=1` would be a name, not an
/// assignment.
fn starts_assignment(tail: &[u8]) -> bool {
    match tail {
        [b'+' | b'-' | b'*' | b'/' | b'^', b'=', after @ ..] => after.first() != Some(&b'='),
        _ => false,
    }
}

/// The value of a number; `None` if the text is not a number. The forms are decimal, hexadecimal with `0x` or
/// `$`, and octal with `0`, all of them with an optional suffix `K` or `M` (times 1024, 1024 squared); or
/// digits with a suffix for their base: `h` or `x` hexadecimal, `o` octal, `b` binary, `d` decimal. A value
/// that does not fit becomes the largest one.
pub(super) fn number_value(text: &[u8]) -> Option<u64> {
    let (digits, base) = match text {
        [b'$', hex @ ..] | [b'0', b'x' | b'X', hex @ ..] => (hex, 16),
        [b'0', octal @ ..] if octal.first().is_some_and(u8::is_ascii_digit) => (octal, 8),
        _ => (text, 10),
    };
    let (last, front) = text.split_last()?;
    if base != 16 || text.first() == Some(&b'0') {
        let suffix_base = match last {
            b'h' | b'H' => 16,
            b'x' | b'X' if front.len() > 1 => 16,
            b'o' | b'O' => 8,
            b'b' | b'B' if base != 16 => 2,
            b'd' | b'D' if base != 16 => 10,
            _ => 0,
        };
        if suffix_base != 0 {
            return digits_value(front, suffix_base);
        }
    }
    match digits.split_last()? {
        (b'k' | b'K', digits) => Some(digits_value(digits, base)?.wrapping_mul(1 << 10)),
        (b'm' | b'M', digits) => Some(digits_value(digits, base)?.wrapping_mul(1 << 20)),
        _ => digits_value(digits, base),
    }
}

fn digits_value(digits: &[u8], base: u32) -> Option<u64> {
    let mut value = 0u64;
    if digits.is_empty() {
        return None;
    }
    for digit in digits {
        let digit = char::from(*digit).to_digit(base)?;
        value = value.checked_mul(base.into()).and_then(|v| v.checked_add(digit.into())).unwrap_or(u64::MAX);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, mode: Mode) -> Vec<String> {
        let mut lexer = Lexer::new(0, text.as_bytes());
        let mut all = Vec::new();
        loop {
            let token = lexer.next(mode);
            if token.kind == TokenKind::End {
                return all;
            }
            all.push(String::from_utf8_lossy(lexer.bytes(token)).into_owned());
        }
    }

    #[test]
    fn each_mode_cuts_its_own_way() {
        assert_eq!(words("a-b*4/2", Mode::Expression), ["a", "-", "b", "*", "4", "/", "2"]);
        assert_eq!(words("8/2 a/b .+1", Mode::Expression), ["8", "/", "2", "a/b", ".", "+", "1"]);
        assert_eq!(words("*(.text.* .a[0-9])", Mode::Pattern), ["*", "(", ".text.*", ".a[0-9]", ")"]);
        assert_eq!(words("lib.a:x.o(.b,.c)", Mode::Pattern), ["lib.a:x.o", "(", ".b", ",", ".c", ")"]);
        assert_eq!(words("___ksymtab+* x+=1", Mode::Pattern), ["___ksymtab+*", "x", "+=", "1"]);
        assert_eq!(words(".text:{x=1;}", Mode::Statement), [".text", ":", "{", "x", "=", "1", ";", "}"]);
        assert_eq!(words("i386:x86-64,-la=b.so", Mode::FileList), ["i386:x86-64", ",", "-la=b.so"]);
        assert_eq!(words("a<<=1 a<<1>=b", Mode::Expression), ["a", "<<=", "1", "a", "<<", "1", ">=", "b"]);
    }

    #[test]
    fn comments_and_quotes() {
        assert_eq!(words("a/* x */b # c\nd", Mode::Statement), ["a", "b", "d"]);
        assert_eq!(words("\"a b\" \"*/\"", Mode::Pattern), ["a b", "*/"]);
        let mut lexer = Lexer::new(0, b"a /* b");
        lexer.next(Mode::Statement);
        let token = lexer.next(Mode::Statement);
        assert_eq!((token.kind, token.span.start), (TokenKind::Unclosed, 2));
        assert_eq!(Lexer::new(0, b"\"a").next(Mode::Pattern).kind, TokenKind::Unclosed);
    }

    #[test]
    fn numbers_of_every_spelling() {
        for (text, value) in [
            ("0", 0),
            ("017", 15),
            ("0x1F", 31),
            ("$1f", 31),
            ("4K", 4096),
            ("0x1K", 1024),
            ("2m", 2 << 20),
            ("10h", 16),
            ("17o", 15),
            ("101b", 5),
            ("12d", 12),
            ("0x1b", 27),
            ("0x1d", 29),
            ("0x123456789abcdef01", u64::MAX),
        ] {
            assert_eq!(number_value(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["0x", "12z", "1kk", "k", "09"] {
            assert_eq!(number_value(text.as_bytes()), None, "{text}");
        }
    }
}
