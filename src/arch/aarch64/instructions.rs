//! Instructions that the linker reads and writes (Arm Architecture Reference Manual, C6.2). The fields that
//! it fills are zero.

/// `nop`
pub const NOP: u32 = 0xd503_201f;
/// `bti c`: indirect calls may land here, and so may jumps through x16 or x17.
pub const BTI_C: u32 = 0xd503_245f;
/// `adrp x16, ...`
pub const ADRP_X16: u32 = 0x9000_0010;
/// `add x16, x16, ...`
pub const ADD_X16: u32 = 0x9100_0210;
/// `ldr x17, [x16, ...]`
pub const LDR_X17_X16: u32 = 0xf940_0211;
/// `br x16`
pub const BR_X16: u32 = 0xd61f_0200;
/// `br x17`
pub const BR_X17: u32 = 0xd61f_0220;
/// `b ...`
pub const B: u32 = 0x1400_0000;
/// `adr x0, ...`
pub const ADR: u32 = 0x1000_0000;
/// `adrp x0, ...`
pub const ADRP: u32 = 0x9000_0000;
/// `add x0, x0, ...`
pub const ADD: u32 = 0x9100_0000;
/// `add x0, x0, ..., lsl #12`
pub const ADD_HIGH: u32 = 0x9140_0000;
/// `ldr x0, [x0, ...]`
pub const LDR: u32 = 0xf940_0000;
/// `ldr x0, ...`, relative to the instruction
pub const LDR_LITERAL: u32 = 0x5800_0000;
/// `movz x0, ..., lsl #16`
pub const MOVZ_HIGH: u32 = 0xd2a0_0000;
/// `movz x0, ...`
pub const MOVZ: u32 = 0xd280_0000;
/// `movk x0, ...`
pub const MOVK: u32 = 0xf280_0000;
/// `mrs x0, tpidr_el0`
pub const MRS: u32 = 0xd53b_d040;
/// `add x0, x1, x0`
pub const ADD_X0_X1_X0: u32 = 0x8b00_0020;

/// The instruction at this offset.
#[inline]
pub fn at(bytes: &[u8], offset: usize) -> Option<u32> {
    let word = bytes.get(offset..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*word))
}

/// Whether an instruction is `b` or `bl`.
pub fn is_direct_branch(instruction: u32) -> bool {
    instruction & 0x7c00_0000 == B
}

/// The offset of the `b` that stands at this offset, alone or behind a `bti`.
pub fn jump_at(code: &[u8], offset: usize) -> Option<usize> {
    // `bti`, `bti c`, `bti j`, `bti jc`: two bits say which branches may land.
    let is_pad = |instruction: u32| instruction & !0xc0 == BTI_C & !0xc0;
    let start = if is_pad(at(code, offset)?) { offset + 4 } else { offset };
    let is_jump = at(code, start)? & 0xfc00_0000 == B;
    is_jump.then_some(start)
}

/// The register in bits 4:0: the destination of nearly all instructions, and the source of a store.
#[inline]
pub fn destination(instruction: u32) -> u32 {
    instruction & 0x1f
}

/// The register in bits 9:5: the base address or the first source.
#[inline]
pub fn base(instruction: u32) -> u32 {
    instruction >> 5 & 0x1f
}

/// `adrp`
#[inline]
pub fn is_adrp(instruction: u32) -> bool {
    instruction & 0x9f00_0000 == ADRP
}

/// `add` of an unshifted immediate to a 64-bit register.
#[inline]
pub fn is_add(instruction: u32) -> bool {
    instruction & 0xffc0_0000 == ADD
}

/// `ldr` of a 64-bit register with an unsigned offset.
#[inline]
pub fn is_load(instruction: u32) -> bool {
    instruction & 0xffc0_0000 == LDR
}

/// `bl`
#[inline]
pub fn is_call(instruction: u32) -> bool {
    instruction & 0xfc00_0000 == 0x9400_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_found_behind_landing_pads() {
        let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let (bl, ret, bti) = (0x9400_0000, 0xd65f_03c0, 0xd503_241f);
        assert_eq!(jump_at(&code(&[ret, B | 7]), 4), Some(4));
        for pad in [bti, BTI_C, bti | 0x80, bti | 0xc0] {
            assert_eq!(jump_at(&code(&[pad, B]), 0), Some(4), "{pad:#x}");
        }
        assert_eq!(jump_at(&code(&[NOP, B]), 0), None);
        assert_eq!(jump_at(&code(&[bl]), 0), None);
        assert_eq!(jump_at(&code(&[BTI_C]), 0), None);
        assert_eq!(jump_at(&[], 0), None);
        assert!(is_direct_branch(bl) && is_direct_branch(B | 1) && !is_direct_branch(ret));
    }
}
