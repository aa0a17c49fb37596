//! s390x.

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

    fn at_entry(_: &[u8]) -> State {
        ENTRY
    }

    fn step(code: &[u8], address: u64, state: &mut State) -> Step {
        // The first two bits give the length.
        let length = match code.first() {
            Some(0..0x40) => 2,
            Some(0x40..0xc0) => 4,
            _ => 6,
        };
        let Some(code) = code.get(..length) else { return Step { length: code.len(), flow: Flow::Invalid } };
        apply(code, state);
        Step { length, flow: flow(code, address) }
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
        (0x07, _) if mask == 15 => Flow::Away(None),
        // brc and brcl
        (0xa7, 4) if mask == 15 => Flow::Away(Some(near())),
        (0xc0, 4) if mask == 15 => Flow::Away(Some(far())),
        (0xa7, 4 | 6 | 7) if mask != 0 => Flow::Branch(near()),
        (0xc0, 4) if mask != 0 => Flow::Branch(far()),
        // Comparisons that branch.
        (0xec, _) if matches!(code[5], 0x44 | 0x45 | 0x64 | 0x65 | 0x76 | 0x77 | 0x7c..=0x7f) => {
            Flow::Branch(near())
        }
        _ => Flow::Next,
    }
}

fn apply(code: &[u8], state: &mut State) {
    let (to, second) = (u16::from(code[1] >> 4), u16::from(code[1] & 15));
    let base = code.get(2).map_or(0, |byte| u16::from(byte >> 4));
    let short = || i64::from(big_half(code, 2).unwrap_or(0) & 0xfff);
    // The displacement of long instructions: its low 12 bits, then its high 8 bits.
    let long = || signed(u64::from(code[4]) << 12 | short() as u64, 20);
    match (code[0], code.get(5)) {
        // stmg, lmg; stg, lg
        (0xeb, Some(0x24)) if base == STACK_POINTER => save(state, to, second, long()),
        (0xeb, Some(0x04)) => load(state, to, second),
        (0xe3, Some(0x24)) if base == STACK_POINTER && second == 0 => save(state, to, to, long()),
        (0xe3, Some(0x04)) => load(state, to, to),
        // lay, la
        (0xe3, Some(0x71)) => set(state, to, (second == 0).then_some((base, long()))),
        (0x41, _) => set(state, to, (second == 0).then_some((base, short()))),
        // aghi, agfi
        (0xa7, _) if second == 11 => {
            set(state, to, Some((to, signed(big_half(code, 2).unwrap_or(0).into(), 16))));
        }
        (0xc2, _) if second == 8 => {
            let high = u64::from(big_half(code, 2).unwrap_or(0));
            set(state, to, Some((to, signed(high << 16 | u64::from(big_half(code, 4).unwrap_or(0)), 32))));
        }
        // lgr. This code also has other operations on two registers of 8 bytes.
        (0xb9, _) if code[1] == 0x04 => {
            let (to, from) = (u16::from(code[3] >> 4), u16::from(code[3] & 15));
            set(state, to, Some((from, 0)));
        }
        (0xb9, _) if matches!(code[1], 0x08 | 0x09) => set(state, u16::from(code[3] >> 4), None),
        // brasl, bras; basr, unless it only loads its own address
        (0xc0 | 0xa7, _) if second == 5 && to == LINK => state.call(),
        (0x0d, _) if to == LINK && second != 0 => state.call(),
        _ => {}
    }
}

fn save(state: &mut State, first: u16, last: u16, displacement: i64) {
    let place = |register: u16| displacement + 8 * i64::from(register.wrapping_sub(first));
    if (first..=last).contains(&FRAME_POINTER) {
        state.save_frame_pointer(place(FRAME_POINTER));
    }
    if (first..=last).contains(&LINK) {
        state.save_return_address(place(LINK));
    }
}

fn load(state: &mut State, first: u16, last: u16) {
    let registers = first..=last;
    if registers.contains(&STACK_POINTER) {
        *state = ENTRY;
        return;
    }
    if registers.contains(&FRAME_POINTER) {
        state.restore_frame_pointer();
    }
    if registers.contains(&LINK) {
        state.restore_return_address();
    }
}

/// Sets a register to another register plus a constant. `None`: to any other value.
fn set(state: &mut State, to: u16, value: Option<(u16, i64)>) {
    match (to, value) {
        (STACK_POINTER, Some((STACK_POINTER, by))) => state.move_stack_pointer(by),
        (STACK_POINTER, Some((FRAME_POINTER, by))) => state.stack_pointer_from_frame_pointer(by),
        (STACK_POINTER, _) => state.lose_stack_pointer(),
        (FRAME_POINTER, Some((STACK_POINTER, by))) => state.frame_pointer_from_stack_pointer(by),
        (FRAME_POINTER, _) => state.lose_frame_pointer(),
        _ => {}
    }
}
