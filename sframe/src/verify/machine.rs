//! Evaluates rules on a made-up machine.
//!
//! Are `rbp + 16` and a DWARF expression that pushes 16 and adds rbp the same rule? Their texts differ, and
//! no text comparison knows all forms. But two rules are the same if they give the same values. So both
//! sides, DWARF and SFrame, are evaluated on a machine whose registers and memory contain hashes. If two
//! rules use different registers, different words of memory or different offsets, their values differ, except
//! with a probability of 2⁻⁶⁴. Small or equal register values would let wrong rules pass.

use super::cfi::{Bytes, CfiRow, DwarfCfa, DwarfRule};
use gimli::{
    EhFrame, EvaluationResult, Location as DwarfLocation, RegisterRule as Rule, UnwindExpression, Value,
};
use sframe_format::abi::Register;
use sframe_format::{Abi, Base, Frame, Location, RegisterRule};
use std::cell::Cell;

/// The most operations that an expression may take; it may contain an endless loop.
const EXPRESSION_LIMIT: u32 = 10_000;

/// A machine in some state; the seed determines all registers and all memory.
pub struct Machine {
    abi: Abi,
    seed: u64,
    pc: u64,
    pc_was_read: Cell<bool>,
}

/// The caller's frame according to one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// The canonical frame address.
    pub cfa: u64,
    /// The return address; `None` means that there is no caller.
    pub ra: Option<u64>,
    /// The frame pointer; `None` if it is lost.
    pub fp: Option<u64>,
    /// The stack pointer; `None` if DWARF saves it like any other register, or if there is no caller.
    pub sp: Option<u64>,
}

/// Why DWARF rules give no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No CFA is defined.
    NoCfa,
    /// An expression that cannot be evaluated.
    Expression,
    /// A rule without a definition.
    Rule,
}

impl Machine {
    /// The machine of a seed, before it executes the instruction at `pc`.
    pub fn new(abi: Abi, seed: u64, pc: u64) -> Self {
        Self { abi, seed, pc, pc_was_read: Cell::new(false) }
    }

    /// Whether an expression read the program counter. If so, its value holds for this program counter only.
    pub fn pc_was_read(&self) -> bool {
        self.pc_was_read.get()
    }

