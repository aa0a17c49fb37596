//! Parses the statements between the braces of an output section.

use super::cursor::{Parser, Reported};
use crate::ast::{
    BodyItem, DataSize, FilePattern, InputStatement, Name, SectionFlags, SectionPattern, Sort, SortKey,
};
use crate::lex::{Mode, Token, TokenKind, number_value};

/// The names that `INPUT_SECTION_FLAGS` knows for bits of `sh_flags`.
const FLAG_NAMES: &[(&str, u64)] = &[
    ("SHF_WRITE", 1 << 0),
    ("SHF_ALLOC", 1 << 1),
    ("SHF_EXECINSTR", 1 << 2),
    ("SHF_MERGE", 1 << 4),
    ("SHF_STRINGS", 1 << 5),
    ("SHF_INFO_LINK", 1 << 6),
    ("SHF_LINK_ORDER", 1 << 7),
    ("SHF_OS_NONCONFORMING", 1 << 8),
    ("SHF_GROUP", 1 << 9),
    ("SHF_TLS", 1 << 10),
    ("SHF_COMPRESSED", 1 << 11),
    ("SHF_GNU_RETAIN", 1 << 21),
    ("SHF_X86_64_LARGE", 1 << 28),
    ("SHF_AARCH64_PURECODE", 1 << 29),
    ("SHF_ARM_PURECODE", 1 << 29),
    ("SHF_EXCLUDE", 1 << 31),
];

impl Parser<'_, '_> {
    /// Reads the items up to the closing brace, which it leaves unread.
    pub(super) fn body(&mut self) -> Vec<BodyItem> {
        let mut items = Vec::new();
        read_body(self, &mut items);
        items
    }

    fn body_item(&mut self, items: &mut Vec<BodyItem>) -> Result<(), Reported> {
        if self.assignment_follows() {
            items.push(BodyItem::Assignment(self.assignment()?));
            return Ok(());
        }
        let token = self.peek(Mode::Pattern);
        let word = self.word(token);
        if let Some(size) = data_size(word) {
            self.next(Mode::Pattern);
            items.push(BodyItem::Data { size, value: self.expression_in_parentheses()? });
            return Ok(());
        }
        let item = match word {
            b"INCLUDE" => {
                self.next(Mode::Pattern);
                return self.include(items, read_body);
            }
            b"PROVIDE" | b"PROVIDE_HIDDEN" | b"HIDDEN" => {
                self.next(Mode::Pattern);
                BodyItem::Assignment(self.wrapped_assignment(token)?)
            }
            b"ASSERT" => {
                self.next(Mode::Pattern);
                BodyItem::Assert(self.assert(token)?)
            }
            b"FILL" => {
                self.next(Mode::Pattern);
                BodyItem::Fill(self.expression_in_parentheses()?)
            }
            b"ASCIZ" => {
                self.next(Mode::Pattern);
                self.zero_terminated(token)?
            }
            b"LINKER_VERSION" => self.lone(BodyItem::LinkerVersion),
            b"CONSTRUCTORS" => self.lone(BodyItem::Constructors),
            b"CREATE_OBJECT_SYMBOLS" => self.lone(BodyItem::CreateObjectSymbols),
            b"CLASS" if self.parenthesis_follows() => {
                self.next(Mode::Pattern);
                BodyItem::Class(self.name_in_parentheses(Mode::Pattern, "the name of a section class")?)
            }
            b"SORT" | b"SORT_BY_NAME" if self.constructors_follow() => BodyItem::Constructors(token.span),
            b"KEEP" => {
                self.next(Mode::Pattern);
                self.expect(Mode::Pattern, "(")?;
                let inner = self.peek(Mode::Pattern);
                if self.word(inner) == b"CLASS" && self.parenthesis_follows() {
                    let message =
                        "KEEP cannot stand around a section class: put it inside the class's definition";
                    return Err(self.error(inner.span, message));
                }
                let statement = self.input_statement(true)?;
                let close = self.expect(Mode::Pattern, ")")?;
                BodyItem::Input(InputStatement { span: token.span.to(close.span), ..statement })
            }
            _ => BodyItem::Input(self.input_statement(false)?),
        };
        items.push(item);
        Ok(())
    }

