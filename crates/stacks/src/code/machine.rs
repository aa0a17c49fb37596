//! What following the frame needs to know of a machine's instructions.

use super::effect::Effect;
use super::frame::State;
use sframe_format::abi::Register;
use std::collections::BTreeSet;

/// Which instruction runs after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next one.
    Next,
    /// The next one, or the one at an address.
    Branch(u64),
    /// The next one, when the function at an address has returned. `None`: the address is in a register or
    /// in memory.
    Call(Option<u64>),
    /// The one at an address. `None`: the address is in a register or in memory.
    Jump(Option<u64>),
    /// The caller's.
    Return,
    /// None, because the instruction ends the program.
    Trap,
    /// The bytes are not an instruction.
    Invalid,
}

impl Flow {
    /// Whether the next instruction may run after this one.
    pub fn continues(self) -> bool {
        matches!(self, Self::Next | Self::Branch(_) | Self::Call(_))
    }

    /// The address to which a jump or a branch leads.
    pub fn target(self) -> Option<u64> {
        match self {
            Self::Branch(target) | Self::Jump(Some(target)) => Some(target),
            _ => None,
        }
    }
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Length in bytes, at least 1.
    pub length: usize,
    pub flow: Flow,
}

/// A machine's instructions.
pub trait Machine {
    /// The state at a function's first instruction, and in front of the instruction that returns.
    const ENTRY: State;
    /// Length in bytes of the padding instruction at the start of `code`. 0: there is none.
    fn padding(code: &[u8]) -> usize;
    /// If the code is an entry of a PLT, the state in front of it. Nothing in the PLT says where an entry
    /// begins, and most entries do not return.
    fn at_plt_entry(code: &[u8]) -> Option<State>;
    /// Reads the instruction at the start of `code`, and adds its effects on the frame.
    fn step(code: &[u8], address: u64, effects: &mut Vec<Effect>) -> Step;
    /// If the instruction at the start of `code` sets a register to the stack pointer plus an offset, or
    /// the stack pointer to a register plus an offset: that register, and which of the two.
    fn holds(_code: &[u8]) -> Option<(Register, Effect)> {
        None
    }
    /// Adds an effect for each of these registers to which the instruction at the start of `code` may give
    /// another value.
    fn overwritten(_code: &[u8], registers: &BTreeSet<Register>, effects: &mut Vec<Effect>) {
        effects.extend(registers.iter().map(|&register| Effect::Overwrite(register)));
    }
    /// If the instruction at the start of `code` takes a word off the stack into a register, or puts one
    /// there from it: which of the two.
    fn moves_word(_code: &[u8]) -> Option<Effect> {
        None
    }
    /// Whether the last instruction of `code` is a call.
    fn ends_with_call(code: &[u8]) -> bool;
}

/// The first half-word of big-endian code.
pub fn big_half(code: &[u8], at: usize) -> Option<u16> {
    code.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// A number of `bits` bits, sign-extended.
pub fn signed(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}
