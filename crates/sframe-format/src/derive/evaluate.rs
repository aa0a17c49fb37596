//! Takes a step by call frame information as it is, with any expression (DWARF 5, 2.5 and 6.4).
//!
//! OpenSSL's assembly keeps the caller's stack pointer in a word of its frame, and its CFA is that word plus
//! a number. Few functions have such rules, and none of the forms of rows can say them, so this module
//! computes them when a walk meets one. An expression may do anything, and its file may be damaged: so the
//! number of its operations, and of values on its stack, has a bound.

use gimli::{CfaRule, EhFrame, Operation, RegisterRule, UnwindExpression};

use super::entries::Slice;
use super::rows::{Row, SIGNED};
use crate::abi::{Abi, Register};
use crate::endian::Endian;
use crate::registers::Registers;
use crate::unwind::{FrameAddress, UnwindError};

/// The largest number of operations of an expression.
const MAX_OPERATIONS: usize = 256;
/// The largest number of values on its stack.
const MAX_VALUES: usize = 32;

const ENCODING: gimli::Encoding =
    gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };

/// Where a step is taken.
pub(super) struct Place<'a, 'data> {
    pub abi: Abi,
    pub section: &'a EhFrame<Slice<'data>>,
    /// The address whose row holds.
    pub pc: u64,
    pub topmost: bool,
    pub signal: bool,
}

impl<'data> Place<'_, 'data> {
    /// Steps to the caller by a row.
    pub fn step(
        &self,
        row: &Row,
        registers: &mut Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<FrameAddress>, UnwindError> {
        let abi = self.abi;
        let return_rule = row.register(abi.return_address());
        if matches!(return_rule, Some(RegisterRule::Undefined)) {
            return Ok(None);
        }
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                need(abi, registers, register.0.into())?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None, registers, read_word)?,
        };
        let lost = UnwindError::Register { register: abi.return_address() };
        let link = registers.get(abi, abi.return_address()).ok_or(lost);
        let mut of = |rule: Option<&RegisterRule<usize>>, unchanged| {
            self.value(rule, cfa, unchanged, registers, read_word)
        };
        let implied = cfa.wrapping_add_signed(-abi.cfa_bias());
        let caller_sp = match row.register(abi.stack_pointer()) {
            None | Some(RegisterRule::SameValue) => implied,
            rule => of(rule, implied)?,
        };
        let return_address = match return_rule {
            None | Some(RegisterRule::SameValue) if self.topmost => link?,
            None | Some(RegisterRule::SameValue) => return Err(lost),
            rule => of(rule, 0)?,
        };
        let fp = of(row.register(abi.frame_pointer()), registers.fp)?;
        let no_progress = caller_sp < registers.sp || caller_sp == registers.sp && !self.topmost;
        if !self.signal && no_progress {
            return Err(UnwindError::NoProgress { sp: registers.sp, caller_sp });
        }
        let signing = row.register(gimli::AArch64::RA_SIGN_STATE.0.into());
        let signed = matches!(signing, Some(RegisterRule::Constant(state)) if state & SIGNED != 0);
        let address =
            if abi.is_aarch64() && signed { registers.strip(return_address) } else { return_address };
        if address == 0 {
            return Ok(None);
        }
        registers.enter_caller(caller_sp, fp);
        let by_signal = FrameAddress::InstructionPointer(address);
        Ok(Some(if self.signal { by_signal } else { FrameAddress::ReturnAddress(address) }))
    }

    /// The caller's value of a register that has this rule. `unchanged` is its value in this frame.
    fn value(
        &self,
        rule: Option<&RegisterRule<usize>>,
        cfa: u64,
        unchanged: u64,
        registers: &Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<u64, UnwindError> {
        let at_cfa = |offset: &i64| cfa.wrapping_add_signed(*offset);
        match rule {
            None | Some(RegisterRule::SameValue) => Ok(unchanged),
            Some(RegisterRule::Offset(offset)) => read(at_cfa(offset), read_word),
            Some(RegisterRule::ValOffset(offset)) => Ok(at_cfa(offset)),
            Some(RegisterRule::Register(register)) => need(self.abi, registers, register.0.into()),
            Some(RegisterRule::Expression(expression)) => {
                let address = self.evaluate(expression, Some(cfa), registers, read_word)?;
                read(address, read_word)
            }
            Some(RegisterRule::ValExpression(expression)) => {
                self.evaluate(expression, Some(cfa), registers, read_word)
            }
            Some(RegisterRule::Constant(value)) => Ok(*value),
            // Undefined, or a rule of an ABI that is not known here.
            Some(_) => Ok(0),
        }
    }

    /// The value of an expression. It starts with `initial` on its stack.
    fn evaluate(
        &self,
        expression: &UnwindExpression<usize>,
        initial: Option<u64>,
        registers: &Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<u64, UnwindError> {
        let unknown = UnwindError::NoInformation { address: self.pc, module: None };
        let expression = expression.get(self.section).map_err(|_| unknown)?;
        let mut machine = Machine { place: self, registers, read_word, stack: Stack::default() };
        if let Some(initial) = initial {
            machine.stack.push(initial).ok_or(unknown)?;
        }
        let mut rest = expression.0;
        for _ in 0..MAX_OPERATIONS {
            if rest.is_empty() {
                return machine.stack.pop().ok_or(unknown);
            }
            let operation = Operation::parse(&mut rest, ENCODING).map_err(|_| unknown)?;
            let Some(target) = machine.run(&operation)? else { return Err(unknown) };
            if let Some(distance) = target {
                // A jump counts from the end of its operation.
                let here = rest.offset_from(expression.0);
                let to = here.checked_add_signed(distance.into()).ok_or(unknown)?;
                rest = expression.0;
                gimli::Reader::skip(&mut rest, to).map_err(|_| unknown)?;
            }
        }
        Err(unknown)
    }
}

fn need(abi: Abi, registers: &Registers, register: Register) -> Result<u64, UnwindError> {
    registers.get(abi, register).ok_or(UnwindError::Register { register })
}

fn read(address: u64, read_word: &mut impl FnMut(u64) -> Result<u64, ()>) -> Result<u64, UnwindError> {
    read_word(address).map_err(|()| UnwindError::Memory { address })
}

/// The values on the stack of an expression.
#[derive(Default)]
struct Stack {
    values: [u64; MAX_VALUES],
    count: usize,
}

impl Stack {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.count)? = value;
        self.count += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        self.values.get(self.count).copied()
    }

    /// The value that is this far below the topmost one.
    fn pick(&self, below: usize) -> Option<u64> {
        self.values.get(self.count.checked_sub(1)?.checked_sub(below)?).copied()
    }
}

