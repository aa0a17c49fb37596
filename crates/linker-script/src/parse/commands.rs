//! Parses commands at the top of a script, and assignments and assertions, which may stand
//! anywhere.

use super::cursor::{Parser, Reported};
use crate::ast::{
    Assert, Assignment, AssignmentKind, Command, InputFile, Insert, MemoryRegion, Name, Phdr,
    RegionAttributes, RegionLetters,
};
use crate::expr::{BinaryOp, Expr, ExprKind};
use crate::lex::{Mode, Token, TokenKind};
use crate::source::Span;

/// The names that `PHDRS` knows for `p_type`.
const SEGMENT_TYPES: &[(&str, u64)] = &[
    ("PT_NULL", 0),
    ("PT_LOAD", 1),
    ("PT_DYNAMIC", 2),
    ("PT_INTERP", 3),
    ("PT_NOTE", 4),
    ("PT_SHLIB", 5),
    ("PT_PHDR", 6),
    ("PT_TLS", 7),
    ("PT_GNU_EH_FRAME", 0x6474_e550),
    ("PT_GNU_STACK", 0x6474_e551),
    ("PT_GNU_RELRO", 0x6474_e552),
    ("PT_GNU_PROPERTY", 0x6474_e553),
    ("PT_GNU_SFRAME", 0x6474_e554),
];

impl Parser<'_, '_> {
    /// Reads all commands of the text.
    pub(super) fn script(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        read_commands(self, &mut commands);
        let token = self.peek(Mode::Statement);
        if token.kind != TokenKind::End && !self.gave_up() {
            self.unexpected(token, "a command");
        }
        commands
    }

    fn command(&mut self, commands: &mut Vec<Command>) -> Result<(), Reported> {
        let token = self.peek(Mode::Statement);
        if self.assignment_follows() {
            commands.push(Command::Assignment(self.assignment()?));
            return Ok(());
        }
        if token.kind != TokenKind::Word {
            return Err(self.unexpected(token, "a command"));
        }
        self.next(Mode::Statement);
        let command = match self.bytes(token) {
            b"INCLUDE" => return self.include(commands, read_commands),
            b"SECTIONS" => Command::Sections(self.sections()?),
            b"OVERWRITE_SECTIONS" => Command::Overwrite(self.overwritten()?),
            b"INSERT" => Command::Insert(self.insert(token)?),
            b"PROVIDE" | b"PROVIDE_HIDDEN" | b"HIDDEN" => {
                Command::Assignment(self.wrapped_assignment(token)?)
            }
            b"ASSERT" => Command::Assert(self.assert(token)?),
            b"ENTRY" => Command::Entry(self.name_in_parentheses(Mode::Statement, "a symbol")?),
            b"INPUT" => Command::Input(self.input_files()?),
            b"GROUP" => Command::Group(self.input_files()?),
            b"OUTPUT" => Command::Output(self.name_in_parentheses(Mode::FileList, "a file name")?),
            b"OUTPUT_FORMAT" => self.output_format()?,
            b"OUTPUT_ARCH" => Command::OutputArch(self.name_in_parentheses(Mode::FileList, "a machine")?),
            b"TARGET" => Command::Target(self.name_in_parentheses(Mode::FileList, "a format")?),
            b"SEARCH_DIR" => Command::SearchDir(self.name_in_parentheses(Mode::FileList, "a directory")?),
            b"STARTUP" => Command::Startup(self.name_in_parentheses(Mode::FileList, "a file name")?),
            b"EXTERN" => Command::Extern(self.name_list("a symbol")?),
            b"PHDRS" => Command::Phdrs(self.phdrs()?),
            b"MEMORY" => Command::Memory(self.memory()?),
            b"REGION_ALIAS" => self.region_alias()?,
            b"VERSION" => Command::Version(self.version()?),
            b"NOCROSSREFS" => Command::NoCrossRefs(self.name_list("an output section")?),
            b"NOCROSSREFS_TO" => self.no_cross_refs_to()?,
            b"FORCE_COMMON_ALLOCATION" => Command::ForceCommonAllocation,
            b"INHIBIT_COMMON_ALLOCATION" => Command::InhibitCommonAllocation,
            b"FORCE_GROUP_ALLOCATION" => Command::ForceGroupAllocation,
            b"LD_FEATURE" => Command::LdFeature(self.name_in_parentheses(Mode::Statement, "a feature")?),
            b"FLOAT" | b"NOFLOAT" => Command::Ignored(token.span),
            b"MAP" | b"HLL" | b"SYSLIB" => {
                self.ignored_list()?;
                Command::Ignored(token.span)
            }
            word => {
                let message = format!("unknown command `{}`", String::from_utf8_lossy(word));
                let help = "a symbol is defined by `symbol = value;`".to_owned();
                return Err(self.error_with_help(token.span, message, help));
            }
        };
        commands.push(command);
        Ok(())
    }

