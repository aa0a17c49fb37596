//! Parses `SECTIONS`: output sections and overlays with the attributes around their bodies.

use super::cursor::{Parser, Reported};
use crate::ast::{
    Assignment, AssignmentKind, BodyItem, Class, Constraint, Name, OutputSection, OutputSectionType, Overlay,
    Placement, SectionsItem,
};
use crate::expr::{Expr, ExprKind};
use crate::lex::{Mode, Token, TokenKind};

/// The names that `TYPE =` knows for `sh_type`.
const SECTION_TYPES: &[(&str, u64)] = &[
    ("SHT_NULL", 0),
    ("SHT_PROGBITS", 1),
    ("SHT_STRTAB", 3),
    ("SHT_NOTE", 7),
    ("SHT_NOBITS", 8),
    ("SHT_INIT_ARRAY", 14),
    ("SHT_FINI_ARRAY", 15),
    ("SHT_PREINIT_ARRAY", 16),
];

/// `GROUP`s may be nested this deep.
const MAX_GROUP_DEPTH: u32 = 16;

impl Parser<'_, '_> {
    /// Reads `{ … }` of `SECTIONS`.
    pub(super) fn sections(&mut self) -> Result<Vec<SectionsItem>, Reported> {
        self.expect(Mode::Statement, "{")?;
        let mut items = Vec::new();
        read_items(self, &mut items);
        self.expect(Mode::Statement, "}")?;
        Ok(items)
    }

    /// Reads `NAME : { body }`, as often as it comes, up to the end of the text. These only order the
    /// contents of sections; anything else is an error.
    pub(super) fn section_order(&mut self) -> Vec<OutputSection> {
        let mut items = Vec::new();
        read_items(self, &mut items);
        let token = self.peek(Mode::Statement);
        if token.kind != TokenKind::End && !self.gave_up() {
            self.unexpected(token, "an output section");
        }
        let mut sections = Vec::new();
        for item in items {
            match item {
                SectionsItem::Output(section) if section.is_only_body() => sections.push(*section),
                item => {
                    let message = "a section ordering file can only say `OUTPUT : { input sections }`";
                    self.error(item.span(), message);
                }
            }
        }
        sections
    }

    /// The braces of `OVERWRITE_SECTIONS`, in which only output sections stand.
    pub(super) fn overwritten(&mut self) -> Result<Vec<OutputSection>, Reported> {
        let mut sections = Vec::new();
        for item in self.sections()? {
            match item {
                SectionsItem::Output(section) if !section.is_discard() => sections.push(*section),
                item => {
                    self.error(item.span(), "OVERWRITE_SECTIONS can only describe output sections");
                }
            }
        }
        Ok(sections)
    }

    fn item(&mut self, items: &mut Vec<SectionsItem>) -> Result<(), Reported> {
        if self.assignment_follows() {
            items.push(SectionsItem::Assignment(self.assignment()?));
            return Ok(());
        }
        let token = self.peek(Mode::Statement);
        let item = match self.word(token) {
            b"INCLUDE" => {
                self.next(Mode::Statement);
                return self.include(items, read_items);
            }
            b"GROUP" => {
                self.next(Mode::Statement);
                return self.group(token, items);
            }
            b"PROVIDE" | b"PROVIDE_HIDDEN" | b"HIDDEN" => {
                self.next(Mode::Statement);
                SectionsItem::Assignment(self.wrapped_assignment(token)?)
            }
            b"ASSERT" => {
                self.next(Mode::Statement);
                SectionsItem::Assert(self.assert(token)?)
            }
            b"ENTRY" => {
                self.next(Mode::Statement);
                SectionsItem::Entry(self.name_in_parentheses(Mode::Statement, "a symbol")?)
            }
            b"OVERLAY" => {
                self.next(Mode::Statement);
                SectionsItem::Overlay(Box::new(self.overlay(token)?))
            }
            b"CLASS" => match self.class(token)? {
                Some(class) => SectionsItem::Class(class),
                None => SectionsItem::Output(Box::new(self.output_section()?)),
            },
            _ => SectionsItem::Output(Box::new(self.output_section()?)),
        };
        items.push(item);
        Ok(())
    }

    /// Reads `CLASS(name) { … }`; `None` if an output section of that name comes instead.
    fn class(&mut self, word: Token) -> Result<Option<Class>, Reported> {
        let mark = self.mark();
        self.next(Mode::Statement);
        if !self.peek(Mode::Statement).is("(") {
            self.reset(mark);
            return Ok(None);
        }
        let name = self.name_in_parentheses(Mode::Statement, "the name of a section class")?;
        self.expect(Mode::Statement, "{")?;
        let body = self.body();
        let close = self.expect(Mode::Pattern, "}")?;
        let span = word.span.to(close.span);
        let mut statements = Vec::new();
        for item in body {
            match item {
                BodyItem::Input(statement) => statements.push(statement),
                BodyItem::Class(inner) => {
                    let message =
                        format!("section class `{}` refers to class `{}`", name.text(), inner.text());
                    self.error(inner.span, message);
                }
                _ => {
                    self.error(span, format!("section class `{}` can only hold input sections", name.text()));
                }
            }
        }
        Ok(Some(Class { span, name, statements }))
    }

