//! The interface of the sweep to a machine's instructions.

use super::frame::State;

/// Which instruction is executed after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The one behind it.
    Next,
    /// The one behind it, or the one at an address.
    Branch(u64),
    /// The one at an address; for a return or an indirect jump, any.
    Away(Option<u64>),
    /// None: it ends the program.
    Trap,
    /// The bytes are no instruction.
    Invalid,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Bytes; at least 1.
    pub length: usize,
    pub flow: Flow,
}

/// A machine's instructions.
pub trait Machine {
    /// Length in bytes of the instruction at the start, if it is padding; else 0.
    fn padding(code: &[u8]) -> usize;
    /// The state at a function's first instruction.
    fn at_entry(code: &[u8]) -> State;
    /// Whether the code is an entry of a PLT whose entries change the stack, so that the state behind the
    /// entry before does not hold for it.
    fn is_plt_entry(_code: &[u8]) -> bool {
        false
    }
    /// Applies the instruction at the start of `code` to the state.
    fn step(code: &[u8], address: u64, state: &mut State) -> Step;
}

/// The first half-word of big-endian code.
pub fn big_half(code: &[u8], at: usize) -> Option<u16> {
    code.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// A number of `bits` bits, with its sign.
pub fn signed(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}
