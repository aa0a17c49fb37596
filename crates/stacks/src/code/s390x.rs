//! s390x.

use super::effect::Effect;
use super::frame::State;
use super::machine::{Flow, Machine, Step, big_half, signed};

/// s390x.
pub struct S390x;

/// The CFA is above the register save area of 160 bytes that every caller provides. The return address is in
/// `%r14`.
const ENTRY: State = State::new(160, None);
const FRAME_POINTER: u16 = 11;
const LINK: u16 = 14;
const STACK_POINTER: u16 = 15;

impl Machine for S390x {
    const ENTRY: State = ENTRY;

    fn padding(code: &[u8]) -> usize {
        match code {
            // nopr, nop, jgnop
            [0x07, second, ..] if second >> 4 == 0 => 2,
            [0x47, second, ..] if second >> 4 == 0 => 4,
            [0xc0, 0x04, ..] => 6,
            [0, 0, ..] => 2,
            _ => 0,
        }
    }

    /// Entries load an address of the GOT and a word there, and branch to it. The first entry stores `%r1` in
    /// the register save area.
    fn at_plt_entry(code: &[u8]) -> Option<State> {
        let is_entry = matches!(
            code,
            [0xc0, 0x10, _, _, _, _, 0xe3, 0x10, 0x10, 0, 0, 0x04, 0x07, 0xf1, ..]
                | [0xe3, 0x10, 0xf0, 0x38, 0, 0x24, ..]
        );
        is_entry.then_some(ENTRY)
    }

    fn step(code: &[u8], address: u64, effects: &mut Vec<Effect>) -> Step {
        let length = length_of(code);
        let Some(code) = code.get(..length) else { return Step { length: code.len(), flow: Flow::Invalid } };
        note(code, effects);
        Step { length, flow: flow(code, address) }
    }

    fn ends_with_call(code: &[u8]) -> bool {
        [2, 4, 6].into_iter().any(|length| {
            let last = code.len().checked_sub(length).map(|start| &code[start..]);
            last.is_some_and(|last| {
                let fits = length == length_of(last) && matches!(last[0], 0x0d | 0xa7 | 0xc0);
                fits && matches!(flow(last, 0), Flow::Call(_))
            })
        })
    }
}

/// The length of an instruction in bytes. Its first two bits give it.
fn length_of(code: &[u8]) -> usize {
    match code.first() {
        Some(0..0x40) => 2,
        Some(0x40..0xc0) => 4,
        _ => 6,
    }
}

fn flow(code: &[u8], address: u64) -> Flow {
    let near = || {
        let halves = big_half(code, 2).unwrap_or(0);
        address.wrapping_add_signed(2 * signed(halves.into(), 16))
    };
    let far = || {
        let halves =
            u64::from(big_half(code, 2).unwrap_or(0)) << 16 | u64::from(big_half(code, 4).unwrap_or(0));
        address.wrapping_add_signed(2 * signed(halves, 32))
    };
    let mask = code[1] >> 4;
    match (code[0], code[1] & 15) {
        (0, _) => Flow::Trap,
        // br; other masks are conditional returns.
        (0x07, 14) if mask == 15 => Flow::Return,
        (0x07, _) if mask == 15 => Flow::Jump(None),
        // brasl, bras; basr, unless it only loads its own address
        (0xc0, 5) if u16::from(mask) == LINK => Flow::Call(Some(far())),
        (0xa7, 5) if u16::from(mask) == LINK => Flow::Call(Some(near())),
        (0x0d, second) if u16::from(mask) == LINK && second != 0 => Flow::Call(None),
        // brc and brcl
        (0xa7, 4) if mask == 15 => Flow::Jump(Some(near())),
        (0xc0, 4) if mask == 15 => Flow::Jump(Some(far())),
        (0xa7, 4 | 6 | 7) if mask != 0 => Flow::Branch(near()),
        (0xc0, 4) if mask != 0 => Flow::Branch(far()),
        // Comparisons that branch.
        (0xec, _) if matches!(code[5], 0x44 | 0x45 | 0x64 | 0x65 | 0x76 | 0x77 | 0x7c..=0x7f) => {
            Flow::Branch(near())
        }
        _ => Flow::Next,
    }
}

