//! Scripts of the MRI linker (`-c`), translated into the tree of a linker script.
//!
//! Each line holds one command. Blanks, commas or `=` separate its words. A line that starts with `*` is a
//! comment, and so is the rest of a line behind `;`. As in GNU ld, sections that no command names are
//! orphans.

use super::ast::{
    Assignment, AssignmentKind, BodyItem, Command, FilePattern, InputFile, InputStatement, Name,
    OutputSection, OutputSectionType, Script, SectionPattern, SectionsItem, Sort,
};
use super::expr::Expr;
use super::parse::{Include, MAX_ERRORS, parse_expression_at, syntax_error};
use super::source::{Sources, Span, Start};
use diagnostics::Diagnostic;
use std::sync::Arc;

/// Inclusions may be nested this deep. Deeper nesting is taken for a cycle.
const MAX_DEPTH: u32 = 20;

/// Reads an MRI script. Messages call it `name`.
///
/// # Errors
/// All errors of the text, in order.
pub fn parse_mri_script(
    sources: &mut Sources,
    name: &str,
    text: &[u8],
    include: &mut Include<'_>,
) -> Result<Script, Vec<Diagnostic>> {
    let mut reader = Reader { sources, include, tree: Tree::default(), found: Vec::new(), depth: 0 };
    match reader.sources.add(name, text) {
        Some(file) => reader.file(name, text, file),
        None => reader.wrong(Span::default(), format!("script `{name}` is larger than 4 GiB")),
    }
    let Reader { tree, found, .. } = reader;
    if found.is_empty() { Ok(tree.into_script()) } else { Err(found) }
}

/// What `ORDER`, `SECT`, `ALIGN` and `ALIGNMOD` say about a section.
struct Section {
    name: Name,
    address: Option<Expr>,
    align: Option<Expr>,
    subalign: Option<Expr>,
}

/// What the commands have said, before the sections are put in order.
#[derive(Default)]
struct Tree {
    commands: Vec<Command>,
    sections: Vec<Section>,
    base: Option<Expr>,
    /// The pairs of output section and input section that `ALIAS` names.
    aliases: Vec<(Name, Name)>,
    /// The sections that `ABSOLUTE` names.
    loaded: Vec<Name>,
}

impl Tree {
    /// The entry of a section. Sections stand in the order of their first mention.
    fn section(&mut self, name: Name) -> &mut Section {
        let known = self.sections.iter().position(|section| section.name.bytes == name.bytes);
        let row = known.unwrap_or_else(|| {
            self.sections.push(Section { name, address: None, align: None, subalign: None });
            self.sections.len() - 1
        });
        &mut self.sections[row]
    }

    fn into_script(mut self) -> Script {
        if self.sections.is_empty() {
            for name in std::mem::take(&mut self.loaded) {
                self.section(name);
            }
        }
        let mut base = self.base.take();
        let mut items = Vec::with_capacity(self.sections.len());
        for section in std::mem::take(&mut self.sections) {
            let mut output = OutputSection::new(section.name.clone());
            output.address = section.address.or(base);
            base = None;
            output.align = section.align;
            output.subalign = section.subalign;
            let is_loaded = |name: &Name| name.bytes == section.name.bytes;
            if !self.loaded.is_empty() && !self.loaded.iter().any(is_loaded) {
                output.kind = Some(OutputSectionType::NoLoad);
            }
            let aliases = self.aliases.iter().filter(|(alias, _)| alias.bytes == section.name.bytes);
            let inputs = aliases.map(|(_, input)| input.clone());
            output.body.extend(std::iter::once(section.name.clone()).chain(inputs).map(input));
            items.push(SectionsItem::Output(Box::new(output)));
        }
        self.commands.push(Command::Sections(items));
        Script { commands: self.commands }
    }
}