    /// Whether a name and an assignment operator come next.
    pub(super) fn assignment_follows(&mut self) -> bool {
        let mark = self.mark();
        let target = self.next(Mode::Statement);
        let operator = self.next(Mode::Expression);
        self.reset(mark);
        target.is_name() && is_assignment_operator(operator)
    }

    /// Reads `symbol op value` and what ends it.
    pub(super) fn assignment(&mut self) -> Result<Assignment, Reported> {
        let assignment = self.bare_assignment(AssignmentKind::Plain)?;
        self.end_of_statement()?;
        Ok(assignment)
    }

    fn bare_assignment(&mut self, kind: AssignmentKind) -> Result<Assignment, Reported> {
        let target = self.symbol_with_equals_signs()?;
        let token = self.peek(Mode::Expression);
        let operator = match token.kind {
            TokenKind::Mark(text) => assignment_operator(text),
            _ => None,
        };
        let Some(operator) = operator else {
            return Err(self.unexpected(token, "`=`"));
        };
        self.next(Mode::Expression);
        let value = self.expression()?;
        let span = target.span.to(value.span);
        let value = match operator {
            Some(op) => combined(&target, op, value),
            None => value,
        };
        Ok(Assignment { span, kind, target, value })
    }

    /// Reads the symbol of an assignment. As in GNU ld, lld and gold, `a=b = 1;` gives a value to `a=b`: in a
    /// name without quotes, equals signs without blanks belong to the name if another operator follows behind
    /// a blank. A vendor's scripts have such a name.
    fn symbol_with_equals_signs(&mut self) -> Result<Name, Reported> {
        let first = self.peek(Mode::Statement);
        let shortest = self.name(Mode::Statement, "a symbol")?;
        if first.kind != TokenKind::Word {
            return Ok(shortest);
        }
        let behind = self.mark();
        let (mut span, mut end) = (first.span, behind);
        loop {
            let (equals, rest) = (self.next(Mode::Expression), self.next(Mode::Statement));
            let joined = equals.is("=") && rest.kind == TokenKind::Word;
            if !joined || !is_right_behind(equals, span) || !is_right_behind(rest, equals.span) {
                break;
            }
            (span, end) = (span.to(rest.span), self.mark());
        }
        self.reset(end);
        let operator = self.peek(Mode::Expression);
        if span == first.span || is_right_behind(operator, span) || !is_assignment_operator(operator) {
            self.reset(behind);
            return Ok(shortest);
        }
        Ok(self.name_of(Token { kind: TokenKind::Word, span }))
    }

    /// Reads `PROVIDE(symbol = value)` or the like, whose keyword was read already.
    pub(super) fn wrapped_assignment(&mut self, word: Token) -> Result<Assignment, Reported> {
        let kind = match self.bytes(word) {
            b"PROVIDE" => AssignmentKind::Provide,
            b"PROVIDE_HIDDEN" => AssignmentKind::ProvideHidden,
            _ => AssignmentKind::Hidden,
        };
        self.expect(Mode::Statement, "(")?;
        let assignment = self.bare_assignment(kind)?;
        let close = self.expect(Mode::Expression, ")")?;
        if assignment.is_to_dot() {
            let message = "the location counter cannot be provided or hidden";
            return Err(self.error(assignment.target.span, message));
        }
        Ok(Assignment { span: word.span.to(close.span), ..assignment })
    }

