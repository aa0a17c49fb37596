//! AArch64. Its instructions are little-endian even if data is not.

use super::effect::Effect;
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
    const ENTRY: State = ENTRY;

    fn padding(code: &[u8]) -> usize {
        // nop, and zeros.
        if matches!(instruction(code), Some(0xd503_201f | 0)) { 4 } else { 0 }
    }

    /// Entries compute an address in `x16` and load it to `x17`, perhaps after a mark for branches. The first
    /// entry stores `x16` and the link register.
    fn at_plt_entry(code: &[u8]) -> Option<State> {
        const BTI: u32 = 0xd503_245f;
        let skip = if instruction(code) == Some(BTI) { 4 } else { 0 };
        let (first, second) = (instruction(code.get(skip..)?)?, instruction(code.get(skip + 4..)?)?);
        let address = |word: u32| word & 0x9f00_001f == 0x9000_0010;
        let load = |word: u32| word & 0xffc0_03ff == 0xf940_0211;
        let is_entry = address(first) && load(second) || first == 0xa9bf_7bf0 && address(second);
        is_entry.then_some(ENTRY)
    }

    fn step(code: &[u8], address: u64, effects: &mut Vec<Effect>) -> Step {
        let Some(word) = instruction(code) else { return Step { length: code.len(), flow: Flow::Invalid } };
        note(word, effects);
        Step { length: 4, flow: flow(word, address) }
    }

    fn ends_with_call(code: &[u8]) -> bool {
        let last = code.len().checked_sub(4).and_then(|start| instruction(&code[start..]));
        last.is_some_and(|word| matches!(flow(word, 0), Flow::Call(_)))
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
        // b, bl
        _ if word & 0xfc00_0000 == 0x1400_0000 => Flow::Jump(Some(to(0, 26))),
        _ if word & 0xfc00_0000 == 0x9400_0000 => Flow::Call(Some(to(0, 26))),
        // b.cond, cbz and cbnz, tbz and tbnz
        _ if word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 => {
            Flow::Branch(to(5, 19))
        }
        _ if word & 0x7e00_0000 == 0x3600_0000 => Flow::Branch(to(5, 14)),
        // blr, br, ret, and all three with authentication
        _ if word & 0xffff_fc1f == 0xd63f_0000 || word & 0xfeff_f800 == 0xd63f_0800 => Flow::Call(None),
        _ if word & 0xffff_fc1f == 0xd61f_0000 || word & 0xfeff_f800 == 0xd61f_0800 => Flow::Jump(None),
        _ if word & 0xffff_fc1f == 0xd65f_0000 || word & 0xffff_fbff == 0xd65f_0bff => Flow::Return,
        // udf, brk
        _ if word >> 16 == 0 || word & 0xffe0_001f == 0xd420_0000 => Flow::Trap,
        _ => Flow::Next,
    }
}

fn note(word: u32, effects: &mut Vec<Effect>) {
    match word {
        _ if matches!(flow(word, 0), Flow::Call(_)) => effects.push(Effect::OverwriteLink),
        // paciasp, pacibsp; autiasp, autibsp
        0xd503_233f | 0xd503_237f => effects.push(Effect::Sign(true)),
        0xd503_23bf | 0xd503_23ff => effects.push(Effect::Sign(false)),
        _ if pair(word, effects) || single(word, effects) => {}
        _ => effects.extend(sum(word)),
    }
}

/// `stp` and `ldp` on the stack. With vector registers, only the change of the stack pointer matters.
fn pair(word: u32, effects: &mut Vec<Effect>) -> bool {
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
    access(effects, kind >> 1 & 3, offset, load, if general { &registers[..] } else { &[] })
}

/// `str` and `ldr` of one register on the stack.
fn single(word: u32, effects: &mut Vec<Effect>) -> bool {
    let register = [word & 31];
    if word >> 5 & 31 != STACK_POINTER {
        return false;
    }
    let load = word & 0x0040_0000 != 0;
    match word & 0xffa0_0c00 {
        0xfc00_0400 => access(effects, 1, field(word, 12, 9), load, &[]),
        0xfc00_0c00 => access(effects, 3, field(word, 12, 9), load, &[]),
        0xf800_0400 => access(effects, 1, field(word, 12, 9), load, &register),
        0xf800_0c00 => access(effects, 3, field(word, 12, 9), load, &register),
        _ if word & 0xff80_0000 == 0xf900_0000 => {
            access(effects, 2, 8 * i64::from(word >> 10 & 0xfff), load, &register)
        }
        _ => false,
    }
}

/// Stores registers to the stack or loads them from there. `mode` is the instruction's addressing mode: 1
/// adds the offset to the stack pointer afterwards, 3 adds it before, and the others do not change the stack
/// pointer.
fn access(effects: &mut Vec<Effect>, mode: u32, offset: i64, load: bool, registers: &[u32]) -> bool {
    if mode == 3 {
        effects.push(Effect::MoveStackPointer(offset));
    }
    let start = if mode == 2 || mode == 0 { offset } else { 0 };
    for (place, &register) in (0..).zip(registers) {
        let at = start + 8 * place;
        match (register, load) {
            (FRAME_POINTER, false) => effects.push(Effect::SaveFramePointer(at)),
            (FRAME_POINTER, true) => effects.push(Effect::LoadFramePointer(at)),
            (LINK, false) => effects.push(Effect::SaveReturnAddress(at)),
            (LINK, true) => effects.push(Effect::LoadReturnAddress(at)),
            _ => {}
        }
    }
    if mode == 1 {
        effects.push(Effect::MoveStackPointer(offset));
    }
    true
}

/// Additions, and everything else that sets the stack pointer or the frame pointer.
fn sum(word: u32) -> Option<Effect> {
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
        (Some(by), STACK_POINTER, STACK_POINTER) => Some(Effect::MoveStackPointer(by)),
        (Some(by), STACK_POINTER, FRAME_POINTER) => Some(Effect::StackPointerFromFramePointer(by)),
        (Some(by), FRAME_POINTER, STACK_POINTER) => Some(Effect::FramePointerFromStackPointer(by)),
        (Some(_), STACK_POINTER, _) => Some(Effect::LoseStackPointer),
        (Some(_), FRAME_POINTER, _) => Some(Effect::LoseFramePointer),
        (None, STACK_POINTER, _) if other => Some(Effect::LoseStackPointer),
        // mov x29, x..
        (None, FRAME_POINTER, _) if word & 0xffe0_ffe0 == 0xaa00_03e0 => Some(Effect::LoseFramePointer),
        _ => None,
    }
}