/// The input statement `*(name)`.
fn input(name: Name) -> BodyItem {
    let every = Name { bytes: b"*"[..].into(), span: name.span };
    BodyItem::Input(InputStatement {
        span: name.span,
        keep: false,
        flags: None,
        file: FilePattern { glob: every, exclude: Vec::new(), sort: Sort::default() },
        sections: Some(vec![SectionPattern { glob: name, exclude: Vec::new(), sort: Sort::default() }]),
    })
}

struct Reader<'r, 'i> {
    sources: &'r mut Sources,
    include: &'r mut Include<'i>,
    tree: Tree,
    found: Vec<Diagnostic>,
    depth: u32,
}

/// One line.
struct Line<'t> {
    text: &'t [u8],
    file: u32,
    /// Offset of its first byte in the file.
    start: usize,
    /// The number of lines before it.
    number: usize,
}

impl<'t> Line<'t> {
    fn span(&self, part: std::ops::Range<usize>) -> Span {
        Span { file: self.file, start: (self.start + part.start) as u32, length: part.len() as u32 }
    }

    /// The words from `at` on, without separators.
    fn words(&self, at: usize) -> Vec<(Name, std::ops::Range<usize>)> {
        let mut words = Vec::new();
        let mut position = at;
        while let Some(found) = self.text[position..].iter().position(|&byte| !is_separator(byte)) {
            let start = position + found;
            let length = self.text[start..].iter().position(|&byte| is_separator(byte));
            let end = length.map_or(self.text.len(), |length| start + length);
            let name = Name { bytes: self.text[start..end].into(), span: self.span(start..end) };
            words.push((name, start..end));
            position = end;
        }
        words
    }
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b'=')
}

