//! Thunks and veneers of AArch64.
//!
//! `bl` and `b` reach 128 MiB. A thunk takes a call further; ELF for the Arm 64-bit Architecture, "Call and
//! Jump relocations", lets it change x16 and x17. Veneers move instructions away from the places where
//! erratum 843419 of Cortex-A53 could strike.

use super::instructions::*;
use super::relocs::{Field, encode};
use crate::arch::thunk::{ThunkForm, ThunkSpec};

/// Reach of calls and of near thunks.
pub const SPEC: ThunkSpec = ThunkSpec { reach: 1 << 27, near_reach: 1 << 32, align: 8 };

/// `adr x17, .-16`: the address of the thunk.
const OWN_ADDRESS: u32 = 0x10ff_ff91;
/// `add x16, x16, x17`
const ADD_X16_X17: u32 = 0x8b11_0210;

/// Size in bytes.
pub fn size(form: ThunkForm) -> u64 {
    match form {
        ThunkForm::Near => 12,
        ThunkForm::Far => 28,
        ThunkForm::PaddedNear => 16,
        ThunkForm::PaddedFar => 32,
        ThunkForm::LandingPad | ThunkForm::Moved => 8,
    }
}

/// Writes a thunk at address `place` that leads to `target`. For a [`ThunkForm::Moved`], `out` already begins
/// with the instruction.
pub fn write(form: ThunkForm, out: &mut [u8], place: u64, target: u64) {
    let jump = |at: u64| encode(Field::Branch26, B, target.wrapping_sub(place.wrapping_add(at)) as i64);
    match form {
        ThunkForm::Near => {
            let pages = (target & !0xfff).wrapping_sub(place & !0xfff) as i64;
            let low = encode(Field::Low12(0), ADD_X16, target as i64);
            store(out, &[encode(Field::Page, ADRP_X16, pages), low, BR_X16]);
        }
        ThunkForm::Far => {
            // The distance is in instructions, because code may be unreadable.
            let distance = target.wrapping_sub(place);
            let part = |move_part: u32, number: u32| {
                move_part | 16 | number << 21 | ((distance >> (16 * number)) as u32 & 0xffff) << 5
            };
            let [a, b, c, d] = [part(MOVZ, 0), part(MOVK, 1), part(MOVK, 2), part(MOVK, 3)];
            store(out, &[a, b, c, d, OWN_ADDRESS, ADD_X16_X17, BR_X16]);
        }
        ThunkForm::PaddedNear | ThunkForm::PaddedFar => {
            store(out, &[BTI_C]);
            let form = if form == ThunkForm::PaddedNear { ThunkForm::Near } else { ThunkForm::Far };
            write(form, out.get_mut(4..).unwrap_or_default(), place.wrapping_add(4), target);
        }
        ThunkForm::LandingPad => store(out, &[BTI_C, jump(4)]),
        ThunkForm::Moved => store(out.get_mut(4..).unwrap_or_default(), &[jump(4)]),
    }
}

fn store(out: &mut [u8], instructions: &[u32]) {
    for (place, instruction) in out.chunks_exact_mut(4).zip(instructions) {
        place.copy_from_slice(&instruction.to_le_bytes());
    }
}

/// Whether an indirect jump through x16 may land on this code. Its first instruction must be `bti c`,
/// `bti jc`, or one that signs the return address.
pub fn is_landing_pad(code: &[u8]) -> bool {
    const BTI_JC: u32 = 0xd503_24df;
    const PACIASP: u32 = 0xd503_233f;
    const PACIBSP: u32 = 0xd503_237f;
    matches!(at(code, 0), Some(BTI_C | BTI_JC | PACIASP | PACIBSP))
}

/// `ldr` or `str` of any register, with an unsigned offset.
fn is_offset_access(instruction: u32) -> bool {
    instruction & 0x3b00_0000 == 0x3900_0000
}

/// Whether the erratum concerns this load or store. It does not concern loads of more than one register.
fn is_access(instruction: u32) -> bool {
    let loads = instruction & 1 << 22 != 0;
    let pair = instruction & 0x3a00_0000 == 0x2800_0000;
    let structure = instruction & 0xbe00_0000 == 0x0c00_0000;
    instruction & 0x0a00_0000 == 0x0800_0000 && !(loads && (pair || structure))
}

fn is_branch(instruction: u32) -> bool {
    // b and bl; b.cond; cbz and tbz; br, blr and ret.
    instruction & 0x7c00_0000 == 0x1400_0000
        || instruction & 0xfe00_0000 == 0x5400_0000
        || instruction & 0x7c00_0000 == 0x3400_0000
        || instruction & 0xfe00_0000 == 0xd600_0000
}

/// `adr` or `adrp`
fn is_address(instruction: u32) -> bool {
    instruction & 0x1f00_0000 == 0x1000_0000
}

