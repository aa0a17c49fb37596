//! Assembly texts, and what their objects must say.

use super::super::case::{Case, Fact, Kind, Source};
use super::super::linked::{Linked, look, rules_at};
use super::super::objects::{each_function, target};
use crate::machine::Machine;
use sframe_format::write::Function;
use sframe_format::{Abi, Row, Rules, Version};
use std::fmt::Write;

/// A machine in one byte order.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The machine.
    pub machine: Machine,
    /// The ABI, which knows the byte order.
    pub abi: Abi,
}

/// A function: directives before each four bytes of code.
pub struct Text {
    name: &'static str,
    /// Words after `.cfi_startproc`.
    start: &'static str,
    /// Directives, separated by `;`, and the bytes of code behind them.
    steps: Vec<(String, u32)>,
}

impl Text {
    /// A function without code.
    pub fn of(name: &'static str) -> Self {
        Text { name, start: "", steps: Vec::new() }
    }

    /// The same with a word after `.cfi_startproc`.
    pub fn starting(mut self, start: &'static str) -> Self {
        self.start = start;
        self
    }

    /// The same with four more bytes of code behind directives.
    pub fn step(self, directives: impl Into<String>) -> Self {
        self.step_of(directives, 4)
    }

    /// The same with so many more bytes of code behind directives.
    pub fn step_of(mut self, directives: impl Into<String>, size: u32) -> Self {
        self.steps.push((directives.into(), size));
        self
    }

    /// The text in a section.
    pub fn write(&self, place: Place, section: &str) -> String {
        let at = place.machine.dialect().at;
        let name = self.name;
        let mut text = format!("\t{section}\n\t.globl {name}\n\t.type {name}, {at}function\n{name}:\n");
        let _ = writeln!(text, "\t.cfi_startproc {}", self.start);
        for (directives, size) in &self.steps {
            for directive in directives.split(';').map(str::trim).filter(|directive| !directive.is_empty()) {
                let _ = writeln!(text, "\t{directive}");
            }
            text.push_str(&code(place, *size));
        }
        let _ = writeln!(text, "\t.cfi_endproc\n\t.size {name}, . - {name}");
        text
    }
}

/// Instructions that do nothing. A long stretch is a gap, because it only has to be long.
fn code(place: Place, size: u32) -> String {
    if size > 64 {
        return format!("\t.zero {size}\n");
    }
    let (line, each) = match place.machine {
        Machine::X86_64 => ("\tnop\n", 1),
        Machine::Aarch64 => ("\tnop\n", 4),
        Machine::S390x => ("\tbcr 0, %r0\n", 2),
    };
    line.repeat((size / each) as usize)
}

/// A case with one text.
pub fn assemble(place: Place, family: &str, about: &str, body: &str) -> Case {
    let text = format!(
        "\t.cfi_sections .eh_frame, .sframe\n{body}\t.section .note.GNU-stack,\"\",{}progbits\n",
        place.machine.dialect().at
    );
    let case = Case::new(Kind::Assembler, place.machine, family, about).file("a.s", text);
    if place.abi == Abi::AArch64Big {
        let mut case = case.needs("-EB").step("-EB a.s", "a.o");
        case.variant = Some("be");
        return case;
    }
    case.step("a.s", "a.o")
}

/// A function with rows; its size follows from its text.
pub fn rows(rows: &[(u32, Rules)]) -> Function {
    let rows = rows.iter().map(|&(start, rules)| Row { start, rules }).collect();
    Function { rows, ..Function::default() }
}

/// What an assembler may do with a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// Describe it.
    Describe,
    /// Describe it, or leave it out as a whole: not every version and machine can express it.
    DescribeOrOmit,
    /// Describe it from this version on; in older ones, leave it out.
    DescribeFrom(Version),
    /// Leave it out: no version can express it.
    Omit,
}

/// The object describes a function by these rules at every address, or not at all; and it describes what it
/// must.
pub fn describes(
    place: Place,
    name: &'static str,
    function: Function,
    must: Must,
    source: Source,
) -> Vec<Fact> {
    let says = "the rows say at every address what the directives say, or there are none";
    let truth = look("rows-are-true", says, source, move |linked, _| match found(linked, name)? {
        None => Ok(()),
        Some(_) if must == Must::Omit => Err(format!("{name} is described, though no rows can express it")),
        Some(read) => same(place.abi, name, &read, &function),
    });
    let says = "a function that the version can express is described";
    let there = look("is-described", says, EXPRESSED, move |linked, _| {
        let wanted = match must {
            Must::Describe => true,
            Must::DescribeFrom(from) => newest(linked).is_some_and(|version| version >= from),
            Must::DescribeOrOmit | Must::Omit => false,
        };
        if wanted && found(linked, name)?.is_none() {
            Err(format!("{name} is not described"))
        } else {
            Ok(())
        }
    });
    vec![truth, there]
}

/// The specification says how frames are expressed, and leaves it to producers which they express.
const EXPRESSED: Source = Source::Proposal("an assembler describes what its version can express");

fn newest(linked: &Linked<'_>) -> Option<Version> {
    linked.blobs().iter().map(|blob| blob.header().version).max()
}

/// The function of a name, as the object describes it.
fn found(linked: &Linked<'_>, name: &str) -> Result<Option<Function>, String> {
    let symbol = linked.view.symbols.iter().find(|symbol| symbol.name == name && symbol.is_defined());
    let symbol = symbol.ok_or_else(|| format!("{name} is not in the object"))?;
    let mut found = None;
    each_function(linked, |_, blob, fde, here| {
        let at = here.first().and_then(|record| target(&linked.view, record));
        if at == Some((symbol.section, symbol.value)) {
            found = Some(Function::read(blob, fde).map_err(|error| format!("{name}: {error}"))?);
        }
        Ok(())
    })?;
    Ok(found)
}

fn same(abi: Abi, name: &str, read: &Function, wanted: &Function) -> Result<(), String> {
    if read.pauth_key != wanted.pauth_key {
        return Err(format!("{name} has another key"));
    }
    for offset in 0..read.size {
        let (found, wanted) = (rules_at(read, offset), rules_at(wanted, offset));
        if found != wanted {
            let text = |rules: Option<Rules>| rules.map_or("no rules".to_owned(), |rules| rules.to_string());
            return Err(format!("{name}+{offset} ({abi}): {}, not {}", text(found), text(wanted)));
        }
    }
    Ok(())
}
