//! The jumps at the end of code.
//!
//! An instruction cannot be read backwards, but a jump to another section has a relocation for its operand,
//! of a type that only branches have. The byte before it is then the opcode.
//!
//! A branch inside the section has no relocation. If one leads to the jump, the conditional branch before the
//! jump must stay as it is: turned around, it lets code that comes to the jump's place run on into what
//! follows. Where instructions begin is not known, so any bytes that could be such a branch count as one.

use crate::arch::target::{ConditionalTail, Tail};

/// `jmp rel32`.
const JMP: u8 = 0xe9;
/// The length of the operand of `jmp rel32`.
const OPERAND: usize = 4;
/// The first byte of `jcc rel32`, and the length of it.
const TWO_BYTES: u8 = 0x0f;
const JCC_LENGTH: usize = 6;
/// `bnd`, a prefix of branches. Without its jump, it would belong to the next instruction.
const BND: u8 = 0xf2;

/// The `jmp rel32` with its operand at this offset, and the `jcc rel32` before it. Only instructions that do
/// nothing may follow it, as they do where a compiler aligns the next block.
pub fn of(code: &[u8], operand: usize) -> Option<Tail> {
    let start = operand.checked_sub(1)?;
    let behind = code.get(operand.checked_add(OPERAND)?..)?;
    let has_prefix = start.checked_sub(1).is_some_and(|before| code[before] == BND);
    if code[start] != JMP || has_prefix || !is_padding(behind) {
        return None;
    }
    let conditional = start.checked_sub(JCC_LENGTH).and_then(|first| {
        let condition = first + 1;
        let is_jcc = code[first] == TWO_BYTES && code[condition] & 0xf0 == 0x80;
        // The lowest bit of a condition negates it.
        let tail = || ConditionalTail { operand: first + 2, condition, opposite: code[condition] ^ 1 };
        (is_jcc && !may_lead_to(&code[..first], start)).then(tail)
    });
    Some(Tail { start, conditional })
}

/// Whether code may contain a branch to an offset behind its end.
fn may_lead_to(code: &[u8], target: usize) -> bool {
    // jcc rel8, loop and jrcxz, jmp rel8
    let is_short = |opcode: u8| matches!(opcode, 0x70..=0x7f | 0xe0..=0xe3 | 0xeb);
    let short = |operand: usize| {
        i8::try_from(target - operand - 1).is_ok_and(|distance| code[operand] == distance.cast_unsigned())
            && is_short(code[operand - 1])
    };
    let near = |operand: usize| {
        let distance = code.get(operand..).and_then(|rest| rest.first_chunk::<OPERAND>());
        let leads = distance.is_some_and(|&distance| {
            usize::try_from(u32::from_le_bytes(distance)) == Ok(target - operand - OPERAND)
        });
        // jmp rel32, jcc rel32
        let is_jcc = || operand > 1 && code[operand - 2] == TWO_BYTES && code[operand - 1] & 0xf0 == 0x80;
        leads && (code[operand - 1] == JMP || is_jcc())
    };
    (1..code.len()).any(|operand| short(operand) || near(operand))
}

