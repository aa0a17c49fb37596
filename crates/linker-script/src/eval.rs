//! The values of expressions.
//!
//! A value is a plain number, an absolute address, or an offset into an output section. The kind decides how
//! an operator treats the value ("The Section of an Expression" in GNU ld's manual). In short:
//! - A number in the text is a number inside an output section description, and an absolute
//!   address outside (unless `LD_FEATURE("SANE_EXPR")` makes it a number everywhere).
//! - An operator on an offset and a number works on the offset and keeps the section.
//! - Before an operator works on values of different sections, both become absolute.
//! - Two values of one kind and section give a number (inside a description, or with
//!   `SANE_EXPR`), an absolute address otherwise. Comparisons and `&&`, `||` always give numbers.
//!
//! The layout runs in rounds. So a value may be missing for two reasons: nothing defines it, or this round
//! does not know it yet. [`EvalError`] keeps the two apart.

use super::data_segment::{DataSegment, align_up};
use super::expr::{BinaryOp, Expr, ExprKind, SectionOperand, UnaryOp};
use super::source::{Sources, Span};
use diagnostics::{Code, Diagnostic};

/// The origin that a value counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// No origin: a plain number, which takes the kind of the place that uses it.
    Number,
    /// Address zero.
    Absolute,
    /// The start of an output section, which has this number in the [`Scope`].
    Section(u32),
}

/// The value of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    /// The origin that it counts from.
    pub base: Base,
    /// The number, the address or the offset, in bytes. It wraps around at 64 bits.
    pub value: u64,
    /// Whether this is an absolute address from the location counter or a segment, which moves with the
    /// program. If a symbol gets such a value outside of all sections, it belongs to a section near it, at
    /// least in position-independent outputs.
    pub moves: bool,
}

impl Value {
    /// A number.
    pub fn number(value: u64) -> Self {
        Value { base: Base::Number, value, moves: false }
    }

    /// An absolute address.
    pub fn absolute(value: u64) -> Self {
        Value { base: Base::Absolute, value, moves: false }
    }

    /// An offset into an output section.
    pub fn relative(section: u32, offset: u64) -> Self {
        Value { base: Base::Section(section), value: offset, moves: false }
    }

    /// The output section that a symbol with this value belongs to, and its offset there; or no section and
    /// its address. `current` is the output section in whose description the assignment stands: a number is
    /// an offset into it.
    pub fn symbol(self, current: Option<u32>) -> (Option<u32>, u64) {
        let section = match self.base {
            Base::Number => current,
            Base::Absolute => None,
            Base::Section(section) => Some(section),
        };
        (section, self.value)
    }

    /// The value as an address. A number counts from the output section `current`, if there is one.
    pub fn address(self, current: Option<u32>, scope: &dyn Scope) -> u64 {
        match self.symbol(current) {
            (Some(section), offset) => scope.section_address(section).wrapping_add(offset),
            (None, address) => address,
        }
    }
}

/// A symbol as an expression sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symbol {
    /// Its value: absolute or relative to an output section.
    Defined(Value),
    /// It is defined in an input section that is in no output section.
    Discarded,
    /// It is defined later in this round, or in an input section that has no place yet.
    NotYetKnown,
    /// Nothing defines it.
    Undefined,
}

/// The properties of an output section that expressions can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputSectionValues {
    /// Its number, for [`Value::relative`].
    pub section: u32,
    /// Its load address.
    pub load_address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its alignment in bytes.
    pub alignment: u64,
}

/// The answer to a question about a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup<T> {
    /// The answer.
    Known(T),
    /// It exists, but this is not known in this round.
    NotYetKnown,
    /// Nothing has that name.
    Missing,
}

/// What an expression can ask about the place where it stands: location counter, symbols, sections, regions.
/// Offsets, sizes and addresses are in bytes.
pub trait Scope {
    /// The address of the location counter; `None` where the script has none.
    fn dot(&self) -> Option<u64>;

    /// The output section in whose description the expression stands; `None` outside of all.
    fn current_section(&self) -> Option<u32>;

    /// The address of an output section by number.
    fn section_address(&self, section: u32) -> u64;

    /// An output section by name. If the script describes it but the output does not have it, its size is 0.
    fn section(&self, name: &[u8]) -> Lookup<OutputSectionValues>;

    /// The first output section of the output behind the place of the expression.
    fn next_section(&self) -> Lookup<OutputSectionValues>;