fn note(code: &[u8], effects: &mut Vec<Effect>) {
    let (to, second) = (u16::from(code[1] >> 4), u16::from(code[1] & 15));
    let base = code.get(2).map_or(0, |byte| u16::from(byte >> 4));
    let short = || i64::from(big_half(code, 2).unwrap_or(0) & 0xfff);
    // The displacement of long instructions: its low 12 bits, then its high 8 bits.
    let long = || signed(u64::from(code[4]) << 12 | short() as u64, 20);
    match (code[0], code.get(5)) {
        // stmg, lmg; stg, lg
        (0xeb, Some(0x24)) if base == STACK_POINTER => save(effects, to, second, long()),
        (0xeb, Some(0x04)) if second == STACK_POINTER => effects.push(Effect::LeaveFrame),
        (0xeb, Some(0x04)) if base == STACK_POINTER => load(effects, to, second, long()),
        (0xe3, Some(0x24)) if base == STACK_POINTER && second == 0 => save(effects, to, to, long()),
        (0xe3, Some(0x04)) if to == STACK_POINTER => effects.push(Effect::LeaveFrame),
        (0xe3, Some(0x04)) if base == STACK_POINTER && second == 0 => load(effects, to, to, long()),
        // lay, la
        (0xe3, Some(0x71)) => set(effects, to, (second == 0).then_some((base, long()))),
        (0x41, _) => set(effects, to, (second == 0).then_some((base, short()))),
        // aghi, agfi
        (0xa7, _) if second == 11 => {
            set(effects, to, Some((to, signed(big_half(code, 2).unwrap_or(0).into(), 16))));
        }
        (0xc2, _) if second == 8 => {
            let high = u64::from(big_half(code, 2).unwrap_or(0));
            set(effects, to, Some((to, signed(high << 16 | u64::from(big_half(code, 4).unwrap_or(0)), 32))));
        }
        // lgr. This code also has other operations on two registers of 8 bytes.
        (0xb9, _) if code[1] == 0x04 => {
            let (to, from) = (u16::from(code[3] >> 4), u16::from(code[3] & 15));
            set(effects, to, Some((from, 0)));
        }
        (0xb9, _) if matches!(code[1], 0x08 | 0x09) => set(effects, u16::from(code[3] >> 4), None),
        _ if matches!(flow(code, 0), Flow::Call(_)) => effects.push(Effect::OverwriteLink),
        _ => {}
    }
}

fn save(effects: &mut Vec<Effect>, first: u16, last: u16, displacement: i64) {
    let place = |register: u16| displacement + 8 * i64::from(register.wrapping_sub(first));
    if (first..=last).contains(&FRAME_POINTER) {
        effects.push(Effect::SaveFramePointer(place(FRAME_POINTER)));
    }
    if (first..=last).contains(&LINK) {
        effects.push(Effect::SaveReturnAddress(place(LINK)));
    }
}

fn load(effects: &mut Vec<Effect>, first: u16, last: u16, displacement: i64) {
    let registers = first..=last;
    let place = |register: u16| displacement + 8 * i64::from(register.wrapping_sub(first));
    if registers.contains(&FRAME_POINTER) {
        effects.push(Effect::LoadFramePointer(place(FRAME_POINTER)));
    }
    if registers.contains(&LINK) {
        effects.push(Effect::LoadReturnAddress(place(LINK)));
    }
}

/// Sets a register to another register plus a constant. `None`: to any other value.
fn set(effects: &mut Vec<Effect>, to: u16, value: Option<(u16, i64)>) {
    effects.extend(match (to, value) {
        (STACK_POINTER, Some((STACK_POINTER, by))) => Some(Effect::MoveStackPointer(by)),
        (STACK_POINTER, Some((FRAME_POINTER, by))) => Some(Effect::StackPointerFromFramePointer(by)),
        (STACK_POINTER, _) => Some(Effect::LoseStackPointer),
        (FRAME_POINTER, Some((STACK_POINTER, by))) => Some(Effect::FramePointerFromStackPointer(by)),
        (FRAME_POINTER, _) => Some(Effect::LoseFramePointer),
        _ => None,
    });
}