    /// Reads `GROUP address : { … }`, an old way to write `. = address;` before the sections.
    fn group(&mut self, word: Token, items: &mut Vec<SectionsItem>) -> Result<(), Reported> {
        if let Some(value) = self.address()? {
            let target = Name { bytes: Box::from(*b"."), span: word.span };
            let span = word.span.to(value.span);
            let kind = AssignmentKind::Plain;
            items.push(SectionsItem::Assignment(Assignment { span, kind, target, value }));
        }
        self.expect(Mode::Expression, ":")?;
        self.group_depth += 1;
        if self.group_depth > MAX_GROUP_DEPTH {
            let message = format!("groups are nested more than {MAX_GROUP_DEPTH} deep");
            return Err(self.error(word.span, message));
        }
        items.append(&mut self.sections()?);
        self.group_depth -= 1;
        Ok(())
    }

    fn output_section(&mut self) -> Result<OutputSection, Reported> {
        let name = self.name(Mode::Statement, "an output section, an assignment or `}`")?;
        let mut section = OutputSection::new(name);
        section.address = self.address()?;
        section.kind = self.section_type()?;
        self.expect(Mode::Expression, ":")?;
        self.attributes(&mut section)?;
        self.expect(Mode::Statement, "{")?;
        section.body = self.body();
        let close = self.expect(Mode::Pattern, "}")?;
        section.span = section.span.to(close.span);
        section.placement = self.placement()?;
        Ok(section)
    }

    /// Reads the address before the type and the colon, also as `BIND(address) BLOCK(bytes)`.
    fn address(&mut self) -> Result<Option<Expr>, Reported> {
        let token = self.peek(Mode::Expression);
        if token.is(":") || self.type_follows() {
            return Ok(None);
        }
        if self.word(token) != b"BIND" {
            return self.expression().map(Some);
        }
        self.next(Mode::Expression);
        let address = self.expression_in_parentheses()?;
        let token = self.peek(Mode::Expression);
        if self.word(token) == b"BLOCK" {
            self.next(Mode::Expression);
            self.expression_in_parentheses()?;
        }
        Ok(Some(address))
    }

    /// Whether a parenthesis comes next that holds a section type and not an address.
    fn type_follows(&mut self) -> bool {
        let mark = self.mark();
        let opens = self.next(Mode::Expression).is("(");
        let token = self.next(Mode::Expression);
        self.reset(mark);
        const WORDS: [&[u8]; 7] = [b"NOLOAD", b"DSECT", b"COPY", b"INFO", b"OVERLAY", b"READONLY", b"TYPE"];
        opens && (token.is(")") || WORDS.contains(&self.word(token)))
    }

    /// Reads `(type)`, if there is one.
    fn section_type(&mut self) -> Result<Option<OutputSectionType>, Reported> {
        if !self.type_follows() {
            return Ok(None);
        }
        self.expect(Mode::Expression, "(")?;
        if self.accept(Mode::Expression, ")") {
            return Ok(None);
        }
        let token = self.next(Mode::Expression);
        let kind = match self.word(token) {
            b"NOLOAD" => OutputSectionType::NoLoad,
            b"DSECT" | b"COPY" | b"INFO" | b"OVERLAY" => OutputSectionType::NoAlloc,
            b"TYPE" => OutputSectionType::Type { value: self.type_value()?, read_only: false },
            _ if self.accept(Mode::Expression, "(") => {
                let token = self.next(Mode::Expression);
                if self.word(token) != b"TYPE" {
                    return Err(self.unexpected(token, "`TYPE`"));
                }
                let value = self.type_value()?;
                self.expect(Mode::Expression, ")")?;
                OutputSectionType::Type { value, read_only: true }
            }
            _ => OutputSectionType::ReadOnly,
        };
        self.expect(Mode::Expression, ")")?;
        Ok(Some(kind))
    }

    /// Reads `= type`.
    fn type_value(&mut self) -> Result<Expr, Reported> {
        self.expect(Mode::Expression, "=")?;
        let value = self.expression()?;
        let ExprKind::Symbol(name) = &value.kind else {
            return Ok(value);
        };
        match SECTION_TYPES.iter().find(|(text, _)| text.as_bytes() == &*name.bytes) {
            Some((_, number)) => Ok(Expr::number(value.span, *number)),
            None => {
                let message = format!("unknown section type `{}`", name.text());
                let help = "section types are numbers or SHT_ names such as SHT_PROGBITS".to_owned();
                Err(self.error_with_help(value.span, message, help))
            }
        }
    }

