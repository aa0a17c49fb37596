//! AArch64. Its instructions are little-endian even if data is not.

use super::frame::State;
use super::machine::{Flow, Machine, Step, signed};

/// AArch64.
pub struct AArch64;

/// At a function's first instruction, nothing has been saved, and the return address is in `x30`.
const ENTRY: State = State::new(0, None);
const FRAME_POINTER: u32 = 29;
const LINK: u32 = 30;
const STACK_POINTER: u32 = 31;

impl Machine for AArch64 {
    fn padding(code: &[u8]) -> usize {
        // nop, and zeros.
        if matches!(instruction(code), Some(0xd503_201f | 0)) { 4 } else { 0 }
    }

    fn at_entry(_: &[u8]) -> State {
        ENTRY
    }

    fn step(code: &[u8], address: u64, state: &mut State) -> Step {
        let Some(word) = instruction(code) else { return Step { length: code.len(), flow: Flow::Invalid } };
        apply(word, state);
        Step { length: 4, flow: flow(word, address) }
    }
}

fn instruction(code: &[u8]) -> Option<u32> {
    code.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Bits of a word, as a signed number.
fn field(word: u32, shift: u32, bits: u32) -> i64 {
    signed(u64::from(word >> shift), bits)
}

fn flow(word: u32, address: u64) -> Flow {
    let to = |shift: u32, bits: u32| address.wrapping_add_signed(4 * field(word, shift, bits));
    match word {
        // b
        _ if word & 0xfc00_0000 == 0x1400_0000 => Flow::Away(Some(to(0, 26))),
        // b.cond, cbz and cbnz, tbz and tbnz
        _ if word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 => {
            Flow::Branch(to(5, 19))
        }
        _ if word & 0x7e00_0000 == 0x3600_0000 => Flow::Branch(to(5, 14)),
        // br, ret, and both with authentication
        _ if word & 0xffbf_fc1f == 0xd61f_0000
            || word & 0xfeff_f800 == 0xd61f_0800
            || word & 0xffff_fbff == 0xd65f_0bff =>
        {
            Flow::Away(None)
        }
        // udf, brk
        _ if word >> 16 == 0 || word & 0xffe0_001f == 0xd420_0000 => Flow::Trap,
        _ => Flow::Next,
    }
}

fn apply(word: u32, state: &mut State) {
    let call = word & 0xfc00_0000 == 0x9400_0000
        || word & 0xffff_fc1f == 0xd63f_0000
        || word & 0xfeff_f800 == 0xd63f_0800;
    match word {
        _ if call => state.call(),
        // paciasp, pacibsp; autiasp, autibsp
        0xd503_233f | 0xd503_237f => state.sign(true),
        0xd503_23bf | 0xd503_23ff => state.sign(false),
        _ if pair(word, state) || single(word, state) => {}
        _ => sum(word, state),
    }
}

/// `stp` and `ldp` on the stack. With vector registers, only the change of the stack pointer matters.
fn pair(word: u32, state: &mut State) -> bool {
    let (kind, register) = (word >> 22, |shift: u32| word >> shift & 31);
    let size = match kind >> 3 {
        // General registers; vector registers of 8 and 16 bytes.
        0b101_0100 | 0b011_0110 => 8,
        0b101_0110 => 16,
        _ => return false,
    };
    if register(5) != STACK_POINTER {
        return false;
    }
    let (general, load, offset) = (kind >> 3 == 0b101_0100, kind & 1 == 1, size * field(word, 15, 7));
    let registers = [register(0), register(10)];
    // Bits 23 and 24: post-index, signed offset, or pre-index.
    access(state, kind >> 1 & 3, offset, load, if general { &registers[..] } else { &[] })
}

/// `str` and `ldr` of one register on the stack.
fn single(word: u32, state: &mut State) -> bool {
    let register = [word & 31];
    if word >> 5 & 31 != STACK_POINTER {
        return false;
    }
    let load = word & 0x0040_0000 != 0;
    match word & 0xffa0_0c00 {
        0xfc00_0400 => access(state, 1, field(word, 12, 9), load, &[]),
        0xfc00_0c00 => access(state, 3, field(word, 12, 9), load, &[]),
        0xf800_0400 => access(state, 1, field(word, 12, 9), load, &register),
        0xf800_0c00 => access(state, 3, field(word, 12, 9), load, &register),
        _ if word & 0xff80_0000 == 0xf900_0000 => {
            access(state, 2, 8 * i64::from(word >> 10 & 0xfff), load, &register)
        }
        _ => false,
    }
}

/// Stores registers to the stack or loads them from there. `mode` is the instruction's addressing mode: 1
/// adds the offset to the stack pointer afterwards, 3 adds it before, and the others do not change the stack
/// pointer.
fn access(state: &mut State, mode: u32, offset: i64, load: bool, registers: &[u32]) -> bool {
    if mode == 3 {
        state.move_stack_pointer(offset);
    }
    let start = if mode == 2 || mode == 0 { offset } else { 0 };
    for (place, &register) in (0..).zip(registers) {
        match (register, load) {
            (FRAME_POINTER, false) => state.save_frame_pointer(start + 8 * place),
            (FRAME_POINTER, true) => state.restore_frame_pointer(),
            (LINK, false) => state.save_return_address(start + 8 * place),
            (LINK, true) => state.restore_return_address(),
            _ => {}
        }
    }
    if mode == 1 {
        state.move_stack_pointer(offset);
    }
    true
}

/// Additions, and everything else that sets the stack pointer or the frame pointer.
fn sum(word: u32, state: &mut State) {
    let (to, from) = (word & 31, word >> 5 & 31);
    let constant = i64::from(word >> 10 & 0xfff) << if word & 0x0040_0000 != 0 { 12 } else { 0 };
    let by = match word & 0xff80_0000 {
        0x9100_0000 => Some(constant),
        0xd100_0000 => Some(-constant),
        _ => None,
    };
    // add and sub with a register, and with a mask. In these, 31 is the stack pointer.
    let other = word & 0xbfe0_0000 == 0x8b20_0000 || word & 0xff80_0000 == 0x9200_0000;
    match (by, to, from) {
        (Some(by), STACK_POINTER, STACK_POINTER) => state.move_stack_pointer(by),
        (Some(by), STACK_POINTER, FRAME_POINTER) => state.stack_pointer_from_frame_pointer(by),
        (Some(by), FRAME_POINTER, STACK_POINTER) => state.frame_pointer_from_stack_pointer(by),
        (Some(_), STACK_POINTER, _) => state.lose_stack_pointer(),
        (Some(_), FRAME_POINTER, _) => state.lose_frame_pointer(),
        (None, STACK_POINTER, _) if other => state.lose_stack_pointer(),
        // mov x29, x..
        (None, FRAME_POINTER, _) if word & 0xffe0_ffe0 == 0xaa00_03e0 => state.lose_frame_pointer(),
        _ => {}
    }
}
