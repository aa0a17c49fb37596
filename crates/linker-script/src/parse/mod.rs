//! Parses scripts into trees by recursive descent, and expressions by precedence climbing.
//!
//! The parser records an error where it finds it, gives up the statement around it, and goes on behind it, so
//! that one run shows all errors. A text with errors gives no tree.

mod body;
mod commands;
mod cursor;
mod expression;
mod sections;
#[cfg(test)]
mod tests;

use super::ast::{Assignment, AssignmentKind, OutputSection, Script};
use super::expr::Expr;
use super::lex::Mode;
use super::source::{Sources, Start};
use cursor::{Parser, too_large};
use diagnostics::Diagnostic;

pub(super) use cursor::syntax_error;
pub use cursor::{Include, MAX_ERRORS};

/// Reads a linker script. Messages call it `name`.
///
/// # Errors
/// All errors of the text, in order.
pub fn parse_script(
    sources: &mut Sources,
    name: &str,
    text: &[u8],
    include: &mut Include<'_>,
) -> Result<Script, Vec<Diagnostic>> {
    let file = add(sources, name, text)?;
    let text = sources.text(file);
    let mut parser = Parser::new(sources, file, &text, include);
    let commands = parser.script();
    parser.finish(Script { commands })
}

/// Reads a `--section-ordering-file` in GNU ld's form: `OUTPUT : { input statements }`, as often as wanted,
/// without `SECTIONS` around them.
///
/// # Errors
/// All errors of the text, in order.
pub fn parse_section_order(
    sources: &mut Sources,
    name: &str,
    text: &[u8],
) -> Result<Vec<OutputSection>, Vec<Diagnostic>> {
    let file = add(sources, name, text)?;
    let text = sources.text(file);
    let mut no_include = no_include();
    let mut parser = Parser::new(sources, file, &text, &mut no_include);
    let sections = parser.section_order();
    parser.finish(sections)
}

/// Reads a text that is one expression, as in `--section-start` or `-Ttext`.
///
/// # Errors
/// All errors of the text, in order.
pub fn parse_expression(sources: &mut Sources, name: &str, text: &[u8]) -> Result<Expr, Vec<Diagnostic>> {
    parse_expression_at(sources, name, text, Start::default())
}

/// As [`parse_expression`], for an expression that stands somewhere in a file.
///
/// # Errors
/// All errors of the text, in order.
pub fn parse_expression_at(
    sources: &mut Sources,
    name: &str,
    text: &[u8],
    start: Start,
) -> Result<Expr, Vec<Diagnostic>> {
    let file = sources.add_at(name, text, start).ok_or_else(|| vec![too_large(name)])?;
    let text = sources.text(file);
    let mut no_include = no_include();
    let mut parser = Parser::new(sources, file, &text, &mut no_include);
    let value = parser.expression().and_then(|value| parser.expect_end(Mode::Expression).map(|()| value));
    match value {
        Ok(value) => parser.finish(value),
        Err(_) => Err(parser.into_diagnostics()),
    }
}

/// Reads the argument of `--defsym`: `symbol=expression`.
///
/// # Errors
/// All errors of the text, in order.
pub fn parse_defsym(sources: &mut Sources, name: &str, text: &[u8]) -> Result<Assignment, Vec<Diagnostic>> {
    let file = add(sources, name, text)?;
    let text = sources.text(file);
    let mut no_include = no_include();
    let mut parser = Parser::new(sources, file, &text, &mut no_include);
    let assignment = parser.defsym().and_then(|value| parser.expect_end(Mode::Expression).map(|()| value));
    match assignment {
        Ok(assignment) => parser.finish(assignment),
        Err(_) => Err(parser.into_diagnostics()),
    }
}

impl Parser<'_, '_> {
    fn defsym(&mut self) -> Result<Assignment, cursor::Reported> {
        let target = self.name(Mode::Statement, "a symbol")?;
        self.expect(Mode::Expression, "=")?;
        let value = self.expression()?;
        let span = target.span.to(value.span);
        Ok(Assignment { span, kind: AssignmentKind::Plain, target, value })
    }
}

fn no_include() -> impl FnMut(&str, &str) -> Result<(String, Vec<u8>), String> {
    |_: &str, _: &str| Err("nothing can be included here".to_owned())
}

fn add(sources: &mut Sources, name: &str, text: &[u8]) -> Result<u32, Vec<Diagnostic>> {
    sources.add(name, text).ok_or_else(|| vec![too_large(name)])
}