/// Computes an expression.
struct Machine<'a, 'data, F> {
    place: &'a Place<'a, 'data>,
    registers: &'a Registers,
    read_word: &'a mut F,
    stack: Stack,
}

impl<F: FnMut(u64) -> Result<u64, ()>> Machine<'_, '_, F> {
    /// Runs an operation. `Some(Some(distance))`: it jumps. `None`: it is unknown, or lacks values.
    fn run(&mut self, operation: &Operation<Slice<'_>>) -> Result<Option<Option<i16>>, UnwindError> {
        match *operation {
            Operation::RegisterOffset { register, offset, .. } => {
                let value = self.register(register.0.into())?.wrapping_add_signed(offset);
                Ok(self.stack.push(value).map(|()| None))
            }
            Operation::Deref { size, space: false, .. } => match self.stack.pop() {
                Some(address) => {
                    let word = read(address, self.read_word)?;
                    Ok(low_bytes(self.place.abi.endian(), word, size)
                        .and_then(|value| self.stack.push(value))
                        .map(|()| None))
                }
                None => Ok(None),
            },
            Operation::Skip { target } => Ok(Some(Some(target))),
            Operation::Bra { target } => Ok(self.stack.pop().map(|value| (value != 0).then_some(target))),
            _ => Ok(self.compute(operation).map(|()| None)),
        }
    }

    fn register(&self, register: Register) -> Result<u64, UnwindError> {
        // Expressions of x86-64 read the program counter by the number of the return address.
        if register == self.place.abi.return_address() && self.place.abi == Abi::Amd64 {
            return Ok(self.place.pc);
        }
        need(self.place.abi, self.registers, register)
    }

    /// Runs an operation that needs nothing but the stack.
    fn compute(&mut self, operation: &Operation<Slice<'_>>) -> Option<()> {
        let stack = &mut self.stack;
        match *operation {
            Operation::Nop => Some(()),
            Operation::UnsignedConstant { value } => stack.push(value),
            Operation::SignedConstant { value } => stack.push(value as u64),
            Operation::Address { address } => stack.push(address),
            Operation::Drop => stack.pop().map(drop),
            Operation::Pick { index } => {
                let value = stack.pick(index.into())?;
                stack.push(value)
            }
            Operation::Swap => {
                let (first, second) = (stack.pop()?, stack.pop()?);
                stack.push(first)?;
                stack.push(second)
            }
            Operation::Rot => {
                let (first, second, third) = (stack.pop()?, stack.pop()?, stack.pop()?);
                stack.push(first)?;
                stack.push(third)?;
                stack.push(second)
            }
            Operation::PlusConstant { value } => {
                let sum = stack.pop()?.wrapping_add(value);
                stack.push(sum)
            }
            Operation::Abs => {
                let value = (stack.pop()? as i64).wrapping_abs() as u64;
                stack.push(value)
            }
            Operation::Neg => {
                let value = stack.pop()?.wrapping_neg();
                stack.push(value)
            }
            Operation::Not => {
                let value = !stack.pop()?;
                stack.push(value)
            }
            _ => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                stack.push(of_two(operation, left, right)?)
            }
        }
    }
}