    /// Reads `AT(…) ALIGN(…) ALIGN_WITH_INPUT SUBALIGN(…)` and the constraint. GNU ld takes them only in this
    /// order; this linker takes any order.
    fn attributes(&mut self, section: &mut OutputSection) -> Result<(), Reported> {
        loop {
            let token = self.peek(Mode::Expression);
            if token.is("{") {
                break;
            }
            self.next(Mode::Expression);
            match self.word(token) {
                b"AT" => self.attribute(token, &mut section.load_address)?,
                b"ALIGN" => self.attribute(token, &mut section.align)?,
                b"SUBALIGN" => self.attribute(token, &mut section.subalign)?,
                b"ALIGN_WITH_INPUT" => section.align_with_input = true,
                b"ONLY_IF_RO" => section.constraint = Some(Constraint::OnlyIfReadOnly),
                b"ONLY_IF_RW" => section.constraint = Some(Constraint::OnlyIfReadWrite),
                b"SPECIAL" => section.constraint = Some(Constraint::Special),
                _ => return Err(self.unexpected(token, "`{` or an attribute of the section such as `AT`")),
            }
        }
        if section.align_with_input
            && let Some(align) = &section.align
        {
            let message = "ALIGN_WITH_INPUT and ALIGN cannot be combined";
            return Err(self.error(align.span, message));
        }
        Ok(())
    }

    fn attribute(&mut self, word: Token, value: &mut Option<Expr>) -> Result<(), Reported> {
        if value.is_some() {
            let message = format!("`{}` is given twice", String::from_utf8_lossy(self.bytes(word)));
            return Err(self.error(word.span, message));
        }
        *value = Some(self.expression_in_parentheses()?);
        Ok(())
    }

    /// Reads `>region AT>region :phdr =fill ,` behind a closing brace.
    fn placement(&mut self) -> Result<Placement, Reported> {
        let mut placement = Placement::default();
        loop {
            let token = self.peek(Mode::Expression);
            match (token.kind, self.word(token)) {
                (TokenKind::Mark(">"), _) => {
                    self.next(Mode::Expression);
                    placement.region = Some(self.name(Mode::Statement, "a memory region")?);
                }
                (_, b"AT") => {
                    self.next(Mode::Expression);
                    self.expect(Mode::Expression, ">")?;
                    placement.load_region = Some(self.name(Mode::Statement, "a memory region")?);
                }
                (TokenKind::Mark(":"), _) => {
                    self.next(Mode::Expression);
                    placement.phdrs.push(self.name(Mode::Statement, "a program header")?);
                }
                (TokenKind::Mark("="), _) => {
                    self.next(Mode::Expression);
                    placement.fill = Some(self.expression()?);
                }
                (TokenKind::Mark(","), _) => {
                    self.next(Mode::Expression);
                    return Ok(placement);
                }
                _ => return Ok(placement),
            }
        }
    }

    fn overlay(&mut self, word: Token) -> Result<Overlay, Reported> {
        let mut overlay = Overlay {
            span: word.span,
            address: self.address()?,
            no_cross_refs: false,
            load_address: None,
            subalign: None,
            sections: Vec::new(),
            placement: Placement::default(),
        };
        self.expect(Mode::Expression, ":")?;
        while !self.accept(Mode::Expression, "{") {
            let token = self.next(Mode::Expression);
            match self.word(token) {
                b"NOCROSSREFS" => overlay.no_cross_refs = true,
                b"AT" => self.attribute(token, &mut overlay.load_address)?,
                b"SUBALIGN" => self.attribute(token, &mut overlay.subalign)?,
                _ => return Err(self.unexpected(token, "`{`, `NOCROSSREFS`, `AT` or `SUBALIGN`")),
            }
        }
        while !self.peek(Mode::Statement).is("}") {
            overlay.sections.push(self.overlay_section()?);
        }
        let close = self.expect(Mode::Statement, "}")?;
        overlay.span = overlay.span.to(close.span);
        overlay.placement = self.placement()?;
        Ok(overlay)
    }

    fn overlay_section(&mut self) -> Result<OutputSection, Reported> {
        let mut section = OutputSection::new(self.name(Mode::Statement, "an output section or `}`")?);
        self.expect(Mode::Statement, "{")?;
        section.body = self.body();
        let close = self.expect(Mode::Pattern, "}")?;
        section.span = section.span.to(close.span);
        section.placement = self.placement()?;
        Ok(section)
    }
}

/// Reads items up to the closing brace or the end of the text.
fn read_items(parser: &mut Parser<'_, '_>, items: &mut Vec<SectionsItem>) {
    while !parser.gave_up() {
        let token = parser.peek(Mode::Statement);
        if token.kind == TokenKind::End || token.is("}") {
            return;
        }
        let start = parser.mark();
        if !parser.accept(Mode::Statement, ";") && parser.item(items).is_err() {
            parser.recover(start);
        }
    }
}