    /// A symbol.
    fn symbol(&self, name: &[u8]) -> Symbol;

    /// `DEFINED(name)`: whether the symbol is defined. A definition in a script counts only if it stands
    /// above this place.
    fn is_defined(&self, name: &[u8]) -> bool;

    /// First address and length of a memory region.
    fn region(&self, name: &[u8]) -> Lookup<(u64, u64)>;

    /// A constant such as `MAXPAGESIZE`.
    fn constant(&self, name: &[u8]) -> Option<u64>;

    /// Bytes of the ELF header and the program headers.
    fn size_of_headers(&self) -> u64;

    /// The start that the command line gives to a segment. `-Ttext-segment` gives the start of
    /// `text-segment`.
    fn segment_start(&self, name: &[u8]) -> Option<u64>;

    /// The state of the data segment. An expression asks for it only outside of output section descriptions.
    fn data_segment(&mut self) -> &mut DataSegment;

    /// Whether the script says `LD_FEATURE("SANE_EXPR")`.
    fn sane_expressions(&self) -> bool {
        false
    }
}

/// Why an expression has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EvalError {
    /// This round does not know a value that this place needs. In the last round, that is an error like the
    /// others.
    NotYetKnown {
        /// The place.
        span: Span,
    },
    /// A name that nothing defines.
    Undefined {
        /// The place.
        span: Span,
        /// Symbol, section, region or constant.
        what: NameKind,
    },
    /// A symbol in a section that is not in the output.
    Discarded {
        /// The place.
        span: Span,
    },
    /// `/` or `%` by zero.
    DivisionByZero {
        /// The divisor.
        span: Span,
    },
    /// The location counter is used where there is none, or a `DATA_SEGMENT_` function inside an output
    /// section.
    InvalidContext {
        /// The place.
        span: Span,
    },
    /// An `ASSERT` inside the expression does not hold.
    AssertionFailed {
        /// The condition.
        span: Span,
        /// The second argument of the `ASSERT`.
        message: String,
    },
}

/// Kinds of names that an expression can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum NameKind {
    Symbol,
    Section,
    Region,
    Constant,
}

impl EvalError {
    /// The place that the error is about.
    pub fn span(&self) -> Span {
        match self {
            EvalError::NotYetKnown { span }
            | EvalError::Undefined { span, .. }
            | EvalError::Discarded { span }
            | EvalError::DivisionByZero { span }
            | EvalError::InvalidContext { span }
            | EvalError::AssertionFailed { span, .. } => *span,
        }
    }

    /// The diagnostic for the error.
    pub fn diagnostic(&self, sources: &Sources) -> Diagnostic {
        let span = self.span();
        let text = String::from_utf8_lossy(sources.slice(span)).into_owned();
        let name = text.trim_matches('"');
        let mut help = None;
        let (code, message) = match self {
            EvalError::NotYetKnown { .. } => {
                (Code::ScriptError, format!("`{text}` depends on an address that depends on it in turn"))
            }
            EvalError::Undefined { what: NameKind::Symbol, .. } => {
                if name.contains('/') {
                    help = Some("write blanks around `/` to divide: it may be part of a name");
                }
                let name = diagnostics::demangle::demangle(name.as_bytes());
                (Code::UndefinedSymbol, format!("undefined symbol `{name}' referenced in expression"))
            }
            EvalError::Undefined { what: NameKind::Section, .. } => {
                (Code::ScriptError, format!("there is no output section `{name}`"))
            }
            EvalError::Undefined { what: NameKind::Region, .. } => {
                (Code::ScriptError, format!("there is no memory region `{name}`"))
            }
            EvalError::Undefined { what: NameKind::Constant, .. } => {
                help = Some("the constants are MAXPAGESIZE and COMMONPAGESIZE");
                (Code::ScriptError, format!("there is no constant `{name}`"))
            }
            EvalError::Discarded { .. } => {
                let name = diagnostics::demangle::demangle(name.as_bytes());
                (Code::ScriptError, format!("symbol {name} is in a section that is not in the output"))
            }
            EvalError::DivisionByZero { .. } => {
                (Code::ScriptError, format!("division by zero: the divisor `{text}` is 0"))
            }
            EvalError::InvalidContext { .. } => (Code::ScriptError, format!("`{text}` has no meaning here")),
            EvalError::AssertionFailed { message, .. } => (Code::AssertionFailed, message.clone()),
        };
        let diagnostic = Diagnostic::error(code, message).at(sources.location(span)).ordered(
            span.file,
            0,
            span.start.into(),
        );
        match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}

/// The value of an expression.
///
/// # Errors
/// Why the expression has no value.
pub fn eval(expr: &Expr, scope: &mut dyn Scope) -> Result<Value, EvalError> {
    let mut evaluator = Evaluator { current: scope.current_section(), moves: false, scope };
    let mut value = evaluator.value(expr)?;
    value.moves = value.base == Base::Absolute && evaluator.moves;
    Ok(value)
}

struct Evaluator<'a> {
    scope: &'a mut dyn Scope,
    current: Option<u32>,
    moves: bool,
}