impl Reader<'_, '_> {
    fn file(&mut self, name: &str, text: &[u8], file: u32) {
        let mut start = 0;
        for (number, text) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            if self.found.len() >= MAX_ERRORS {
                return;
            }
            let comment = memchr::memchr(b';', text).unwrap_or(text.len());
            if !text.starts_with(b"*") {
                self.line(name, &Line { text: &text[..comment], file, start, number });
            }
            start += text.len();
        }
    }

    fn wrong(&mut self, span: Span, message: String) {
        self.found.push(syntax_error(self.sources, span, message));
    }

    fn line(&mut self, script: &str, line: &Line<'_>) {
        let words = line.words(0);
        let Some(((command, place), operands)) = words.split_first() else { return };
        let names: Vec<Name> = operands.iter().map(|(name, _)| name.clone()).collect();
        match &command.bytes.to_ascii_uppercase()[..] {
            b"ABSOLUTE" => self.tree.loaded.extend(names),
            b"ALIAS" => self.alias(command, names),
            b"ALIGN" => self.attribute(command, line, operands, |section, value| section.align = Some(value)),
            b"ALIGNMOD" => {
                self.attribute(command, line, operands, |section, value| section.subalign = Some(value));
            }
            b"SECT" => {
                self.attribute(command, line, operands, |section, value| section.address = Some(value));
            }
            b"BASE" => {
                let value = self.value(line, place.end);
                self.tree.base = value.or(self.tree.base.take());
            }
            // These commands mean nothing in an ELF link.
            b"CHIP" | b"END" | b"CASE" => {}
            b"EXTERN" => self.tree.commands.push(Command::Extern(names)),
            b"FORMAT" => self.format(command, &names),
            b"INCLUDE" => self.include(script, command, names),
            b"LIST" => self.tree.commands.push(Command::PrintMap),
            b"LOAD" => {
                let file = |name| InputFile { name, library: false, as_needed: false };
                self.tree.commands.push(Command::Input(names.into_iter().map(file).collect()));
            }
            b"NAME" => self.one(command, names, Command::Output),
            b"ORDER" => {
                for name in names {
                    self.tree.section(name);
                }
            }
            b"PUBLIC" => self.public(command, line, operands),
            b"START" => self.one(command, names, Command::Entry),
            _ => {
                let message = format!("unrecognised keyword in MRI style script '{}'", command.text());
                self.wrong(command.span, message);
            }
        }
    }

    /// Reads a command with one name.
    fn one(&mut self, command: &Name, mut names: Vec<Name>, make: fn(Name) -> Command) {
        match (names.pop(), names.is_empty()) {
            (Some(name), true) => self.tree.commands.push(make(name)),
            _ => self.wrong(command.span, format!("expected one name behind {}", command.text())),
        }
    }

    fn alias(&mut self, command: &Name, names: Vec<Name>) {
        match <[Name; 2]>::try_from(names) {
            Ok([output, input]) => self.tree.aliases.push((output, input)),
            Err(_) => self.wrong(command.span, "expected ALIAS OUTPUT-SECTION, INPUT-SECTION".into()),
        }
    }

    /// Reads a command with a section and a value.
    fn attribute(
        &mut self,
        command: &Name,
        line: &Line<'_>,
        operands: &[(Name, std::ops::Range<usize>)],
        set: impl FnOnce(&mut Section, Expr),
    ) {
        let [(section, place), _, ..] = operands else {
            return self
                .wrong(command.span, format!("expected a section and a value behind {}", command.text()));
        };
        if let Some(value) = self.value(line, place.end) {
            set(self.tree.section(section.clone()), value);
        }
    }

    fn public(&mut self, command: &Name, line: &Line<'_>, operands: &[(Name, std::ops::Range<usize>)]) {
        let [(symbol, place), _, ..] = operands else {
            return self.wrong(command.span, "expected PUBLIC SYMBOL = VALUE".into());
        };
        if let Some(value) = self.value(line, place.end) {
            let kind = AssignmentKind::Plain;
            let assignment =
                Assignment { span: symbol.span.to(value.span), kind, target: symbol.clone(), value };
            self.tree.commands.push(Command::Assignment(assignment));
        }
    }

    /// Reads `FORMAT`. The MRI linker knows the formats `S`, `IEEE` and `COFF`.
    fn format(&mut self, command: &Name, names: &[Name]) {
        let asked = names.first().map_or_else(Default::default, |name| name.text().into_owned());
        let message = format!("cannot write format '{asked}': the outputs are ELF files and binary images");
        let mut found = syntax_error(self.sources, names.first().unwrap_or(command).span, message);
        found = found.help("leave FORMAT out and convert the output with objcopy");
        self.found.push(found);
    }

    fn include(&mut self, script: &str, command: &Name, names: Vec<Name>) {
        if self.depth >= MAX_DEPTH {
            return self.wrong(command.span, "scripts include each other without end".into());
        }
        for name in names {
            match (self.include)(&name.text(), script) {
                Ok((path, text)) => {
                    let text: Arc<[u8]> = text.into();
                    match self.sources.include(&path, Arc::clone(&text)) {
                        Ok(file) => {
                            self.depth += 1;
                            self.file(&path, &text, file);
                            self.depth -= 1;
                        }
                        Err(message) => self.wrong(name.span, message),
                    }
                }
                Err(reason) => self.wrong(name.span, format!("cannot open {}: {reason}", name.text())),
            }
        }
    }

    /// Reads the expression from `at` to the end of the line. Numbers are written as Motorola does (`$10`,
    /// `10H`) or as C does.
    fn value(&mut self, line: &Line<'_>, at: usize) -> Option<Expr> {
        let rest = &line.text[at..];
        let skipped = rest.iter().position(|&byte| !is_separator(byte)).unwrap_or(rest.len());
        let expression = rest[skipped..].trim_ascii_end();
        if expression.is_empty() {
            self.wrong(line.span(at..at), "expected a value".into());
            return None;
        }
        let name = self.sources.name(line.file).to_owned();
        let text = with_c_numbers(expression);
        let start = Start { line: line.number, column: at + skipped };
        let value = parse_expression_at(self.sources, &name, &text, start);
        value.map_err(|found| self.found.extend(found)).ok()
    }
}

