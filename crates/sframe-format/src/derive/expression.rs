//! Reads the DWARF expressions that have an SFrame form.

use gimli::{EndianSlice, Operation, RunTimeEndian};

use crate::abi::{Abi, Register};
use crate::rules::{CfaRule, Frame, Location, RegisterRule, Row, Rules};

/// The value of an expression, as a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Affine {
    /// `None`: the value that was on the stack at the start, which is the CFA.
    pub register: Option<Register>,
    pub offset: i64,
    /// Whether the value is the word in memory at the sum.
    pub dereference: bool,
}

type Expression<'data> = gimli::Expression<EndianSlice<'data, RunTimeEndian>>;

const ENCODING: gimli::Encoding =
    gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };

/// Reads an expression that is `base + offset`, or the word in memory there. `initial` says whether the CFA
/// is on the stack at the start. It is for rules of registers (DWARF 5, 6.4.2.3).
pub(super) fn affine(expression: Expression<'_>, initial: bool) -> Option<Affine> {
    let mut operations = expression.operations(ENCODING);
    let cfa = Affine { register: None, offset: 0, dereference: false };
    let mut value = initial.then_some(cfa);
    let mut constant: Option<i64> = None;
    while let Some(operation) = operations.next().ok()? {
        match operation {
            Operation::RegisterOffset { register, offset, .. } if constant.is_none() => {
                value = Some(Affine { register: Some(register.0.into()), offset, dereference: false });
            }
            Operation::SignedConstant { value } if constant.is_none() => constant = Some(value),
            Operation::UnsignedConstant { value } if constant.is_none() => constant = Some(value as i64),
            // The operation adds to the top of the stack. There, a pending constant is above the value.
            Operation::PlusConstant { value: addend } => match constant {
                Some(pending) => constant = Some(pending.checked_add(addend as i64)?),
                None => value = Some(plus(value?, addend as i64)?),
            },
            Operation::Plus => value = Some(plus(value?, constant.take()?)?),
            Operation::Minus => value = Some(plus(value?, constant.take()?.checked_neg()?)?),
            Operation::Deref { size: 8, space: false, .. } if constant.is_none() && !value?.dereference => {
                value = Some(Affine { dereference: true, ..value? });
            }
            Operation::Nop => {}
            _ => return None,
        }
    }
    value.filter(|_| constant.is_none())
}

fn plus(value: Affine, addend: i64) -> Option<Affine> {
    let offset = value.offset.checked_add(addend)?;
    (!value.dereference).then_some(Affine { offset, ..value })
}

/// The CFA of PLT entries as x86 linkers describe it: `rsp + offset + ((rip & mask) >= from) << shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PltExpression {
    register: Register,
    offset: i64,
    /// Size of an entry in bytes.
    pub repeat_size: u8,
    from: u8,
    pushed: i64,
}

impl PltExpression {
    /// Reads `breg(SP) offset; breg(PC) 0; lit mask; and; lit from; ge; lit shift; shl; plus`.
    pub fn read(abi: Abi, expression: Expression<'_>) -> Option<Self> {
        let mut operations = expression.operations(ENCODING);
        let mut next = || operations.next().ok().flatten();
        let stack = next()?;
        let pc = next()?;
        let (Some(mask), Operation::And) = (literal(&next()?), next()?) else { return None };
        let (Some(from), Operation::Ge) = (literal(&next()?), next()?) else { return None };
        let (Some(shift), Operation::Shl, Operation::Plus, None) =
            (literal(&next()?), next()?, next()?, next())
        else {
            return None;
        };
        let Operation::RegisterOffset { register, offset, .. } = stack else { return None };
        let Operation::RegisterOffset { register: counter, offset: 0, .. } = pc else { return None };
        let block = u8::try_from(mask).ok()?.checked_add(1)?;
        let fits = block.is_power_of_two() && from < mask && shift < 8;
        let registers = u32::from(register.0) == abi.stack_pointer()
            && u32::from(counter.0) == abi.return_address()
            && abi == Abi::Amd64;
        (fits && registers).then_some(Self {
            register: register.0.into(),
            offset,
            repeat_size: block,
            from: from as u8,
            pushed: 1 << shift,
        })
    }

    /// The rows of one entry.
    pub fn rows(&self, abi: Abi) -> [Row; 2] {
        let row = |start: u8, offset| {
            let cfa = CfaRule::register(self.register, offset);
            let ra = RegisterRule::Saved(Location::at_cfa(abi.fixed_ra_offset().into()));
            let frame = Frame { cfa, ra, fp: RegisterRule::Unchanged, mangled: false };
            Row { start: start.into(), rules: Rules::Frame(frame) }
        };
        [row(0, self.offset), row(self.from, self.offset.wrapping_add(self.pushed))]
    }
}

fn literal(operation: &Operation<EndianSlice<'_, RunTimeEndian>>) -> Option<u64> {
    match operation {
        Operation::UnsignedConstant { value } => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Affine, affine};
    use gimli::{
        DW_OP_breg7, DW_OP_const8s, DW_OP_lit8, DW_OP_minus, DW_OP_plus, DW_OP_plus_uconst, EndianSlice,
        Expression, RunTimeEndian,
    };

    /// Reads a CFA.
    fn cfa(bytes: &[u8]) -> Option<Affine> {
        affine(Expression(EndianSlice::new(bytes, RunTimeEndian::Little)), false)
    }

    #[test]
    fn a_constant_is_added_to_the_top_of_the_stack() {
        let rsp = |offset| Some(Affine { register: Some(7), offset, dereference: false });
        let [base, eight, add] = [DW_OP_breg7.0, DW_OP_lit8.0, DW_OP_plus_uconst.0];
        assert_eq!(cfa(&[base, 32, add, 8]), rsp(40));
        assert_eq!(cfa(&[base, 32, eight, add, 8, DW_OP_minus.0]), rsp(16));
        assert_eq!(cfa(&[base, 32, eight, add, 8, DW_OP_plus.0]), rsp(48));
        assert_eq!(cfa(&[base, 32, eight, DW_OP_minus.0, add, 8]), rsp(32));
        assert_eq!(cfa(&[base, 32, eight, add, 8]), None);
    }

    #[test]
    fn a_constant_that_overflows_is_no_offset() {
        let mut bytes = [0u8; 14];
        bytes[..3].copy_from_slice(&[DW_OP_breg7.0, 0, DW_OP_const8s.0]);
        bytes[3..11].copy_from_slice(&i64::MAX.to_le_bytes());
        bytes[11..].copy_from_slice(&[DW_OP_plus_uconst.0, 1, DW_OP_minus.0]);
        assert_eq!(cfa(&bytes), None);
        bytes[12] = 0;
        assert_eq!(cfa(&bytes).map(|cfa| cfa.offset), Some(-i64::MAX));
    }
}
