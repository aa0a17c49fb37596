//! Expressions of the script language as a tree.
//!
//! The tree keeps the expression as it is written. Nothing is folded, so that a late error can point at its
//! operator, and so that a value that changes between two rounds of the layout can be computed again.
//! [`super::eval`] gives the tree its meaning.

use super::source::{Name, Span};

/// An expression and where it stands in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expr {
    /// The whole expression in the text, parentheses not included.
    pub span: Span,
    /// Operator or operand.
    pub kind: ExprKind,
}

/// The forms of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExprKind {
    /// A number.
    Number(Number),
    /// The location counter, `.`.
    Dot,
    /// A symbol of the link or of the script.
    Symbol(Name),
    /// `-a`, `~a`, `!a`.
    Unary(UnaryOp, Box<Expr>),
    /// `a + b` and its like.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `condition ? then : otherwise`.
    Conditional {
        /// The value that chooses.
        condition: Box<Expr>,
        /// The value if the condition is not zero.
        then: Box<Expr>,
        /// The value if it is zero.
        otherwise: Box<Expr>,
    },
    /// `ABSOLUTE(a)`: the value without its section.
    Absolute(Box<Expr>),
    /// `ADDR(section)`.
    Addr(SectionOperand),
    /// `LOADADDR(section)`.
    LoadAddr(SectionOperand),
    /// `SIZEOF(section)`, in bytes.
    SizeOf(SectionOperand),
    /// `ALIGNOF(section)`, in bytes.
    AlignOf(SectionOperand),
    /// `ALIGN(alignment)` and its old name `BLOCK(alignment)`: the location counter, rounded up.
    /// `ALIGN(value, alignment)`: the value, rounded up.
    Align {
        /// The value to round; `None` is the location counter.
        value: Option<Box<Expr>>,
        /// The alignment, in bytes.
        alignment: Box<Expr>,
    },
    /// `NEXT(alignment)`: the next free address of that alignment, absolute.
    Next(Box<Expr>),
    /// `CONSTANT(name)`: `MAXPAGESIZE`, `COMMONPAGESIZE`.
    Constant(Name),
    /// `DATA_SEGMENT_ALIGN(maxpagesize, commonpagesize)`.
    DataSegmentAlign(Box<Expr>, Box<Expr>),
    /// `DATA_SEGMENT_RELRO_END(offset, address)`, with the operands in this order.
    DataSegmentRelroEnd(Box<Expr>, Box<Expr>),
    /// `DATA_SEGMENT_END(address)`.
    DataSegmentEnd(Box<Expr>),
    /// `DEFINED(symbol)`: 1 or 0.
    Defined(Name),
    /// `LENGTH(region)`, in bytes.
    Length(Name),
    /// `ORIGIN(region)`.
    Origin(Name),
    /// `LOG2CEIL(a)`.
    Log2Ceil(Box<Expr>),
    /// `MAX(a, b)`.
    Max(Box<Expr>, Box<Expr>),
    /// `MIN(a, b)`.
    Min(Box<Expr>, Box<Expr>),
    /// `SEGMENT_START(segment, default)`: the address that an option such as `-Ttext-segment` gives, or else
    /// the default.
    SegmentStart(Name, Box<Expr>),
    /// `SIZEOF_HEADERS`: bytes of the ELF header and the program headers.
    SizeOfHeaders,
    /// `ASSERT(condition, message)`: the condition's value. It is an error if that is zero.
    Assert(Box<Expr>, Name),
}

/// A number, with its hexadecimal digits as written, because they decide the size of a `=fill`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    /// The value, or the largest `u64` if the number is larger.
    pub value: u64,
    /// The digits behind `0x`, if the number is hexadecimal and has no suffix.
    pub hex_digits: Option<Box<[u8]>>,
}

/// The section operand of a function such as `ADDR`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SectionOperand {
    /// The first output section of this name.
    Named(Name),
    /// `NEXT_SECTION`: the next output section of the script that is in the output.
    Next(Span),
}

/// Operators with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `~`
    Complement,
    /// `!`
    Not,
}

/// Operators with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Xor,
    Or,
    LogicalAnd,
    LogicalOr,
}

impl BinaryOp {
    /// The operator of a text token and how tightly it binds (a higher number binds tighter), as
    /// in C.
    pub fn from_text(text: &str) -> Option<(BinaryOp, u8)> {
        Some(match text {
            "*" => (BinaryOp::Multiply, 10),
            "/" => (BinaryOp::Divide, 10),
            "%" => (BinaryOp::Remainder, 10),
            "+" => (BinaryOp::Add, 9),
            "-" => (BinaryOp::Subtract, 9),
            "<<" => (BinaryOp::ShiftLeft, 8),
            ">>" => (BinaryOp::ShiftRight, 8),
            "<" => (BinaryOp::Less, 7),
            "<=" => (BinaryOp::LessOrEqual, 7),
            ">" => (BinaryOp::Greater, 7),
            ">=" => (BinaryOp::GreaterOrEqual, 7),
            "==" => (BinaryOp::Equal, 6),
            "!=" => (BinaryOp::NotEqual, 6),
            "&" => (BinaryOp::And, 5),
            "^" => (BinaryOp::Xor, 4),
            "|" => (BinaryOp::Or, 3),
            "&&" => (BinaryOp::LogicalAnd, 2),
            "||" => (BinaryOp::LogicalOr, 1),
            _ => return None,
        })
    }