    /// Reads `;` or `,` behind an assignment. Before a closing brace or the end of the text, neither is
    /// needed.
    fn end_of_statement(&mut self) -> Result<(), Reported> {
        let token = self.peek(Mode::Expression);
        match token.kind {
            TokenKind::Mark(";" | ",") => {
                self.next(Mode::Expression);
                Ok(())
            }
            TokenKind::Mark("}") | TokenKind::End => Ok(()),
            _ => Err(self.unexpected(token, "`;`")),
        }
    }

    /// Reads `ASSERT(condition, "message")`, whose keyword was read already.
    pub(super) fn assert(&mut self, word: Token) -> Result<Assert, Reported> {
        self.expect(Mode::Expression, "(")?;
        let condition = self.expression()?;
        let message = self.assert_message()?;
        let close = self.expect(Mode::Expression, ")")?;
        Ok(Assert { span: word.span.to(close.span), condition, message })
    }

    fn insert(&mut self, word: Token) -> Result<Insert, Reported> {
        let side = self.next(Mode::Statement);
        let after = match self.word(side) {
            b"AFTER" => true,
            b"BEFORE" => false,
            _ => return Err(self.unexpected(side, "`AFTER` or `BEFORE`")),
        };
        let section = self.name(Mode::Statement, "an output section")?;
        Ok(Insert { span: word.span.to(section.span), after, section })
    }

    fn input_files(&mut self) -> Result<Vec<InputFile>, Reported> {
        let mut files = Vec::new();
        self.input_file_list(&mut files, false)?;
        Ok(files)
    }

    fn input_file_list(&mut self, files: &mut Vec<InputFile>, as_needed: bool) -> Result<(), Reported> {
        self.expect(Mode::FileList, "(")?;
        loop {
            let token = self.next(Mode::FileList);
            match token.kind {
                TokenKind::Mark(")") => return Ok(()),
                TokenKind::Mark(",") => {}
                TokenKind::Word if self.bytes(token) == b"AS_NEEDED" && !as_needed => {
                    self.input_file_list(files, true)?;
                }
                TokenKind::Word | TokenKind::Quoted => files.push(self.input_file(token, as_needed)),
                _ => return Err(self.unexpected(token, "a file name or `)`")),
            }
        }
    }

    fn input_file(&self, token: Token, as_needed: bool) -> InputFile {
        let name = self.name_of(token);
        match self.word(token) {
            [b'-', b'l', library @ ..] if !library.is_empty() => {
                let name = Name { bytes: library.into(), span: token.span };
                InputFile { name, library: true, as_needed }
            }
            _ => InputFile { name, library: false, as_needed },
        }
    }

    fn output_format(&mut self) -> Result<Command, Reported> {
        self.expect(Mode::Statement, "(")?;
        let default = self.name(Mode::FileList, "a format")?;
        let mut by_byte_order = None;
        if self.accept(Mode::FileList, ",") {
            let big = self.name(Mode::FileList, "a format")?;
            self.expect(Mode::FileList, ",")?;
            by_byte_order = Some((big, self.name(Mode::FileList, "a format")?));
        }
        self.expect(Mode::Statement, ")")?;
        Ok(Command::OutputFormat { default, by_byte_order })
    }

    /// Reads `(name name, name)`.
    fn name_list(&mut self, what: &str) -> Result<Vec<Name>, Reported> {
        self.expect(Mode::Statement, "(")?;
        let mut names = Vec::new();
        loop {
            if self.accept(Mode::Statement, ",") {
                continue;
            }
            if self.accept(Mode::Statement, ")") {
                return Ok(names);
            }
            names.push(self.name(Mode::Statement, what)?);
        }
    }

    fn no_cross_refs_to(&mut self) -> Result<Command, Reported> {
        let mut names = self.name_list("an output section")?.into_iter();
        match names.next() {
            Some(to) => Ok(Command::NoCrossRefsTo { to, from: names.collect() }),
            None => {
                let token = self.peek(Mode::Statement);
                Err(self.error(token.span, "NOCROSSREFS_TO names no section"))
            }
        }
    }