/// Rewrites the numbers of an expression as C does: `$10` and `10H` become `0x10`. Binary numbers (`101B`)
/// and octal ones (`17O`) become hexadecimal.
fn with_c_numbers(expression: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(expression.len() + 2);
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
    let mut rest = expression;
    while let Some(&first) = rest.first() {
        let length = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len()).max(1);
        let (word, behind) = rest.split_at(length);
        match number(word) {
            Some(value) if first == b'$' || first.is_ascii_digit() => {
                out.extend_from_slice(format!("{value:#x}").as_bytes());
            }
            _ => out.extend_from_slice(word),
        }
        rest = behind;
    }
    out
}

/// The value of a number in Motorola's spelling. Numbers in C's spelling are left to the expression parser.
fn number(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?;
    if let Some(digits) = text.strip_prefix('$') {
        return u64::from_str_radix(digits, 16).ok();
    }
    if text.starts_with("0x") || text.starts_with("0X") {
        return None;
    }
    let (digits, last) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let radix = match last {
        "H" | "h" | "X" | "x" => 16,
        "O" | "o" => 8,
        "B" | "b" => 2,
        "D" | "d" => 10,
        _ => return None,
    };
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Script, Vec<Diagnostic>> {
        let mut include = |name: &str, _: &str| match name {
            "again.mri" => Ok(("again.mri".to_owned(), b"INCLUDE again.mri\n".to_vec())),
            "twice.mri" => Ok(("twice.mri".to_owned(), b"INCLUDE twice.mri\nINCLUDE twice.mri\n".to_vec())),
            _ => Err("No such file or directory".to_owned()),
        };
        parse_mri_script(&mut Sources::new(), "x.mri", text.as_bytes(), &mut include)
    }

    fn error(text: &str) -> Diagnostic {
        read(text).expect_err(text).remove(0)
    }

    #[test]
    fn numbers_of_both_spellings() {
        let text = |expression: &str| String::from_utf8(with_c_numbers(expression.as_bytes())).unwrap();
        assert_eq!(text("$1f0+20H"), "0x1f0+0x20");
        assert_eq!(text("0x10 - 077 * 12"), "0x10 - 077 * 12");
        assert_eq!(text("101B | 17o | 9d"), "0x5 | 0xf | 0x9");
        assert_eq!(text("start + beech"), "start + beech");
    }

    #[test]
    fn sections_stand_in_the_order_of_their_first_mention() {
        let script = read("ORDER b,a\nSECT c=$10\nSECT a,32\nABSOLUTE a c\nALIAS a,z\n").unwrap();
        let Some(Command::Sections(items)) = script.commands.last() else { panic!("{script:?}") };
        let outputs = items.iter().map(|item| match item {
            SectionsItem::Output(output) => {
                (output.name.text().into_owned(), output.kind.is_some(), output.body.len())
            }
            other => panic!("{other:?}"),
        });
        let expected = [("b", true, 1), ("a", false, 2), ("c", false, 1)];
        assert!(outputs.eq(expected.map(|(name, unloaded, inputs)| (name.to_owned(), unloaded, inputs))));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let found = error("* fine\nWHAT x\n");
        assert_eq!(found.message, "unrecognised keyword in MRI style script 'WHAT'");
        let line = |found: &Diagnostic| match &found.location {
            diagnostics::Location::Script { line, column, .. } => (*line, *column),
            other => panic!("{other:?}"),
        };
        assert_eq!(line(&found), (2, 1));
        assert_eq!(line(&error("CHIP 1\n\nPUBLIC a = 1 +\n")).0, 3);
        assert!(error("SECT .text\n").message.contains("a section and a value"));
        assert!(error("FORMAT S\n").message.contains("'S'"));
        assert!(error("INCLUDE none\n").message.contains("cannot open none"));
        assert!(error("INCLUDE again.mri\n").message.contains("without end"));
        // If each file were included twice at each depth, that would be 2²⁰ times.
        assert_eq!(read("INCLUDE twice.mri\n").unwrap_err().len(), MAX_ERRORS);
        assert!(error("NAME a b\n").message.contains("one name"));
        assert!(error("BASE ; nothing\n").message.contains("a value"));
    }
}