/// Whether code is nothing but the forms of `nop` that assemblers and compilers pad with.
fn is_padding(mut code: &[u8]) -> bool {
    while !code.is_empty() {
        let prefixes = code.iter().take_while(|byte| matches!(byte, 0x66 | 0x2e)).count();
        let length = match code[prefixes..] {
            [0x90, ..] => 1,
            // The byte behind the opcode says how long the operand in memory is.
            [0x0f, 0x1f, 0x00, ..] => 3,
            [0x0f, 0x1f, 0x40, ..] => 4,
            [0x0f, 0x1f, 0x44, ..] => 5,
            [0x0f, 0x1f, 0x80, ..] => 7,
            [0x0f, 0x1f, 0x84, ..] => 8,
            _ => return false,
        };
        let Some(rest) = code.get(prefixes + length..) else { return false };
        code = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Target;
    use crate::arch::x86_64::X86_64;

    #[test]
    fn a_jump_at_the_end_is_found() {
        assert_eq!(of(&[0x90, 0xe9, 0, 0, 0, 0], 2), Some(Tail { start: 1, conditional: None }));
        assert_eq!(of(&[0xe9, 1, 2, 3, 4], 1), Some(Tail { start: 0, conditional: None }));
        for (other, operand) in [
            (&[][..], 0),
            (&[0xe9, 0, 0, 0], 1),
            (&[0xe8, 0, 0, 0, 0], 1),
            (&[0xe9, 0, 0, 0, 0, 0xc3], 1),
            (&[0xe9, 0, 0, 0, 0], 0),
            (&[0xe9, 0, 0, 0, 0], usize::MAX),
            (&[0xeb, 0], 1),
        ] {
            assert_eq!(of(other, operand), None, "{other:x?} {operand}");
        }
    }

    #[test]
    fn padding_may_follow() {
        let jump = [0xe9, 0, 0, 0, 0];
        for padding in <X86_64 as Target>::CODE_FILL {
            let code = [&jump[..], padding, padding].concat();
            assert_eq!(of(&code, 1), Some(Tail { start: 0, conditional: None }), "{padding:x?}");
            let cut = &code[..code.len() - 1];
            assert_eq!(of(cut, 1).is_some(), padding.len() == 1, "{padding:x?}");
        }
        let data16 = [0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        assert!(of(&[&jump[..], &data16].concat(), 1).is_some());
        for other in [&[0xcc][..], &[0x66], &[0x0f, 0x1f, 0x05, 0, 0, 0, 0], &[0x90, 0x55]] {
            assert_eq!(of(&[&jump[..], other].concat(), 1), None, "{other:x?}");
        }
    }

    #[test]
    fn a_jump_with_a_prefix_stays() {
        assert_eq!(of(&[0xf2, 0xe9, 0, 0, 0, 0], 2), None);
    }

    #[test]
    fn a_branch_to_the_jump_leaves_the_condition_alone() {
        let flips = |before: &[u8]| {
            let code = [before, &[0x0f, 0x84, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0]].concat();
            of(&code, before.len() + 7).unwrap().conditional.is_some()
        };
        // To the jump over 6 bytes of jcc, and over a nop.
        for to_jump in
            [&[0x74, 6][..], &[0xeb, 6], &[0xe3, 7, 0x90], &[0xe9, 6, 0, 0, 0], &[0x0f, 0x8f, 6, 0, 0, 0]]
        {
            assert!(!flips(to_jump), "{to_jump:x?}");
            assert!(!flips(&[&[0x55], to_jump].concat()), "{to_jump:x?}");
        }
        // Elsewhere, with a relocation, and numbers of other instructions.
        for other in [&[][..], &[0x74, 0], &[0xe9, 0, 0, 0, 0], &[0x0f, 0x8f, 7, 0, 0, 0], &[0x83, 6], &[6]] {
            assert!(flips(other), "{other:x?}");
        }
        let far = [&[0x74, 127][..], &[0x90; 121]].concat();
        assert!(!flips(&far) && flips(&[&far[..], &[0x90]].concat()));
    }

    #[test]
    fn each_condition_has_its_opposite() {
        for (condition, opposite) in [(0x84, 0x85), (0x85, 0x84), (0x8a, 0x8b), (0x8f, 0x8e), (0x80, 0x81)] {
            let code = [0x90, 0x0f, condition, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
            let conditional = ConditionalTail { operand: 3, condition: 2, opposite };
            let tail = Tail { start: 7, conditional: Some(conditional) };
            assert_eq!(of(&code, 8), Some(tail), "{condition:x}");
        }
        for other in [[0x0f, 0x7f], [0x0f, 0x90], [0x90, 0x84]] {
            let code = [&other[..], &[0, 0, 0, 0, 0xe9, 0, 0, 0, 0]].concat();
            assert_eq!(of(&code, 7), Some(Tail { start: 6, conditional: None }), "{other:x?}");
        }
    }
}