    /// Whether the result is a truth value.
    pub fn compares(self) -> bool {
        use BinaryOp::*;
        matches!(
            self,
            Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual | LogicalAnd | LogicalOr
        )
    }

    /// The operator as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Remainder => "%",
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::ShiftLeft => "<<",
            BinaryOp::ShiftRight => ">>",
            BinaryOp::Equal => "==",
            BinaryOp::NotEqual => "!=",
            BinaryOp::Less => "<",
            BinaryOp::LessOrEqual => "<=",
            BinaryOp::Greater => ">",
            BinaryOp::GreaterOrEqual => ">=",
            BinaryOp::And => "&",
            BinaryOp::Xor => "^",
            BinaryOp::Or => "|",
            BinaryOp::LogicalAnd => "&&",
            BinaryOp::LogicalOr => "||",
        }
    }
}

impl Expr {
    /// A number that no script has. Messages about it point at `span`.
    pub fn number(span: Span, value: u64) -> Expr {
        Expr { span, kind: ExprKind::Number(Number { value, hex_digits: None }) }
    }

    /// The operands, in the order in which they are written.
    pub fn operands(&self) -> impl Iterator<Item = &Expr> {
        let operands: [Option<&Expr>; 3] = match &self.kind {
            ExprKind::Unary(_, a)
            | ExprKind::Absolute(a)
            | ExprKind::Next(a)
            | ExprKind::DataSegmentEnd(a)
            | ExprKind::Log2Ceil(a)
            | ExprKind::SegmentStart(_, a)
            | ExprKind::Assert(a, _) => [Some(a), None, None],
            ExprKind::Binary(_, a, b)
            | ExprKind::DataSegmentAlign(a, b)
            | ExprKind::DataSegmentRelroEnd(a, b)
            | ExprKind::Max(a, b)
            | ExprKind::Min(a, b) => [Some(a), Some(b), None],
            ExprKind::Conditional { condition, then, otherwise } => {
                [Some(condition), Some(then), Some(otherwise)]
            }
            ExprKind::Align { value, alignment } => [value.as_deref(), Some(alignment), None],
            ExprKind::Number(_)
            | ExprKind::Dot
            | ExprKind::Symbol(_)
            | ExprKind::Addr(_)
            | ExprKind::LoadAddr(_)
            | ExprKind::SizeOf(_)
            | ExprKind::AlignOf(_)
            | ExprKind::Constant(_)
            | ExprKind::Defined(_)
            | ExprKind::Length(_)
            | ExprKind::Origin(_)
            | ExprKind::SizeOfHeaders => [None, None, None],
        };
        operands.into_iter().flatten()
    }

    /// Calls `visit` with the name of every symbol that the value may depend on: the link must look these up,
    /// extract them from archives and keep them. Names inside `DEFINED` are not among them.
    pub fn for_each_symbol<'a>(&'a self, visit: &mut impl FnMut(&'a Name)) {
        if let ExprKind::Symbol(name) = &self.kind {
            visit(name);
        }
        for operand in self.operands() {
            operand.for_each_symbol(visit);
        }
    }

    /// Calls `change` with the name of every symbol, also inside `DEFINED`.
    pub fn change_symbols(&mut self, change: &mut impl FnMut(&mut Name)) {
        match &mut self.kind {
            ExprKind::Symbol(name) | ExprKind::Defined(name) => change(name),
            ExprKind::Unary(_, a)
            | ExprKind::Absolute(a)
            | ExprKind::Next(a)
            | ExprKind::DataSegmentEnd(a)
            | ExprKind::Log2Ceil(a)
            | ExprKind::SegmentStart(_, a)
            | ExprKind::Assert(a, _)
            | ExprKind::Align { value: None, alignment: a } => a.change_symbols(change),
            ExprKind::Binary(_, a, b)
            | ExprKind::DataSegmentAlign(a, b)
            | ExprKind::DataSegmentRelroEnd(a, b)
            | ExprKind::Max(a, b)
            | ExprKind::Min(a, b)
            | ExprKind::Align { value: Some(a), alignment: b } => {
                a.change_symbols(change);
                b.change_symbols(change);
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                condition.change_symbols(change);
                then.change_symbols(change);
                otherwise.change_symbols(change);
            }
            ExprKind::Number(_)
            | ExprKind::Dot
            | ExprKind::Addr(_)
            | ExprKind::LoadAddr(_)
            | ExprKind::SizeOf(_)
            | ExprKind::AlignOf(_)
            | ExprKind::Constant(_)
            | ExprKind::Length(_)
            | ExprKind::Origin(_)
            | ExprKind::SizeOfHeaders => {}
        }
    }
}
