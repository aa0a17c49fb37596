//! Parses expressions by precedence climbing.

use super::cursor::{Parser, Reported};
use crate::ast::Name;
use crate::expr::{BinaryOp, Expr, ExprKind, Number, SectionOperand, UnaryOp};
use crate::lex::{Mode, Token, TokenKind, number_value};
use crate::source::Span;

/// An expression may have this many operators and parentheses. Evaluation and destruction walk the tree
/// recursively, so a deeper tree could overflow the stack.
const MAX_COMPLEXITY: u32 = 400;

impl Parser<'_, '_> {
    /// Reads an expression, up to the first token that is not part of it.
    pub(super) fn expression(&mut self) -> Result<Expr, Reported> {
        self.complexity = 0;
        self.conditional()
    }

    /// Reads `(expression)`.
    pub(super) fn expression_in_parentheses(&mut self) -> Result<Expr, Reported> {
        self.expect(Mode::Expression, "(")?;
        let value = self.expression()?;
        self.expect(Mode::Expression, ")")?;
        Ok(value)
    }

    fn conditional(&mut self) -> Result<Expr, Reported> {
        let condition = self.binary(1)?;
        if !self.peek(Mode::Expression).is("?") {
            return Ok(condition);
        }
        self.deeper()?;
        self.next(Mode::Expression);
        let then = self.conditional()?;
        self.expect(Mode::Expression, ":")?;
        let otherwise = self.conditional()?;
        let span = condition.span.to(otherwise.span);
        let kind = ExprKind::Conditional {
            condition: Box::new(condition),
            then: Box::new(then),
            otherwise: Box::new(otherwise),
        };
        Ok(Expr { span, kind })
    }

    /// Reads operands joined by operators that bind at least as tightly as `tightness`.
    fn binary(&mut self, tightness: u8) -> Result<Expr, Reported> {
        let mut left = self.unary()?;
        loop {
            let TokenKind::Mark(mark) = self.peek(Mode::Expression).kind else {
                return Ok(left);
            };
            let Some((op, binds)) = BinaryOp::from_text(mark) else {
                return Ok(left);
            };
            if binds < tightness {
                return Ok(left);
            }
            self.deeper()?;
            self.next(Mode::Expression);
            let right = self.binary(binds + 1)?;
            let span = left.span.to(right.span);
            left = Expr { span, kind: ExprKind::Binary(op, Box::new(left), Box::new(right)) };
        }
    }

    fn unary(&mut self) -> Result<Expr, Reported> {
        let token = self.peek(Mode::Expression);
        let op = match token.kind {
            TokenKind::Mark("-") => Some(UnaryOp::Negate),
            TokenKind::Mark("~") => Some(UnaryOp::Complement),
            TokenKind::Mark("!") => Some(UnaryOp::Not),
            TokenKind::Mark("+") => None,
            _ => return self.primary(),
        };
        self.deeper()?;
        self.next(Mode::Expression);
        let operand = self.unary()?;
        let Some(op) = op else {
            return Ok(operand);
        };
        Ok(Expr { span: token.span.to(operand.span), kind: ExprKind::Unary(op, Box::new(operand)) })
    }

    fn primary(&mut self) -> Result<Expr, Reported> {
        let token = self.next(Mode::Expression);
        match token.kind {
            TokenKind::Number => self.number(token),
            TokenKind::Mark("(") => {
                self.deeper()?;
                let inner = self.conditional()?;
                self.expect(Mode::Expression, ")")?;
                Ok(inner)
            }
            TokenKind::Word if self.bytes(token) == b"." => {
                Ok(Expr { span: token.span, kind: ExprKind::Dot })
            }
            TokenKind::Word => self.word_value(token),
            TokenKind::Quoted => Ok(self.symbol(token)),
            _ => Err(self.unexpected(token, "a value")),
        }
    }

    fn symbol(&self, token: Token) -> Expr {
        Expr { span: token.span, kind: ExprKind::Symbol(self.name_of(token)) }
    }

    fn number(&mut self, token: Token) -> Result<Expr, Reported> {
        let text = self.bytes(token);
        let Some(value) = number_value(text) else {
            let message = format!("`{}` is not a number", String::from_utf8_lossy(text));
            let help = "hexadecimal numbers begin with 0x; K and M at the end multiply".to_owned();
            return Err(self.error_with_help(token.span, message, help));
        };
        let hex_digits = match text {
            [b'0', b'x' | b'X', digits @ ..] if digits.iter().all(u8::is_ascii_hexdigit) => {
                Some(digits.into())
            }
            _ => None,
        };
        Ok(Expr { span: token.span, kind: ExprKind::Number(Number { value, hex_digits }) })
    }

