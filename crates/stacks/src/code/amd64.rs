//! x86-64.

use super::frame::State;
use super::machine::{Flow, Machine, Step};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// x86-64.
pub struct Amd64;

/// At a function's first instruction, the return address is on top of the stack.
const ENTRY: State = State::new(8, Some(-8));
/// At the first entry of a PLT, the stack also holds the relocation's number. That entry is
/// `push GOT+8(%rip)` and `jmp *GOT+16(%rip)`, perhaps with a `bnd` prefix.
const PLT: State = State::new(16, Some(-8));

impl Machine for Amd64 {
    fn padding(code: &[u8]) -> usize {
        match code {
            [0x90 | 0xcc | 0, ..] => 1,
            // All multi-byte padding instructions begin with one of these bytes.
            [0x0f | 0x66 | 0x2e | 0xf3, ..] => {
                let instruction = decode(code, 0);
                if instruction.mnemonic() == Mnemonic::Nop { instruction.len() } else { 0 }
            }
            _ => 0,
        }
    }

    fn at_entry(code: &[u8]) -> State {
        match code {
            [0xff, 0x35, _, _, _, _, 0xff, 0x25, ..] | [0xff, 0x35, _, _, _, _, 0xf2, 0xff, 0x25, ..] => PLT,
            _ => ENTRY,
        }
    }

    /// The entry before ends with `push` and a jump. This one begins with a jump through a word of the GOT,
    /// which is no way out of a function with a frame, or with `endbr64` and the push of its number.
    fn is_plt_entry(code: &[u8]) -> bool {
        const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        match code.strip_prefix(&ENDBR64) {
            Some(behind) => matches!(behind, [0xff, 0x25, ..] | [0xf2, 0xff, 0x25, ..] | [0x68, ..]),
            None => matches!(code, [0xff, 0x25, ..] | [0xf2, 0xff, 0x25, ..]),
        }
    }

    fn step(code: &[u8], address: u64, state: &mut State) -> Step {
        let instruction = decode(code, address);
        if instruction.is_invalid() {
            return Step { length: 1, flow: Flow::Invalid };
        }
        apply(&instruction, state);
        Step { length: instruction.len(), flow: flow(&instruction) }
    }
}

fn decode(code: &[u8], address: u64) -> Instruction {
    Decoder::with_ip(64, &code[..code.len().min(15)], address, DecoderOptions::NONE).decode()
}

fn flow(instruction: &Instruction) -> Flow {
    let target = || match instruction.op0_kind() {
        OpKind::NearBranch64 => Some(instruction.near_branch_target()),
        _ => None,
    };
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => target().map_or(Flow::Next, Flow::Branch),
        FlowControl::UnconditionalBranch => Flow::Away(target()),
        FlowControl::IndirectBranch | FlowControl::Return => Flow::Away(None),
        FlowControl::Exception => Flow::Trap,
        _ if matches!(instruction.mnemonic(), Mnemonic::Hlt | Mnemonic::Int3) => Flow::Trap,
        _ => Flow::Next,
    }
}

fn apply(instruction: &Instruction, state: &mut State) {
    let (to, from) = (instruction.op0_register(), instruction.op1_register());
    match (instruction.mnemonic(), to) {
        (Mnemonic::Push, Register::RBP) => {
            state.move_stack_pointer(-8);
            state.save_frame_pointer(0);
        }
        (Mnemonic::Pop, Register::RBP) => {
            state.move_stack_pointer(8);
            state.restore_frame_pointer();
            // The stack pointer is lost, but the frame pointer is still popped last.
            if state.is_lost() {
                *state = ENTRY;
            }
        }
        (Mnemonic::Leave, _) => {
            state.stack_pointer_from_frame_pointer(8);
            state.restore_frame_pointer();
        }
        (Mnemonic::Sub, Register::RSP) => match constant(instruction) {
            Some(by) => state.move_stack_pointer(by.wrapping_neg()),
            None => state.lose_stack_pointer(),
        },
        (Mnemonic::Add, Register::RSP) => match constant(instruction) {
            Some(by) => state.move_stack_pointer(by),
            None => state.lose_stack_pointer(),
        },
        (Mnemonic::Mov, Register::RSP) if from == Register::RBP => state.stack_pointer_from_frame_pointer(0),
        (Mnemonic::Mov, Register::RBP) if from == Register::RSP => state.frame_pointer_from_stack_pointer(0),
        (Mnemonic::Lea, Register::RSP) => match sum(instruction) {
            Some((Register::RSP, by)) => state.move_stack_pointer(by),
            Some((Register::RBP, by)) => state.stack_pointer_from_frame_pointer(by),
            _ => state.lose_stack_pointer(),
        },
        (Mnemonic::Lea, Register::RBP) => match sum(instruction) {
            Some((Register::RSP, by)) => state.frame_pointer_from_stack_pointer(by),
            _ => state.lose_frame_pointer(),
        },
        (Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Call | Mnemonic::Ret | Mnemonic::Jmp, _) => {}
        (Mnemonic::Push, _) => state.move_stack_pointer(-8),
        (Mnemonic::Pop, _) if to != Register::RSP => state.move_stack_pointer(8),
        (_, Register::RSP | Register::ESP) => state.lose_stack_pointer(),
        (_, Register::RBP | Register::EBP) => state.lose_frame_pointer(),
        _ => state.move_stack_pointer(instruction.stack_pointer_increment().into()),
    }
}

/// The constant that an instruction adds or subtracts.
fn constant(instruction: &Instruction) -> Option<i64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(instruction.immediate(1) as i64),
        _ => None,
    }
}

/// The operand of `lea`, if it is a register and a constant.
fn sum(instruction: &Instruction) -> Option<(Register, i64)> {
    let plain = instruction.memory_index() == Register::None;
    plain.then(|| (instruction.memory_base(), instruction.memory_displacement64() as i64))
}