    fn ignored_list(&mut self) -> Result<(), Reported> {
        self.expect(Mode::FileList, "(")?;
        loop {
            let token = self.next(Mode::FileList);
            match token.kind {
                TokenKind::Mark(")") => return Ok(()),
                TokenKind::Mark(",") | TokenKind::Word | TokenKind::Quoted => {}
                _ => return Err(self.unexpected(token, "a name or `)`")),
            }
        }
    }

    fn region_alias(&mut self) -> Result<Command, Reported> {
        self.expect(Mode::Statement, "(")?;
        let alias = self.name(Mode::Statement, "a name")?;
        self.expect(Mode::Statement, ",")?;
        let region = self.name(Mode::Statement, "a memory region")?;
        self.expect(Mode::Statement, ")")?;
        Ok(Command::RegionAlias { alias, region })
    }

    fn version(&mut self) -> Result<Span, Reported> {
        let opening = self.expect(Mode::Statement, "{")?;
        self.skip_block(opening)
    }

    fn phdrs(&mut self) -> Result<Vec<Phdr>, Reported> {
        self.expect(Mode::Statement, "{")?;
        let mut phdrs = Vec::new();
        while !self.accept(Mode::Statement, "}") {
            phdrs.push(self.phdr()?);
        }
        Ok(phdrs)
    }

    fn phdr(&mut self) -> Result<Phdr, Reported> {
        let name = self.name(Mode::Statement, "the name of a program header or `}`")?;
        let kind = self.segment_type()?;
        let mut phdr = Phdr {
            span: name.span.to(kind.span),
            name,
            kind,
            file_header: false,
            program_headers: false,
            load_address: None,
            flags: None,
        };
        loop {
            let token = self.next(Mode::Expression);
            match (token.kind, self.word(token)) {
                (TokenKind::Mark(";"), _) => return Ok(phdr),
                (_, b"FILEHDR") => phdr.file_header = true,
                (_, b"PHDRS") => phdr.program_headers = true,
                (_, b"AT") => phdr.load_address = Some(self.expression_in_parentheses()?),
                (_, b"FLAGS") => phdr.flags = Some(self.expression_in_parentheses()?),
                _ => return Err(self.unexpected(token, "`FILEHDR`, `PHDRS`, `AT`, `FLAGS` or `;`")),
            }
        }
    }

    fn segment_type(&mut self) -> Result<Expr, Reported> {
        let kind = self.expression()?;
        let ExprKind::Symbol(name) = &kind.kind else {
            return Ok(kind);
        };
        let known = SEGMENT_TYPES.iter().find(|(text, _)| text.as_bytes() == &*name.bytes);
        match known {
            Some((_, value)) => Ok(Expr::number(kind.span, *value)),
            None => {
                let message = format!("unknown segment type `{}`", name.text());
                let help = "segment types are PT_ names or numbers, such as PT_LOAD or 0x6474e550".to_owned();
                Err(self.error_with_help(kind.span, message, help))
            }
        }
    }

    fn memory(&mut self) -> Result<Vec<MemoryRegion>, Reported> {
        self.expect(Mode::Statement, "{")?;
        let mut regions = Vec::new();
        read_regions(self, &mut regions);
        self.expect(Mode::Statement, "}")?;
        Ok(regions)
    }

    fn memory_region(&mut self) -> Result<MemoryRegion, Reported> {
        let name = self.name(Mode::Statement, "a memory region")?;
        let mut attributes = RegionAttributes::default();
        if self.accept(Mode::Statement, "(") {
            attributes = self.region_attributes()?;
        }
        self.expect(Mode::Statement, ":")?;
        let origin = self.region_value(&[b"ORIGIN", b"org", b"o"])?;
        self.accept(Mode::Expression, ",");
        let length = self.region_value(&[b"LENGTH", b"len", b"l"])?;
        Ok(MemoryRegion { span: name.span.to(length.span), name, attributes, origin, length })
    }