    /// Mixes all bits well (the finalizer of splitmix64).
    fn mix(&self, value: u64) -> u64 {
        let mut mixed = value.wrapping_add(self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn register(&self, number: Register) -> u64 {
        if self.abi == Abi::Amd64 && number == self.abi.return_address() {
            return self.pc;
        }
        self.mix(u64::from(number) << 32 | 0xffff)
    }

    fn memory(&self, address: u64) -> u64 {
        self.mix(self.mix(address))
    }

    /// The caller's frame according to SFrame.
    pub fn by_sframe(&self, frame: &Frame) -> Values {
        let sum = self.register(frame.cfa.register).wrapping_add_signed(frame.cfa.offset);
        let cfa = if frame.cfa.dereference { self.memory(sum) } else { sum };
        let value = |rule: &RegisterRule, number| match rule {
            RegisterRule::Unchanged => self.register(number),
            RegisterRule::Saved(Location { base, offset, dereference }) => {
                let base = match *base {
                    Base::Cfa => cfa,
                    Base::Register(number) => self.register(number),
                };
                let sum = base.wrapping_add_signed((*offset).into());
                if *dereference { self.memory(sum) } else { sum }
            }
        };
        Values {
            cfa,
            ra: Some(value(&frame.ra, self.abi.return_address())),
            fp: Some(value(&frame.fp, self.abi.frame_pointer())),
            sp: Some(cfa.wrapping_sub(self.abi.cfa_bias() as u64)),
        }
    }

    /// The caller's frame according to DWARF; `column` is the return address column.
    ///
    /// # Errors
    /// The rules do not give values.
    pub fn by_dwarf(
        &self,
        section: &EhFrame<Bytes<'_>>,
        row: &CfiRow,
        column: Register,
    ) -> Result<Values, Failure> {
        let undefined = matches!(row.ra, Some(Rule::Undefined));
        let cfa = match &row.cfa {
            // gimli returns this before any rule defines the CFA.
            DwarfCfa::RegisterAndOffset { register, offset: 0 } if register.0 == 0 => {
                return if undefined {
                    Ok(Values { cfa: 0, ra: None, fp: None, sp: None })
                } else {
                    Err(Failure::NoCfa)
                };
            }
            DwarfCfa::RegisterAndOffset { register, offset } => {
                self.register(register.0.into()).wrapping_add_signed(*offset)
            }
            DwarfCfa::Expression(expression) => self.evaluate(section, expression, None)?,
        };
        if undefined {
            return Ok(Values { cfa, ra: None, fp: None, sp: None });
        }
        let ra = self.dwarf_value(section, &row.ra, column, cfa)?;
        let fp = match &row.fp {
            Some(Rule::Undefined) => None,
            rule => Some(self.dwarf_value(section, rule, self.abi.frame_pointer(), cfa)?),
        };
        let sp = match &row.sp {
            // If the stack pointer was not saved, unwinders use the CFA (on s390x, the CFA less its bias).
            None | Some(Rule::SameValue | Rule::Undefined) => {
                Some(cfa.wrapping_sub(self.abi.cfa_bias() as u64))
            }
            // s390x functions save the stack pointer with the other registers. The saved value is the implied
            // one.
            Some(Rule::Offset(_) | Rule::Register(_)) if self.abi == Abi::S390x => None,
            rule => Some(self.dwarf_value(section, rule, self.abi.stack_pointer(), cfa)?),
        };
        Ok(Values { cfa, ra: Some(ra), fp, sp })
    }

    fn dwarf_value(
        &self,
        section: &EhFrame<Bytes<'_>>,
        rule: &DwarfRule,
        number: Register,
        cfa: u64,
    ) -> Result<u64, Failure> {
        Ok(match rule {
            None | Some(Rule::SameValue) => self.register(number),
            Some(Rule::Offset(offset)) => self.memory(cfa.wrapping_add_signed(*offset)),
            Some(Rule::ValOffset(offset)) => cfa.wrapping_add_signed(*offset),
            Some(Rule::Register(register)) => self.register(register.0.into()),
            Some(Rule::Expression(expression)) => {
                self.memory(self.evaluate(section, expression, Some(cfa))?)
            }
            Some(Rule::ValExpression(expression)) => self.evaluate(section, expression, Some(cfa))?,
            Some(Rule::Constant(value)) => *value,
            Some(_) => return Err(Failure::Rule),
        })
    }

    fn evaluate(
        &self,
        section: &EhFrame<Bytes<'_>>,
        expression: &UnwindExpression<usize>,
        cfa: Option<u64>,
    ) -> Result<u64, Failure> {
        let failed = |_: gimli::Error| Failure::Expression;
        let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 5 };
        let mut evaluation = expression.get(section).map_err(failed)?.evaluation(encoding);
        evaluation.set_max_iterations(EXPRESSION_LIMIT);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut state = evaluation.evaluate().map_err(failed)?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, space: None, .. } => {
                    let bits = 64u32.saturating_sub(8 * u32::from(size));
                    let word = self.memory(address) & u64::MAX.checked_shr(bits).unwrap_or(0);
                    evaluation.resume_with_memory(Value::Generic(word))
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let number = register.0.into();
                    // x86-64 alone has a DWARF number for the program counter.
                    let counter = self.abi == Abi::Amd64 && number == self.abi.return_address();
                    self.pc_was_read.set(self.pc_was_read.get() || counter);
                    let value = self.register(number);
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresCallFrameCfa => match cfa {
                    Some(cfa) => evaluation.resume_with_call_frame_cfa(cfa),
                    None => return Err(Failure::Expression),
                },
                _ => return Err(Failure::Expression),
            }
            .map_err(failed)?;
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                DwarfLocation::Address { address } => Ok(address),
                _ => Err(Failure::Expression),
            },
            _ => Err(Failure::Expression),
        }
    }
}