    fn lone(&mut self, item: fn(crate::source::Span) -> BodyItem) -> BodyItem {
        item(self.next(Mode::Pattern).span)
    }

    /// Whether `(` comes behind the next token.
    fn parenthesis_follows(&mut self) -> bool {
        let mark = self.mark();
        self.next(Mode::Pattern);
        let follows = self.peek(Mode::Pattern).is("(");
        self.reset(mark);
        follows
    }

    /// Reads `SORT(CONSTRUCTORS)` if that comes next, and returns whether it does.
    fn constructors_follow(&mut self) -> bool {
        let mark = self.mark();
        self.next(Mode::Pattern);
        if self.next(Mode::Pattern).is("(") {
            let inner = self.next(Mode::Pattern);
            if self.word(inner) == b"CONSTRUCTORS" && self.next(Mode::Pattern).is(")") {
                return true;
            }
        }
        self.reset(mark);
        false
    }

    fn zero_terminated(&mut self, word: Token) -> Result<BodyItem, Reported> {
        let text = self.name(Mode::Pattern, "a text in quotes")?;
        let mut bytes = unescape(&text.bytes);
        bytes.push(0);
        Ok(BodyItem::Text { span: word.span.to(text.span), bytes: bytes.into() })
    }

    /// Reads `INPUT_SECTION_FLAGS(…) EXCLUDE_FILE(…) file(sections)`.
    fn input_statement(&mut self, keep: bool) -> Result<InputStatement, Reported> {
        let start = self.peek(Mode::Pattern).span;
        let mut flags = None;
        if self.accept_word(b"INPUT_SECTION_FLAGS") {
            flags = Some(self.section_flags()?);
        }
        let SectionPattern { glob, exclude, sort } =
            self.pattern(None, "a file pattern, an assignment or `}`")?;
        let file = FilePattern { glob, exclude, sort };
        if !self.accept(Mode::Pattern, "(") {
            let span = start.to(file.glob.span);
            return Ok(InputStatement { span, keep, flags, file, sections: None });
        }
        let mut sections = Vec::new();
        loop {
            let token = self.peek(Mode::Pattern);
            if token.is(")") {
                self.next(Mode::Pattern);
                let span = start.to(token.span);
                return Ok(InputStatement { span, keep, flags, file, sections: Some(sections) });
            }
            if token.is(",") {
                self.next(Mode::Pattern);
                continue;
            }
            let last = self.pattern(Some(&mut sections), "a section pattern or `)`")?;
            sections.push(last);
        }
    }

    /// Reads a pattern inside any nesting of `SORT…`, `REVERSE` and `EXCLUDE_FILE`. The parentheses may hold
    /// several patterns of sections, which are sorted together, as in lld: those before the last one go to
    /// `before`.
    fn pattern(
        &mut self,
        mut before: Option<&mut Vec<SectionPattern>>,
        what: &str,
    ) -> Result<SectionPattern, Reported> {
        let mut exclude = Vec::new();
        let mut sort = Sort::default();
        let mut open = 0;
        loop {
            let token = self.next(Mode::Pattern);
            let key = match self.word(token) {
                b"EXCLUDE_FILE" => {
                    self.file_list(&mut exclude)?;
                    continue;
                }
                b"REVERSE" if self.peek(Mode::Pattern).is("(") => {
                    sort.reverse = true;
                    SortKey::Default
                }
                word => match sort_key(word) {
                    Some(key) if self.peek(Mode::Pattern).is("(") => key,
                    _ => {
                        if !token.is_name() {
                            return Err(self.unexpected(token, what));
                        }
                        if sort.reverse && sort.first == SortKey::Default {
                            sort.first = SortKey::Name;
                        }
                        let glob = self.name_of(token);
                        let pattern = SectionPattern { glob, exclude: std::mem::take(&mut exclude), sort };
                        if open > 0
                            && !self.peek(Mode::Pattern).is(")")
                            && let Some(before) = before.as_deref_mut()
                        {
                            before.push(pattern);
                            continue;
                        }
                        for _ in 0..open {
                            self.expect(Mode::Pattern, ")")?;
                        }
                        return Ok(pattern);
                    }
                },
            };
            self.nest(token, &mut sort, key)?;
            self.expect(Mode::Pattern, "(")?;
            open += 1;
        }
    }