impl Evaluator<'_> {
    fn value(&mut self, expr: &Expr) -> Result<Value, EvalError> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Number(number) => Ok(self.literal(number.value)),
            ExprKind::Dot => {
                let dot = self.dot(span)?;
                Ok(self.place(dot))
            }
            ExprKind::Symbol(name) => self.symbol(&name.bytes, name.span),
            ExprKind::Unary(op, operand) => {
                let value = self.value(operand)?;
                Ok(Value { value: unary(*op, value.value), ..value })
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right),
            ExprKind::Conditional { condition, then, otherwise } => {
                let chosen = if self.value(condition)?.value != 0 { then } else { otherwise };
                self.value(chosen)
            }
            ExprKind::Absolute(operand) => {
                let value = self.value(operand)?;
                Ok(self.absolute(value))
            }
            ExprKind::Addr(section) => Ok(Value::relative(self.section(section)?.section, 0)),
            ExprKind::LoadAddr(section) => Ok(Value::absolute(self.section(section)?.load_address)),
            ExprKind::SizeOf(section) => Ok(Value::number(self.section(section)?.size)),
            ExprKind::AlignOf(section) => Ok(Value::number(self.alignment(section)?)),
            ExprKind::Align { value: None, alignment } => {
                let alignment = self.value(alignment)?.value;
                let dot = self.dot(span)?;
                Ok(self.place(align_up(dot, alignment)))
            }
            ExprKind::Align { value: Some(value), alignment } => {
                let operands = self.operands(value, alignment)?;
                Ok(operands.value(align_up(operands.left, operands.right)))
            }
            ExprKind::Next(alignment) => {
                let alignment = self.value(alignment)?;
                let alignment = self.absolute(alignment).value;
                Ok(Value::absolute(align_up(self.dot(span)?, alignment)))
            }
            ExprKind::Constant(name) => match self.scope.constant(&name.bytes) {
                Some(value) => Ok(Value::number(value)),
                None => Err(EvalError::Undefined { span: name.span, what: NameKind::Constant }),
            },
            ExprKind::DataSegmentAlign(max, common) => {
                let (max, common) = (self.value(max)?.value, self.value(common)?.value);
                let dot = self.dot(span)?;
                let value = self.data_segment(span)?.align(dot, max, common);
                Ok(self.place(value))
            }
            ExprKind::DataSegmentRelroEnd(offset, address) => {
                let (offset, address) = (self.value(offset)?, self.value(address)?);
                let address = self.absolute(address).value;
                let value = self.data_segment(span)?.relro_end(offset.value, address);
                Ok(self.place(value))
            }
            ExprKind::DataSegmentEnd(address) => {
                let address = self.value(address)?;
                let address = self.absolute(address).value;
                let value = self.data_segment(span)?.end(address);
                Ok(self.place(value))
            }
            ExprKind::Defined(name) => Ok(Value::number(self.scope.is_defined(&name.bytes).into())),
            ExprKind::Length(name) => Ok(Value::number(self.region(&name.bytes, name.span)?.1)),
            ExprKind::Origin(name) => {
                let (origin, _) = self.region(&name.bytes, name.span)?;
                Ok(self.place(origin))
            }
            ExprKind::Log2Ceil(operand) => {
                let value = self.value(operand)?;
                Ok(Value { value: log2_ceil(value.value), ..value })
            }
            ExprKind::Max(left, right) => {
                let operands = self.operands(left, right)?;
                Ok(operands.value(operands.left.max(operands.right)))
            }
            ExprKind::Min(left, right) => {
                let operands = self.operands(left, right)?;
                Ok(operands.value(operands.left.min(operands.right)))
            }
            ExprKind::SegmentStart(name, default) => {
                let default = self.value(default)?;
                let default = self.absolute(default).value;
                let start = self.scope.segment_start(&name.bytes).unwrap_or(default);
                Ok(self.place(start))
            }
            ExprKind::SizeOfHeaders => Ok(Value::number(self.scope.size_of_headers())),
            ExprKind::Assert(condition, message) => {
                let value = self.value(condition)?;
                if value.value == 0 {
                    let message = message.text().into_owned();
                    return Err(EvalError::AssertionFailed { span: condition.span, message });
                }
                Ok(value)
            }
        }
    }

    /// The value of a number that the text has.
    fn literal(&self, value: u64) -> Value {
        if self.current.is_none() && !self.scope.sane_expressions() {
            return Value::absolute(value);
        }
        Value::number(value)
    }

    /// An address as the location counter has it: relative to the current section, if there is one.
    fn place(&mut self, address: u64) -> Value {
        self.moves = true;
        match self.current {
            Some(section) => {
                Value::relative(section, address.wrapping_sub(self.scope.section_address(section)))
            }
            None => Value::absolute(address),
        }
    }

    /// The value as an absolute address. A number becomes an absolute address unchanged.
    fn absolute(&mut self, value: Value) -> Value {
        self.moves = false;
        match value.base {
            Base::Section(section) => {
                Value::absolute(self.scope.section_address(section).wrapping_add(value.value))
            }
            Base::Number | Base::Absolute => Value::absolute(value.value),
        }
    }

    fn dot(&self, span: Span) -> Result<u64, EvalError> {
        self.scope.dot().ok_or(EvalError::InvalidContext { span })
    }

    fn symbol(&mut self, name: &[u8], span: Span) -> Result<Value, EvalError> {
        match self.scope.symbol(name) {
            Symbol::Defined(Value { base: Base::Section(section), value, .. }) => {
                Ok(Value::relative(section, value))
            }
            // The value of an absolute symbol is treated as a number at this place would be.
            Symbol::Defined(value) => {
                self.moves |= value.moves;
                Ok(self.literal(value.value))
            }
            Symbol::Discarded => Err(EvalError::Discarded { span }),
            Symbol::NotYetKnown => Err(EvalError::NotYetKnown { span }),
            Symbol::Undefined => Err(EvalError::Undefined { span, what: NameKind::Symbol }),
        }
    }

    fn section(&self, operand: &SectionOperand) -> Result<OutputSectionValues, EvalError> {
        let (lookup, span) = match operand {
            SectionOperand::Named(name) => (self.scope.section(&name.bytes), name.span),
            SectionOperand::Next(span) => (self.scope.next_section(), *span),
        };
        known(lookup, span, NameKind::Section)
    }

    /// `ALIGNOF(NEXT_SECTION)` is 0 behind the last section.
    fn alignment(&self, operand: &SectionOperand) -> Result<u64, EvalError> {
        match (operand, self.section(operand)) {
            (SectionOperand::Next(_), Err(EvalError::Undefined { .. })) => Ok(0),
            (_, facts) => Ok(facts?.alignment),
        }
    }

    fn region(&self, name: &[u8], span: Span) -> Result<(u64, u64), EvalError> {
        known(self.scope.region(name), span, NameKind::Region)
    }

    fn data_segment(&mut self, span: Span) -> Result<&mut DataSegment, EvalError> {
        if self.current.is_some() {
            return Err(EvalError::InvalidContext { span });
        }
        Ok(self.scope.data_segment())
    }

    /// The values of two operands, converted to one base.
    fn operands(&mut self, left: &Expr, right: &Expr) -> Result<Operands, EvalError> {
        let left = self.value(left)?;
        let left_moves = std::mem::take(&mut self.moves);
        let right = self.value(right)?;
        let both_move = left_moves && self.moves;
        self.moves |= left_moves;
        let (left, right, base) = match (left.base, right.base) {
            (a, b) if a == b => (left, right, a),
            (Base::Number, base) | (base, Base::Number) => {
                return Ok(Operands {
                    left: left.value,
                    right: right.value,
                    base,
                    with_number: true,
                    both_move,
                });
            }
            _ => (self.absolute(left), self.absolute(right), Base::Absolute),
        };
        Ok(Operands { left: left.value, right: right.value, base, with_number: false, both_move })
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Result<Value, EvalError> {
        let outer = std::mem::take(&mut self.moves);
        let operands = self.operands(left, right)?;
        // Distances of addresses and truth values do not depend on the load address.
        let fixed = op == BinaryOp::Subtract && operands.both_move || gives_truth(op);
        self.moves = outer || self.moves && !fixed;
        let Some(value) = arithmetic(op, operands.left, operands.right) else {
            return Err(EvalError::DivisionByZero { span: right.span });
        };
        if gives_truth(op) {
            return Ok(Value::number(value));
        }
        if operands.with_number {
            return Ok(operands.value(value));
        }
        // The result is a plain number if both operands have one base, as the distance of two places of a
        // section is.
        Ok(self.literal(value))
    }
}