/// The result of an operation on two values. Comparisons and divisions take them as signed (DWARF 5, 2.5.1).
fn of_two(operation: &Operation<Slice<'_>>, left: u64, right: u64) -> Option<u64> {
    let (signed_left, signed_right) = (left as i64, right as i64);
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    Some(match operation {
        Operation::And => left & right,
        Operation::Or => left | right,
        Operation::Xor => left ^ right,
        Operation::Plus => left.wrapping_add(right),
        Operation::Minus => left.wrapping_sub(right),
        Operation::Mul => left.wrapping_mul(right),
        Operation::Div => signed_left.checked_div(signed_right)? as u64,
        Operation::Mod => left.checked_rem(right)?,
        Operation::Shl => left.checked_shl(shift).unwrap_or(0),
        Operation::Shr => left.checked_shr(shift).unwrap_or(0),
        Operation::Shra => (signed_left >> shift.min(63)) as u64,
        Operation::Eq => (left == right).into(),
        Operation::Ne => (left != right).into(),
        Operation::Ge => (signed_left >= signed_right).into(),
        Operation::Gt => (signed_left > signed_right).into(),
        Operation::Le => (signed_left <= signed_right).into(),
        Operation::Lt => (signed_left < signed_right).into(),
        _ => return None,
    })
}

/// The first bytes of a word in memory, as a number.
fn low_bytes(endian: Endian, word: u64, size: u8) -> Option<u64> {
    let unused = 64 - 8 * u32::from(size.min(8));
    match (size, endian) {
        (0 | 9.., _) => None,
        (_, Endian::Little) => Some(word << unused >> unused),
        (_, Endian::Big) => Some(word >> unused),
    }
}

#[cfg(test)]
mod tests {
    use super::Place;
    use crate::abi::Abi;
    use crate::registers::Registers;
    use gimli::{EhFrame, RunTimeEndian, UnwindExpression};

    /// The value of an expression that starts with 100 on its stack. The word at an address is the address
    /// plus 1.
    fn value(expression: &[u8]) -> Option<u64> {
        let section = EhFrame::new(expression, RunTimeEndian::Little);
        let place = Place { abi: Abi::Amd64, section: &section, pc: 0x40, topmost: true, signal: false };
        let whole = UnwindExpression { offset: 0, length: expression.len() };
        let registers = Registers::new(0x1000, 0x2000, None);
        place.evaluate(&whole, Some(100), &registers, &mut |address| Ok(address + 1)).ok()
    }

    #[test]
    fn operations_compute_what_dwarf_says() {
        let (lit, breg_sp, breg_pc) = (|number: u8| 0x30 + number, 0x77, 0x80);
        // Without operations; an address; a word; its lowest byte; the program counter.
        assert_eq!(value(&[]), Some(100));
        assert_eq!(value(&[breg_sp, 8]), Some(0x1008));
        assert_eq!(value(&[breg_sp, 8, 0x06, 0x23, 8]), Some(0x1011));
        assert_eq!(value(&[breg_sp, 8, 0x94, 1]), Some(9));
        assert_eq!(value(&[breg_pc, 0]), Some(0x40));
        // minus, div, mod, shl, shra of -1, not, neg, abs, ge of -1.
        assert_eq!(value(&[lit(1), 0x1c]), Some(99));
        assert_eq!(value(&[lit(7), 0x1b]), Some(14));
        assert_eq!(value(&[lit(7), 0x1d]), Some(2));
        assert_eq!(value(&[lit(2), 0x24]), Some(400));
        assert_eq!(value(&[0x09, 0xff, lit(3), 0x26]), Some(u64::MAX));
        assert_eq!(value(&[0x20]), Some(!100));
        assert_eq!(value(&[0x1f, 0x19]), Some(100));
        assert_eq!(value(&[0x09, 0xff, lit(0), 0x2a]), Some(0));
        // dup and plus; over; swap; rot moves the topmost value below two others.
        assert_eq!(value(&[0x12, 0x22]), Some(200));
        assert_eq!(value(&[lit(1), 0x14]), Some(100));
        assert_eq!(value(&[lit(1), 0x16]), Some(100));
        assert_eq!(value(&[lit(1), lit(2), 0x17]), Some(1));
        // Jumps over `lit5`, if the number is not 0.
        assert_eq!(value(&[lit(1), 0x28, 1, 0, lit(5)]), Some(100));
        assert_eq!(value(&[lit(0), 0x28, 1, 0, lit(5)]), Some(5));
    }

    #[test]
    fn an_expression_is_bounded() {
        // A jump to itself; one to before the start; more values than there is room for; too few; a division
        // by 0; an operation that has no place here (DW_OP_call_frame_cfa); one that does not exist.
        assert_eq!(value(&[0x2f, 0xfd, 0xff]), None);
        assert_eq!(value(&[0x2f, 0, 0x80]), None);
        assert_eq!(value(&[0x30; 40]), None);
        assert_eq!(value(&[0x13, 0x22]), None);
        assert_eq!(value(&[0x30, 0x1b]), None);
        assert_eq!(value(&[0x9c]), None);
        assert_eq!(value(&[0x01]), None);
    }
}
