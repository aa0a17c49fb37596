//! Finds out whether an expression has the same value wherever the program is loaded.
//!
//! The linker must know that before there is a layout: a reference to a fixed value needs no dynamic
//! relocation, and its field may be narrower than an address. So this module judges an expression by its
//! form. Its *degree* is the factor by which the load address counts in its value: 1 for an address `a`, 0
//! for a distance `a - b`, 2 for `a + b`. An expression of unknown degree (`a & b`, `a * 2`) counts as moving
//! with the program.

use super::expr::{BinaryOp, Expr, ExprKind, UnaryOp};

/// The degree of an expression; `None` if the load address may count in its value in another way. `symbol`
/// gives the degree of a symbol.
pub fn degree(expr: &Expr, symbol: &mut dyn FnMut(&[u8]) -> Option<i32>) -> Option<i32> {
    let mut of = |expr: &Expr| degree(expr, symbol);
    match &expr.kind {
        ExprKind::Number(_)
        | ExprKind::SizeOf(_)
        | ExprKind::AlignOf(_)
        | ExprKind::Constant(_)
        | ExprKind::Defined(_)
        | ExprKind::Length(_)
        | ExprKind::SizeOfHeaders => Some(0),
        ExprKind::Dot
        | ExprKind::Addr(_)
        | ExprKind::LoadAddr(_)
        | ExprKind::Align { value: None, .. }
        | ExprKind::Next(_)
        | ExprKind::DataSegmentAlign(..)
        | ExprKind::DataSegmentRelroEnd(..)
        | ExprKind::DataSegmentEnd(_)
        | ExprKind::Origin(_)
        | ExprKind::SegmentStart(..) => Some(1),
        ExprKind::Symbol(name) => symbol(&name.bytes),
        ExprKind::Absolute(operand) | ExprKind::Assert(operand, _) => of(operand),
        ExprKind::Unary(UnaryOp::Negate, operand) => of(operand)?.checked_neg(),
        ExprKind::Unary(UnaryOp::Not, _) => Some(0),
        ExprKind::Binary(BinaryOp::Add, left, right) => of(left)?.checked_add(of(right)?),
        ExprKind::Binary(BinaryOp::Subtract, left, right) => of(left)?.checked_sub(of(right)?),
        ExprKind::Binary(op, ..) if op.compares() => Some(0),
        ExprKind::Conditional { then, otherwise, .. } => {
            let (then, otherwise) = (of(then)?, of(otherwise)?);
            (then == otherwise).then_some(then)
        }
        ExprKind::Align { value: Some(_), .. }
        | ExprKind::Unary(UnaryOp::Complement, _)
        | ExprKind::Binary(..)
        | ExprKind::Log2Ceil(_)
        | ExprKind::Max(..)
        | ExprKind::Min(..) => expr.operands().all(|operand| of(operand) == Some(0)).then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Command;
    use crate::parse::parse_script;
    use crate::source::Sources;

    /// `a` and `b` are addresses, `n` is a number.
    fn of(text: &str) -> Option<i32> {
        let text = format!("x = {text};");
        let script =
            parse_script(&mut Sources::default(), "test", text.as_bytes(), &mut |_, _| Err(String::new()));
        let Ok(script) = script else { panic!("{text} is no script") };
        let [Command::Assignment(assignment)] = &script.commands[..] else { panic!("{text}") };
        degree(&assignment.value, &mut |name| match name {
            b"n" => Some(0),
            b"unknown" => None,
            _ => Some(1),
        })
    }

    #[test]
    fn differences_of_addresses_are_fixed() {
        for text in [
            "4",
            "n",
            "a - b",
            "((a - b) & 0xffffffff) >> 32",
            "a == b",
            "!a",
            "SIZEOF(.text) * 2",
            "MAX(n, 4)",
            ". - a",
            "ABSOLUTE(. - a)",
            "a - b + n",
            "n ? 4 : a - b",
            "-a + b",
            "ALIGN(a - b, 8)",
        ] {
            assert_eq!(of(text), Some(0), "{text}");
        }
        for text in ["a", ".", "a + 4", "a - n", "a + b - b", "ALIGN(8)", "ADDR(.text)", "n ? a : b"] {
            assert_eq!(of(text), Some(1), "{text}");
        }
        for text in [
            "a & 0xfff",
            "a * 2",
            "unknown",
            "unknown - unknown",
            "n ? a : 4",
            "~a",
            "MAX(a, b)",
            "ALIGN(a, 8)",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(of("a + b"), Some(2));
    }
}
