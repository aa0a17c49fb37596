//! Procedure linkage tables of AArch64 (System V ABI for the Arm 64-bit Architecture, "Procedure
//! Linkage Table", and its forms for branch protection).
//!
//! An entry leaves the address of its GOT slot in x16. The header passes it on, and the dynamic linker knows
//! by it which function to bind. Entries that begin with a landing pad or authenticate the address are two
//! instructions longer.

use super::instructions::{ADD_X16, ADRP_X16, BR_X17, BTI_C, LDR_X17_X16, NOP};
use super::relocs::{Field, encode};
use crate::arch::target::{PltEntry, PltFrame, PltPart, PltShape};

/// `stp x16, x30, [sp, #-16]!`
const SAVE: u32 = 0xa9bf_7bf0;
/// `autia1716`
const AUTHENTICATE: u32 = 0xd503_219f;

const PLAIN: PltShape = PltShape {
    header: 32,
    entry: 16,
    direct_entry: 16,
    split: false,
    align: 16,
    landing_pad: false,
    authenticated: false,
};

/// The tables with landing pads or authentication.
pub const fn shape(landing_pad: bool, authenticated: bool) -> PltShape {
    let entry = if landing_pad || authenticated { 24 } else { 16 };
    let direct_entry = if landing_pad { 24 } else { 16 };
    PltShape { entry, direct_entry, landing_pad, authenticated, ..PLAIN }
}

/// `adrp x16, slot; ldr x17, [x16, slot]; add x16, x16, slot`, for an `adrp` at `place`.
fn load(place: u64, slot: u64) -> [u32; 3] {
    let pages = (slot & !0xfff).wrapping_sub(place & !0xfff) as i64;
    [
        encode(Field::Page, ADRP_X16, pages),
        encode(Field::Low12(3), LDR_X17_X16, slot as i64),
        encode(Field::Low12(0), ADD_X16, slot as i64),
    ]
}

/// Fills `out` with these instructions, then with `nop`.
fn store(out: &mut [u8], instructions: impl IntoIterator<Item = u32>) {
    let instructions = instructions.into_iter().chain(std::iter::repeat(NOP));
    for (place, instruction) in out.chunks_exact_mut(4).zip(instructions) {
        place.copy_from_slice(&instruction.to_le_bytes());
    }
}

/// Writes the head of `.plt`. `reserved` is the address of `.got.plt`, whose third word points to the
/// resolver.
pub fn write_header(out: &mut [u8], plt: u64, reserved: u64, shape: &PltShape) {
    let pad = shape.landing_pad.then_some(BTI_C);
    let place = plt.wrapping_add(if shape.landing_pad { 8 } else { 4 });
    let load = load(place, reserved.wrapping_add(16));
    store(out, pad.into_iter().chain([SAVE]).chain(load).chain([BR_X17]));
}

/// Writes an entry that jumps to the address in `slot`.
fn write(out: &mut [u8], entry: u64, slot: u64, landing_pad: bool, authenticated: bool) {
    let pad = landing_pad.then_some(BTI_C);
    let load = load(entry.wrapping_add(if landing_pad { 4 } else { 0 }), slot);
    let authenticate = authenticated.then_some(AUTHENTICATE);
    store(out, pad.into_iter().chain(load).chain(authenticate).chain([BR_X17]));
}

/// An entry of `.plt`.
pub fn write_entry(out: &mut [u8], entry: PltEntry, shape: &PltShape) {
    write(out, entry.entry, entry.slot, shape.landing_pad, shape.authenticated);
}

/// An entry of `.plt.got`. It authenticates nothing: the dynamic linker signs only addresses in `.got.plt`.
pub fn write_direct(out: &mut [u8], entry: u64, slot: u64, shape: &PltShape) {
    write(out, entry, slot, shape.landing_pad, false);
}

/// The caller's frame in the PLT. Only the head changes it: it saves x16 and the return address in 16 bytes
/// of stack.
pub fn frames(part: PltPart, shape: &PltShape) -> &'static [PltFrame] {
    const UNTOUCHED: PltFrame = PltFrame { start: 0, pushed: 0, return_address: None };
    const fn saved(start: u8) -> PltFrame {
        PltFrame { start, pushed: 16, return_address: Some(-8) }
    }
    const OF_HEADER: &[PltFrame] = &[UNTOUCHED, saved(4)];
    const OF_HEADER_WITH_PAD: &[PltFrame] = &[UNTOUCHED, saved(8)];
    match part {
        PltPart::Header if shape.landing_pad => OF_HEADER_WITH_PAD,
        PltPart::Header => OF_HEADER,
        PltPart::Lazy | PltPart::Direct => &[UNTOUCHED],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    const ENTRY: PltEntry = PltEntry { plt: 0x1000, entry: 0x1020, slot: 0x2_0018, index: 0 };

    #[test]
    fn plain() {
        let mut out = [0; 48];
        write_header(&mut out[..32], 0x1000, 0x2_0000, &shape(false, false));
        write_entry(&mut out[32..], ENTRY, &shape(false, false));
        let header = [0xa9bf_7bf0, 0xf000_00f0, 0xf940_0a11, 0x9100_4210, 0xd61f_0220, NOP, NOP, NOP];
        assert_eq!(words(&out)[..8], header);
        assert_eq!(words(&out)[8..], [0xf000_00f0, 0xf940_0e11, 0x9100_6210, 0xd61f_0220]);
    }

    #[test]
    fn protected() {
        let mut out = [0; 24];
        write_entry(&mut out, ENTRY, &shape(true, false));
        assert_eq!(words(&out), [BTI_C, 0xf000_00f0, 0xf940_0e11, 0x9100_6210, 0xd61f_0220, NOP]);
        write_entry(&mut out, ENTRY, &shape(false, true));
        assert_eq!(words(&out), [0xf000_00f0, 0xf940_0e11, 0x9100_6210, AUTHENTICATE, 0xd61f_0220, NOP]);
        write_entry(&mut out, ENTRY, &shape(true, true));
        assert_eq!(words(&out), [BTI_C, 0xf000_00f0, 0xf940_0e11, 0x9100_6210, AUTHENTICATE, 0xd61f_0220]);
    }
}
