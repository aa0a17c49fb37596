//! Where a function's first instructions store the stack pointer that it was called with.
//!
//! They copy the stack pointer to a register, move it, perhaps align it, and store the copy in a word of the
//! frame. How far the word is from the stack pointer depends on the alignment.

use super::amd64::{constant, decode, sum};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use sframe_format::Abi;

/// The number of instructions that are read.
const MAX_INSTRUCTIONS: usize = 48;
/// They have at most this many bytes.
pub const MAX_BYTES: usize = MAX_INSTRUCTIONS * 8;

/// What an instruction does to the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add(i64),
    And(u64),
}

impl Change {
    fn apply(self, sp: u64) -> u64 {
        match self {
            Self::Add(by) => sp.wrapping_add_signed(by),
            Self::And(mask) => sp & mask,
        }
    }
}

/// The word in which a function keeps the stack pointer that it was called with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptStackPointer {
    /// What happens to the stack pointer before.
    changes: Vec<Change>,
    /// The offset of the word from the stack pointer then.
    offset: i64,
    /// The word's value minus the stack pointer at the first instruction.
    pub added: i64,
}

impl KeptStackPointer {
    /// Reads a function's first instructions. `None`: they store no stack pointer.
    pub fn read(abi: Abi, code: &[u8]) -> Option<Self> {
        if abi != Abi::Amd64 {
            return None;
        }
        let (mut changes, mut copies, mut at) = (Vec::new(), Vec::new(), 0);
        for _ in 0..MAX_INSTRUCTIONS {
            let instruction = decode(code.get(at..)?, 0);
            if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
                return None;
            }
            at += instruction.len();
            if let Some((register, offset)) = store_on_stack(&instruction)
                && let Some(&(_, added)) = copies.iter().find(|(copy, _)| *copy == register)
            {
                return Some(Self { changes, offset, added });
            }
            note(&instruction, &mut changes, &mut copies)?;
        }
        None
    }

    /// The address of the word if the function was called with this stack pointer.
    pub fn place(&self, sp: u64) -> u64 {
        let sp = self.changes.iter().fold(sp, |sp, change| change.apply(sp));
        sp.wrapping_add_signed(self.offset)
    }

    /// The lowest address that is part of the frame by then, if the function was called with this stack
    /// pointer.
    pub fn lowest(&self, sp: u64) -> u64 {
        let steps = self.changes.iter().scan(sp, |sp, change| {
            *sp = change.apply(*sp);
            Some(*sp)
        });
        steps.min().unwrap_or(sp)
    }
}

/// The register that an instruction stores in a word of the stack, and the word's offset from the stack
/// pointer.
fn store_on_stack(instruction: &Instruction) -> Option<(Register, i64)> {
    let is_store = instruction.mnemonic() == Mnemonic::Mov && instruction.op1_kind() == OpKind::Register;
    let (base, offset) = sum(instruction).filter(|_| is_store && instruction.op0_kind() == OpKind::Memory)?;
    (base == Register::RSP).then_some((instruction.op1_register(), offset))
}

/// Notes what an instruction does to the stack pointer and to its copies in registers: each register with the
/// difference from the stack pointer at the first instruction. `None`: the stack pointer is lost.
fn note(
    instruction: &Instruction,
    changes: &mut Vec<Change>,
    copies: &mut Vec<(Register, i64)>,
) -> Option<()> {
    let to = instruction.op0_register();
    if to != Register::RSP {
        changes.extend(match instruction.stack_pointer_increment() {
            0 => None,
            by => Some(Change::Add(by.into())),
        });
        let is_written = !matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Cmp | Mnemonic::Test);
        copies.retain(|(copy, _)| !is_written || copy.full_register() != to.full_register());
        let difference = match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op1_register() == Register::RSP => Some(0),
            Mnemonic::Lea => sum(instruction).filter(|sum| sum.0 == Register::RSP).map(|sum| sum.1),
            _ => None,
        };
        let added = changes.iter().try_fold(0i64, |added, change| match change {
            Change::Add(by) => added.checked_add(*by),
            Change::And(_) => None,
        });
        copies.extend(difference.zip(added).and_then(|(one, two)| Some((to, one.checked_add(two)?))));
        return Some(());
    }
    changes.push(match instruction.mnemonic() {
        Mnemonic::Sub => Change::Add(constant(instruction)?.checked_neg()?),
        Mnemonic::Add => Change::Add(constant(instruction)?),
        Mnemonic::And => Change::And(constant(instruction)? as u64),
        Mnemonic::Lea => Change::Add(sum(instruction).filter(|sum| sum.0 == Register::RSP)?.1),
        Mnemonic::Push => Change::Add(-8),
        _ => return None,
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::KeptStackPointer;
    use sframe_format::Abi;

    fn read(code: &[u8]) -> Option<KeptStackPointer> {
        KeptStackPointer::read(Abi::Amd64, code)
    }

    /// mov %rsp,%rax; push %rbx; push %r12; sub $0x520,%rsp; and $-2048,%rsp; add $0x480,%rsp;
    /// mov %rax,0x98(%rsp)
    const ALIGNS: [u8; 35] = [
        0x48, 0x89, 0xe0, 0x53, 0x41, 0x54, 0x48, 0x81, 0xec, 0x20, 5, 0, 0, 0x48, 0x81, 0xe4, 0, 0xf8, 0xff,
        0xff, 0x48, 0x81, 0xc4, 0x80, 4, 0, 0, 0x48, 0x89, 0x84, 0x24, 0x98, 0, 0, 0,
    ];

    #[test]
    fn the_word_is_where_the_first_instructions_store() {
        let kept = read(&ALIGNS).unwrap();
        assert_eq!((kept.place(0x7ffe_1238), kept.added), (0x7ffe_0800 + 0x480 + 0x98, 0));
        assert_eq!(kept.lowest(0x7ffe_1238), 0x7ffe_0800);
        // lea 8(%rsp),%rdx; push %rsp; mov %rdx,(%rsp)
        let kept = read(&[0x48, 0x8d, 0x54, 0x24, 8, 0x54, 0x48, 0x89, 0x14, 0x24]).unwrap();
        assert_eq!((kept.place(0x1000), kept.added), (0xff8, 8));
    }

    #[test]
    fn nothing_is_known_behind_branches_and_of_changed_copies() {
        assert_eq!(read(&ALIGNS[..ALIGNS.len() - 1]), None);
        // A branch; the loss of the stack pointer; a change of the copy; a copy of the aligned pointer.
        let store = [0x48, 0x89, 0x04, 0x24];
        let copy = [0x48, 0x89, 0xe0];
        assert!(read(&[&copy[..], &store].concat()).is_some());
        assert_eq!(read(&[&copy[..], &[0x74, 0], &store].concat()), None);
        assert_eq!(read(&[&copy[..], &[0x48, 0x89, 0xec], &store].concat()), None);
        assert_eq!(read(&[&copy[..], &[0xb0, 1], &store].concat()), None);
        assert_eq!(read(&[&[0x48, 0x83, 0xe4, 0xf0][..], &copy, &store].concat()), None);
        assert_eq!(KeptStackPointer::read(Abi::S390x, &ALIGNS), None);
    }
}