/// The values of two operands and their common origin.
struct Operands {
    left: u64,
    right: u64,
    base: Base,
    /// Whether one of them was a number and took the other's base.
    with_number: bool,
    /// Whether both are addresses that move with the program.
    both_move: bool,
}

impl Operands {
    fn value(&self, value: u64) -> Value {
        Value { base: self.base, value, moves: false }
    }
}

fn known<T>(lookup: Lookup<T>, span: Span, what: NameKind) -> Result<T, EvalError> {
    match lookup {
        Lookup::Known(answer) => Ok(answer),
        Lookup::NotYetKnown => Err(EvalError::NotYetKnown { span }),
        Lookup::Missing => Err(EvalError::Undefined { span, what }),
    }
}

fn unary(op: UnaryOp, value: u64) -> u64 {
    match op {
        UnaryOp::Negate => value.wrapping_neg(),
        UnaryOp::Complement => !value,
        UnaryOp::Not => (value == 0).into(),
    }
}

fn gives_truth(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual | LogicalAnd | LogicalOr)
}

/// Computes an operator on bare values; `None` for a division by zero. Division and remainder are signed,
/// everything else is unsigned. A shift takes its count modulo 64.
fn arithmetic(op: BinaryOp, left: u64, right: u64) -> Option<u64> {
    let shift = (right & 63) as u32;
    Some(match op {
        BinaryOp::Multiply => left.wrapping_mul(right),
        BinaryOp::Divide | BinaryOp::Remainder if right == 0 => return None,
        BinaryOp::Divide => left.cast_signed().wrapping_div(right.cast_signed()).cast_unsigned(),
        BinaryOp::Remainder => left.cast_signed().wrapping_rem(right.cast_signed()).cast_unsigned(),
        BinaryOp::Add => left.wrapping_add(right),
        BinaryOp::Subtract => left.wrapping_sub(right),
        BinaryOp::ShiftLeft => left << shift,
        BinaryOp::ShiftRight => left >> shift,
        BinaryOp::Equal => (left == right).into(),
        BinaryOp::NotEqual => (left != right).into(),
        BinaryOp::Less => (left < right).into(),
        BinaryOp::LessOrEqual => (left <= right).into(),
        BinaryOp::Greater => (left > right).into(),
        BinaryOp::GreaterOrEqual => (left >= right).into(),
        BinaryOp::And => left & right,
        BinaryOp::Xor => left ^ right,
        BinaryOp::Or => left | right,
        BinaryOp::LogicalAnd => (left != 0 && right != 0).into(),
        BinaryOp::LogicalOr => (left != 0 || right != 0).into(),
    })
}

/// The exponent of the smallest power of two that is not below the value, and 0 for 0.
fn log2_ceil(value: u64) -> u64 {
    if value <= 1 { 0 } else { (64 - (value - 1).leading_zeros()).into() }
}

/// The bytes of a fill, most significant first. The linker repeats them from the start of each gap. A lone
/// hexadecimal number gives as many bytes as its digits need, leading zeros included; any other value gives
/// its low four bytes.
///
/// # Errors
/// Why the expression has no value.
pub fn fill_bytes(expr: &Expr, scope: &mut dyn Scope) -> Result<Vec<u8>, EvalError> {
    if let ExprKind::Number(number) = &expr.kind
        && let Some(digits) = &number.hex_digits
    {
        return Ok(hex_bytes(digits));
    }
    let value = eval(expr, scope)?.address(None, scope);
    Ok((value as u32).to_be_bytes().to_vec())
}

fn hex_bytes(digits: &[u8]) -> Vec<u8> {
    let nibble = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or(0) as u8;
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    let pairs = pairs.chunks_exact(2).map(|pair| nibble(&pair[0]) << 4 | nibble(&pair[1]));
    odd.iter().map(nibble).chain(pairs).collect()
}

#[cfg(test)]
mod tests;
