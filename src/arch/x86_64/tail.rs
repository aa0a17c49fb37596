//! The jumps at the end of code.
//!
//! An instruction cannot be read backwards, but a jump to another section has a relocation for the last four
//! bytes, of a type that only branches have. The byte before it is then the opcode.

use crate::arch::target::{ConditionalTail, Tail};

/// `jmp rel32`.
const JMP: u8 = 0xe9;
/// The length of `jmp rel32` and of its operand.
const JMP_LENGTH: usize = 5;
/// The first byte of `jcc rel32`, and the length of it.
const TWO_BYTES: u8 = 0x0f;
const JCC_LENGTH: usize = 6;
/// `bnd`, a prefix of branches. Without its jump, it would belong to the next instruction.
const BND: u8 = 0xf2;

/// The `jmp rel32` at the end of some code, and the `jcc rel32` before it. The relocations must confirm them.
pub fn of(code: &[u8]) -> Option<Tail> {
    let start = code.len().checked_sub(JMP_LENGTH)?;
    if code[start] != JMP || start.checked_sub(1).is_some_and(|before| code[before] == BND) {
        return None;
    }
    let conditional = start.checked_sub(JCC_LENGTH).and_then(|first| {
        let condition = first + 1;
        let is_jcc = code[first] == TWO_BYTES && code[condition] & 0xf0 == 0x80;
        // The lowest bit of a condition negates it.
        is_jcc.then(|| ConditionalTail { operand: first + 2, condition, opposite: code[condition] ^ 1 })
    });
    Some(Tail { start, operand: start + 1, conditional })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_at_the_end_is_found() {
        assert_eq!(of(&[0x90, 0xe9, 0, 0, 0, 0]), Some(Tail { start: 1, operand: 2, conditional: None }));
        assert_eq!(of(&[0xe9, 1, 2, 3, 4]), Some(Tail { start: 0, operand: 1, conditional: None }));
        for other in [&[][..], &[0xe9, 0, 0, 0], &[0xe8, 0, 0, 0, 0], &[0xe9, 0, 0, 0, 0, 0x90], &[0xeb, 0]] {
            assert_eq!(of(other), None, "{other:x?}");
        }
    }

    #[test]
    fn a_jump_with_a_prefix_stays() {
        assert_eq!(of(&[0xf2, 0xe9, 0, 0, 0, 0]), None);
    }

    #[test]
    fn each_condition_has_its_opposite() {
        for (condition, opposite) in [(0x84, 0x85), (0x85, 0x84), (0x8a, 0x8b), (0x8f, 0x8e), (0x80, 0x81)] {
            let code = [0x90, 0x0f, condition, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
            let conditional = ConditionalTail { operand: 3, condition: 2, opposite };
            let tail = Tail { start: 7, operand: 8, conditional: Some(conditional) };
            assert_eq!(of(&code), Some(tail), "{condition:x}");
        }
        for other in [[0x0f, 0x7f], [0x0f, 0x90], [0x90, 0x84]] {
            let code = [&other[..], &[0, 0, 0, 0, 0xe9, 0, 0, 0, 0]].concat();
            assert_eq!(of(&code), Some(Tail { start: 6, operand: 7, conditional: None }), "{other:x?}");
        }
    }
}