    fn region_value(&mut self, words: &[&[u8]; 3]) -> Result<Expr, Reported> {
        let token = self.next(Mode::Expression);
        if !words.contains(&self.word(token)) {
            let wanted = format!("`{}`", String::from_utf8_lossy(words[0]));
            return Err(self.unexpected(token, &wanted));
        }
        self.expect(Mode::Expression, "=")?;
        self.expression()
    }

    fn region_attributes(&mut self) -> Result<RegionAttributes, Reported> {
        let mut attributes = RegionAttributes::default();
        let mut inverted = false;
        loop {
            let token = self.next(Mode::Pattern);
            if token.is(")") {
                return Ok(attributes);
            }
            if token.kind != TokenKind::Word {
                return Err(self.unexpected(token, "letters among `rwxail!`, or `)`"));
            }
            for letter in self.bytes(token) {
                let letters = if inverted { &mut attributes.without } else { &mut attributes.with };
                match letter {
                    b'!' => inverted = !inverted,
                    letter if set_letter(letters, *letter) => {}
                    letter => {
                        let message = format!("unknown region attribute `{}`", letter.escape_ascii());
                        let help = "the attributes are r, w, x, a, i, l, and ! to invert".to_owned();
                        return Err(self.error_with_help(token.span, message, help));
                    }
                }
            }
        }
    }
}

fn set_letter(letters: &mut RegionLetters, letter: u8) -> bool {
    match letter.to_ascii_lowercase() {
        b'r' => letters.read_only = true,
        b'w' => letters.writable = true,
        b'x' => letters.executable = true,
        b'a' => letters.allocated = true,
        b'i' | b'l' => letters.loaded = true,
        _ => return false,
    }
    true
}

/// Reads commands up to the end of the text, or to a token that cannot begin a command.
fn read_commands(parser: &mut Parser<'_, '_>, commands: &mut Vec<Command>) {
    while !parser.gave_up() {
        let token = parser.peek(Mode::Statement);
        if token.kind == TokenKind::End {
            return;
        }
        let start = parser.mark();
        if !parser.accept(Mode::Statement, ";") && parser.command(commands).is_err() {
            parser.recover(start);
        }
    }
}

/// Reads memory regions up to the closing brace or the end of the text.
fn read_regions(parser: &mut Parser<'_, '_>, regions: &mut Vec<MemoryRegion>) {
    while !parser.gave_up() {
        let token = parser.peek(Mode::Statement);
        if token.kind == TokenKind::End || token.is("}") {
            return;
        }
        let start = parser.mark();
        if parser.accept(Mode::Statement, ",") || parser.accept(Mode::Statement, ";") {
            continue;
        }
        let read = if parser.word(token) == b"INCLUDE" {
            parser.next(Mode::Statement);
            parser.include(regions, read_regions)
        } else {
            parser.memory_region().map(|region| regions.push(region))
        };
        if read.is_err() {
            parser.recover(start);
            return;
        }
    }
}

fn is_assignment_operator(token: Token) -> bool {
    matches!(token.kind, TokenKind::Mark(text) if assignment_operator(text).is_some())
}

/// Whether a token begins exactly where another one ends.
fn is_right_behind(token: Token, before: Span) -> bool {
    token.span.start == before.start + before.length
}

/// The operation that an assignment operator applies to the old value: `Some(None)` for `=`.
fn assignment_operator(mark: &str) -> Option<Option<BinaryOp>> {
    if mark == "=" {
        return Some(None);
    }
    if matches!(mark, "==" | "<=" | ">=" | "!=") {
        return None;
    }
    let (op, _) = BinaryOp::from_text(mark.strip_suffix('=')?)?;
    Some(Some(op))
}

/// The expression `target op value`.
fn combined(target: &Name, op: BinaryOp, value: Expr) -> Expr {
    let kind = if *target.bytes == *b"." { ExprKind::Dot } else { ExprKind::Symbol(target.clone()) };
    let old = Expr { span: target.span, kind };
    Expr { span: value.span, kind: ExprKind::Binary(op, Box::new(old), Box::new(value)) }
}