/// Finds the accesses that Cortex-A53 may carry out at a wrong address (Arm erratum 843419). The processor
/// may err after an `adrp` in one of the last two words of a page, an access, perhaps one more instruction,
/// and an access relative to the page that the `adrp` computed. `address` is that of the code; the result is
/// the offsets of the last accesses.
pub fn find_erratum_sequences(code: &[u8], address: u64, found: &mut Vec<u64>) {
    let mut offset = 0xff8u64.wrapping_sub(address) & 0xfff;
    if offset == 0xffc {
        // The code begins with the last word of a page.
        found.extend(sequence_at(code, 0));
    }
    while offset < code.len() as u64 {
        found.extend(sequence_at(code, offset));
        found.extend(sequence_at(code, offset + 4));
        offset += 0x1000;
    }
}

fn sequence_at(code: &[u8], offset: u64) -> Option<u64> {
    let offset = usize::try_from(offset).ok()?;
    let first = at(code, offset).filter(|&word| is_adrp(word))?;
    at(code, offset + 4).filter(|&word| is_access(word))?;
    let uses = |word: u32| is_offset_access(word) && base(word) == destination(first);
    let third = at(code, offset + 8)?;
    if uses(third) {
        return Some(offset as u64 + 8);
    }
    let keeps_page = !is_address(third) || destination(third) != destination(first);
    let passes = !is_branch(third) && keeps_page;
    let fourth = at(code, offset + 12).filter(|&word| passes && uses(word));
    fourth.map(|_| offset as u64 + 12)
}

/// Replaces an access by a branch, if relocation has left it an access. (A relaxed load may be none.)
pub fn replace_by_branch(section: &mut [u8], offset: usize, distance: i64) {
    if at(section, offset).is_some_and(is_offset_access)
        && let Some(place) = section.get_mut(offset..).and_then(<[u8]>::first_chunk_mut::<4>)
    {
        *place = encode(Field::Branch26, B, distance).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn forms() {
        let mut out = [0; 28];
        write(ThunkForm::Near, &mut out, 0x1000, 0x1000_2abc);
        assert_eq!(words(&out)[..3], [0xb008_0010, 0x912a_f210, BR_X16]);
        write(ThunkForm::Far, &mut out, 0x1000, 0x3_0002_1001);
        let moves = [0xd280_0030, 0xf2a0_0050, 0xf2c0_0070, 0xf2e0_0010];
        assert_eq!(words(&out), [&moves[..], &[0x10ff_ff91, 0x8b11_0210, BR_X16]].concat());
        let mut padded = [0; 32];
        write(ThunkForm::PaddedFar, &mut padded, 0xffc, 0x3_0002_1001);
        assert_eq!(words(&padded), [&[BTI_C], &words(&out)[..]].concat());
        write(ThunkForm::LandingPad, &mut out, 0x1000, 0x2000);
        assert_eq!(words(&out)[..2], [BTI_C, 0x1400_03ff]);
        write(ThunkForm::Moved, &mut out, 0x2000, 0x1004);
        assert_eq!(words(&out)[..2], [BTI_C, 0x17ff_fc00]);
    }

    const ADRP_X1: u32 = 0x9000_0001;
    const STR_X5_X6: u32 = 0xf900_00c5;
    const LDR_X2_X1: u32 = 0xf940_0422;

    fn errata(address: u64, code: &[u32]) -> Vec<u64> {
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = Vec::new();
        find_erratum_sequences(&bytes, address, &mut found);
        found
    }

    #[test]
    fn erratum_sequences() {
        let short = [ADRP_X1, STR_X5_X6, LDR_X2_X1, NOP];
        let long = [ADRP_X1, STR_X5_X6, NOP, LDR_X2_X1];
        assert_eq!(errata(0x1ff8, &short), [8]);
        assert_eq!(errata(0x1ffc, &short), [8]);
        assert_eq!(errata(0x1ffc, &long), [12]);
        assert_eq!(errata(0x1ff4, &[&[NOP][..], &long].concat()), [16]);
        assert_eq!(errata(0x2000, &short), [0; 0]);
        assert_eq!(errata(0x1ff8, &[ADRP_X1, STR_X5_X6, B, LDR_X2_X1]), [0; 0]);
        assert_eq!(errata(0x1ff8, &[ADRP_X1, NOP, LDR_X2_X1, NOP]), [0; 0]);
        // An `adrp` to another register keeps the page; one to the same register does not.
        assert_eq!(errata(0x1ff8, &[ADRP_X1, STR_X5_X6, ADRP_X1 + 2, LDR_X2_X1]), [12]);
        assert_eq!(errata(0x1ff8, &[ADRP_X1, STR_X5_X6, ADRP_X1, LDR_X2_X1]), [0; 0]);
        let other_register = LDR_X2_X1 + (1 << 5);
        assert_eq!(errata(0x1ff8, &[ADRP_X1, STR_X5_X6, other_register, NOP]), [0; 0]);
    }
}