    /// Adds one more `SORT…` keyword. A third order is an error.
    fn nest(&mut self, token: Token, sort: &mut Sort, key: SortKey) -> Result<(), Reported> {
        if key == SortKey::Default {
            return Ok(());
        }
        if sort.first == SortKey::Default {
            sort.first = key;
        } else if sort.second == SortKey::Default {
            sort.second = if key == sort.first { SortKey::Default } else { key };
        } else {
            return Err(self.error(token.span, "sections can be sorted by at most two keys"));
        }
        Ok(())
    }

    /// Reads `(file file, file)`.
    fn file_list(&mut self, files: &mut Vec<Name>) -> Result<(), Reported> {
        self.expect(Mode::Pattern, "(")?;
        loop {
            if self.accept(Mode::Pattern, ",") {
                continue;
            }
            if self.accept(Mode::Pattern, ")") {
                return Ok(());
            }
            files.push(self.name(Mode::Pattern, "a file pattern or `)`")?);
        }
    }

    /// Reads `(SHF_A & !SHF_B & 0x10)`.
    fn section_flags(&mut self) -> Result<SectionFlags, Reported> {
        self.expect(Mode::Expression, "(")?;
        let mut flags = SectionFlags::default();
        loop {
            let without = self.accept(Mode::Expression, "!");
            let token = self.next(Mode::Expression);
            let text = self.bytes(token);
            let value = match token.kind {
                TokenKind::Number => number_value(text),
                _ => FLAG_NAMES.iter().find(|(name, _)| name.as_bytes() == text).map(|(_, bits)| *bits),
            };
            let Some(value) = value else {
                let message = format!("unknown section flag `{}`", String::from_utf8_lossy(text));
                let help =
                    "flags are SHF_ names or numbers, joined by `&`; `!` stands before a flag that must not be set".to_owned();
                return Err(self.error_with_help(token.span, message, help));
            };
            if without {
                flags.without |= value;
            } else {
                flags.with |= value;
            }
            if !self.accept(Mode::Expression, "&") {
                self.expect(Mode::Expression, ")")?;
                return Ok(flags);
            }
        }
    }

    fn accept_word(&mut self, word: &[u8]) -> bool {
        let token = self.peek(Mode::Pattern);
        let found = self.word(token) == word;
        if found {
            self.next(Mode::Pattern);
        }
        found
    }
}

/// Reads items up to the closing brace or the end of the text.
fn read_body(parser: &mut Parser<'_, '_>, items: &mut Vec<BodyItem>) {
    while !parser.gave_up() {
        let token = parser.peek(Mode::Pattern);
        if token.kind == TokenKind::End || token.is("}") {
            return;
        }
        let start = parser.mark();
        if parser.accept(Mode::Pattern, ";") || parser.accept(Mode::Pattern, ",") {
            continue;
        }
        if parser.body_item(items).is_err() {
            parser.recover(start);
        }
    }
}

fn data_size(word: &[u8]) -> Option<DataSize> {
    match word {
        b"BYTE" => Some(DataSize::Byte),
        b"SHORT" => Some(DataSize::Short),
        b"LONG" => Some(DataSize::Long),
        b"QUAD" => Some(DataSize::Quad),
        b"SQUAD" => Some(DataSize::SignedQuad),
        _ => None,
    }
}

fn sort_key(word: &[u8]) -> Option<SortKey> {
    match word {
        b"SORT" | b"SORT_BY_NAME" => Some(SortKey::Name),
        b"SORT_BY_ALIGNMENT" => Some(SortKey::Alignment),
        b"SORT_BY_INIT_PRIORITY" => Some(SortKey::InitPriority),
        b"SORT_NONE" => Some(SortKey::None),
        _ => None,
    }
}

/// Resolves `\n`, `\r`, `\t`, `\\`, `\"` and octal numbers of up to three digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 1);
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let digits = rest.iter().take(3).take_while(|digit| matches!(digit, b'0'..=b'7')).count();
        if digits > 0 {
            let value = rest[..digits].iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            out.push((value & 0xff) as u8);
            rest = &rest[digits..];
            continue;
        }
        let Some((&escaped, tail)) = rest.split_first() else {
            out.push(b'\\');
            break;
        };
        rest = tail;
        out.push(match escaped {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            other => other,
        });
    }
    out
}
