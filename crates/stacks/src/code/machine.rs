//! What the sweep needs to know of a machine's instructions.

use super::frame::State;

/// Which instruction runs after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next one.
    Next,
    /// The next one, or the one at an address.
    Branch(u64),
    /// The one at an address. `None` after a return or an indirect jump, which may lead anywhere.
    Away(Option<u64>),
    /// None, because the instruction ends the program.
    Trap,
    /// The bytes are not an instruction.
    Invalid,
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
    /// Length in bytes of the padding instruction at the start of `code`. 0: there is none.
    fn padding(code: &[u8]) -> usize;
    /// The state at a function's first instruction.
    fn at_entry(code: &[u8]) -> State;
    /// Whether the code is an entry of a PLT whose entries change the stack. Then the state after the
    /// previous entry does not hold for it.
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

/// A number of `bits` bits, sign-extended.
pub fn signed(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}