    /// Reads a function with its arguments, or else a symbol.
    fn word_value(&mut self, token: Token) -> Result<Expr, Reported> {
        let word = self.bytes(token);
        if matches!(word, b"SIZEOF_HEADERS" | b"sizeof_headers") {
            return Ok(Expr { span: token.span, kind: ExprKind::SizeOfHeaders });
        }
        if !is_function(word) {
            return Ok(self.symbol(token));
        }
        self.deeper()?;
        self.expect(Mode::Expression, "(")?;
        let kind = self.function(word)?;
        let close = self.expect(Mode::Expression, ")")?;
        Ok(Expr { span: token.span.to(close.span), kind })
    }

    fn function(&mut self, word: &[u8]) -> Result<ExprKind, Reported> {
        Ok(match word {
            b"ABSOLUTE" | b"absolute" => ExprKind::Absolute(self.argument()?),
            b"NEXT" => ExprKind::Next(self.argument()?),
            b"LOG2CEIL" => ExprKind::Log2Ceil(self.argument()?),
            b"DATA_SEGMENT_END" => ExprKind::DataSegmentEnd(self.argument()?),
            b"BLOCK" => ExprKind::Align { value: None, alignment: self.argument()? },
            b"ALIGN" => {
                let first = self.argument()?;
                if self.accept(Mode::Expression, ",") {
                    ExprKind::Align { value: Some(first), alignment: self.argument()? }
                } else {
                    ExprKind::Align { value: None, alignment: first }
                }
            }
            b"MAX" => self.two_arguments(ExprKind::Max)?,
            b"MIN" => self.two_arguments(ExprKind::Min)?,
            b"DATA_SEGMENT_ALIGN" => self.two_arguments(ExprKind::DataSegmentAlign)?,
            b"DATA_SEGMENT_RELRO_END" => self.two_arguments(ExprKind::DataSegmentRelroEnd)?,
            b"ADDR" => ExprKind::Addr(self.section_operand()?),
            b"LOADADDR" => ExprKind::LoadAddr(self.section_operand()?),
            b"SIZEOF" => ExprKind::SizeOf(self.section_operand()?),
            b"ALIGNOF" => ExprKind::AlignOf(self.section_operand()?),
            b"DEFINED" => ExprKind::Defined(self.name(Mode::Statement, "a symbol")?),
            b"LENGTH" => ExprKind::Length(self.name(Mode::Statement, "a memory region")?),
            b"ORIGIN" => ExprKind::Origin(self.name(Mode::Statement, "a memory region")?),
            b"CONSTANT" => ExprKind::Constant(self.name(Mode::Statement, "a constant")?),
            b"SEGMENT_START" => {
                let segment = self.name(Mode::Statement, "a segment")?;
                self.expect(Mode::Expression, ",")?;
                ExprKind::SegmentStart(segment, self.argument()?)
            }
            _ => {
                let condition = self.argument()?;
                ExprKind::Assert(condition, self.assert_message()?)
            }
        })
    }

    /// Reads `, "message"` of an `ASSERT`.
    pub(super) fn assert_message(&mut self) -> Result<Name, Reported> {
        self.expect(Mode::Expression, ",")?;
        self.name(Mode::Statement, "a message in quotes")
    }

    fn argument(&mut self) -> Result<Box<Expr>, Reported> {
        self.conditional().map(Box::new)
    }

    fn two_arguments(
        &mut self,
        function: fn(Box<Expr>, Box<Expr>) -> ExprKind,
    ) -> Result<ExprKind, Reported> {
        let first = self.argument()?;
        self.expect(Mode::Expression, ",")?;
        let second = self.argument()?;
        Ok(function(first, second))
    }

    fn section_operand(&mut self) -> Result<SectionOperand, Reported> {
        let token = self.peek(Mode::Statement);
        let name = self.name(Mode::Statement, "an output section")?;
        if self.word(token) == b"NEXT_SECTION" {
            return Ok(SectionOperand::Next(token.span));
        }
        Ok(SectionOperand::Named(name))
    }

    fn deeper(&mut self) -> Result<(), Reported> {
        self.complexity += 1;
        if self.complexity > MAX_COMPLEXITY {
            let span: Span = self.peek(Mode::Expression).span;
            let message = format!("this expression has more than {MAX_COMPLEXITY} operators");
            return Err(self.error(span, message));
        }
        Ok(())
    }
}

fn is_function(word: &[u8]) -> bool {
    const FUNCTIONS: &[&str] = &[
        "ABSOLUTE",
        "ADDR",
        "ALIGN",
        "ALIGNOF",
        "ASSERT",
        "BLOCK",
        "CONSTANT",
        "DATA_SEGMENT_ALIGN",
        "DATA_SEGMENT_END",
        "DATA_SEGMENT_RELRO_END",
        "DEFINED",
        "LENGTH",
        "LOADADDR",
        "LOG2CEIL",
        "MAX",
        "MIN",
        "NEXT",
        "ORIGIN",
        "SEGMENT_START",
        "SIZEOF",
        "absolute",
    ];
    FUNCTIONS.binary_search_by(|function| function.as_bytes().cmp(word)).is_ok()
}
