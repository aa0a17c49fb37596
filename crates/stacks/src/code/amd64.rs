//! x86-64.

use super::effect::Effect;
use super::frame::State;
use super::machine::{Flow, Machine, Step};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use sframe_format::abi;
use std::collections::BTreeSet;

/// x86-64.
pub struct Amd64;

/// At a function's first instruction, the return address is on top of the stack.
const ENTRY: State = State::new(8, Some(-8));
/// The registers that may hold an address of the frame, by their DWARF numbers. The frame pointer is known by
/// itself.
const HELD: [Register; 16] = [
    Register::RAX,
    Register::RDX,
    Register::RCX,
    Register::RBX,
    Register::RSI,
    Register::RDI,
    Register::None,
    Register::None,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
/// At the first entry of a PLT, the stack also holds the relocation's number. That entry is `push
/// GOT+8(%rip)` and `jmp *GOT+16(%rip)`, perhaps with a `bnd` prefix.
const PLT: State = ENTRY.pushed(8);

impl Machine for Amd64 {
    const ENTRY: State = ENTRY;

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

    /// The entry before ends with `push` and a jump. This one begins with a jump through a word of the GOT,
    /// which is no way out of a function with a frame, or with `endbr64` and the push of its number.
    fn at_plt_entry(code: &[u8]) -> Option<State> {
        const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        if let [0xff, 0x35, _, _, _, _, 0xff, 0x25, ..] | [0xff, 0x35, _, _, _, _, 0xf2, 0xff, 0x25, ..] =
            code
        {
            return Some(PLT);
        }
        let is_entry = match code.strip_prefix(&ENDBR64) {
            Some(behind) => matches!(behind, [0xff, 0x25, ..] | [0xf2, 0xff, 0x25, ..] | [0x68, ..]),
            None => matches!(code, [0xff, 0x25, ..] | [0xf2, 0xff, 0x25, ..]),
        };
        is_entry.then_some(ENTRY)
    }

    fn step(code: &[u8], address: u64, effects: &mut Vec<Effect>) -> Step {
        let instruction = decode(code, address);
        if instruction.is_invalid() {
            return Step { length: 1, flow: Flow::Invalid };
        }
        note(&instruction, effects);
        Step { length: instruction.len(), flow: flow(&instruction) }
    }

    fn holds(code: &[u8]) -> Option<(abi::Register, Effect)> {
        let instruction = decode(code, 0);
        let (from, offset) = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => (instruction.op1_register(), 0),
            (Mnemonic::Lea, _) => sum(&instruction)?,
            _ => return None,
        };
        let (to, held) = (instruction.op0_register(), |register| {
            Some(HELD.iter().position(|&one| one == register)? as u32)
        });
        match (to, from) {
            (Register::RSP, _) => {
                held(from).map(|register| (register, Effect::StackPointerFrom(register, offset)))
            }
            (_, Register::RSP) => {
                held(to).map(|register| (register, Effect::HoldStackPointer(register, offset)))
            }
            _ => None,
        }
    }

    /// A called function may use any register: one that it keeps is found again when it has returned.
    fn overwritten(code: &[u8], registers: &BTreeSet<abi::Register>, effects: &mut Vec<Effect>) {
        use OpAccess::{CondRead, NoMemAccess, None, Read};
        let instruction = decode(code, 0);
        let calls = matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        let mut factory = InstructionInfoFactory::new();
        let used = factory.info(&instruction).used_registers();
        let writes = |access| !matches!(access, None | Read | CondRead | NoMemAccess);
        let overwrites = |register: &abi::Register| {
            let held = HELD.get(*register as usize).copied();
            calls
                || used
                    .iter()
                    .any(|used| writes(used.access()) && Some(used.register().full_register()) == held)
        };
        let changed = registers.iter().filter(|register| overwrites(register));
        effects.extend(changed.map(|&register| Effect::Overwrite(register)));
    }

    fn moves_word(code: &[u8]) -> Option<Effect> {
        let instruction = decode(code, 0);
        let effect = match instruction.mnemonic() {
            Mnemonic::Pop => Effect::TakeWord,
            Mnemonic::Push => Effect::PutWordBack,
            _ => return None,
        };
        let register = instruction.op0_register();
        let held = HELD.iter().position(|&one| one == register && one != Register::None);
        held.map(|number| effect(number as abi::Register))
    }

    fn ends_with_call(code: &[u8]) -> bool {
        (2..=9.min(code.len())).any(|length| {
            let instruction = decode(&code[code.len() - length..], 0);
            instruction.len() == length && instruction.mnemonic() == Mnemonic::Call
        })
    }
}

/// Where some code may align the stack pointer: the places of `and $number, %rsp`.
pub fn aligns(code: &[u8]) -> impl Iterator<Item = usize> {
    const REX_W: u8 = 0x48;
    const AND_RSP: u8 = 0xe4;
    let is_and = |place: &usize| {
        let rest = &code[*place + 1..];
        rest.first() == Some(&REX_W) && matches!(rest.get(1), Some(0x81 | 0x83))
    };
    let at_operands = memchr::memchr_iter(AND_RSP, code).filter_map(|operand| operand.checked_sub(3));
    at_operands.filter(is_and).map(|place| place + 1)
}

pub(super) fn decode(code: &[u8], address: u64) -> Instruction {
    Decoder::with_ip(64, &code[..code.len().min(15)], address, DecoderOptions::NONE).decode()
}

fn flow(instruction: &Instruction) -> Flow {
    let target = || match instruction.op0_kind() {
        OpKind::NearBranch64 => Some(instruction.near_branch_target()),
        _ => None,
    };
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => target().map_or(Flow::Next, Flow::Branch),
        FlowControl::UnconditionalBranch => Flow::Jump(target()),
        FlowControl::IndirectBranch => Flow::Jump(None),
        FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => Flow::Return,
        // Returns from interrupts.
        FlowControl::Return => Flow::Jump(None),
        FlowControl::Call => Flow::Call(target()),
        FlowControl::IndirectCall => Flow::Call(None),
        FlowControl::Exception => Flow::Trap,
        _ if matches!(instruction.mnemonic(), Mnemonic::Hlt | Mnemonic::Int3) => Flow::Trap,
        _ => Flow::Next,
    }
}

fn note(instruction: &Instruction, effects: &mut Vec<Effect>) {
    let (to, from) = (instruction.op0_register(), instruction.op1_register());
    match (instruction.mnemonic(), to) {
        (Mnemonic::Push, Register::RBP) => {
            effects.extend([Effect::MoveStackPointer(-8), Effect::SaveFramePointer(0)]);
        }
        (Mnemonic::Pop, Register::RBP) => {
            effects.extend([Effect::LoadFramePointer(0), Effect::MoveStackPointer(8)]);
        }
        (Mnemonic::Leave, _) => effects.extend([
            Effect::StackPointerFromFramePointer(0),
            Effect::LoadFramePointer(0),
            Effect::MoveStackPointer(8),
        ]),
        (Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Call | Mnemonic::Ret | Mnemonic::Jmp, _) => {}
        (Mnemonic::Push, _) => effects.push(Effect::MoveStackPointer(-8)),
        (Mnemonic::Pop, _) if to != Register::RSP => effects.push(Effect::MoveStackPointer(8)),
        (Mnemonic::Mov, Register::None) if from == Register::RBP => {
            effects.extend(word_on_stack(instruction).map(Effect::SaveFramePointer));
        }
        (_, Register::RSP | Register::ESP) => effects.push(stack_pointer(instruction)),
        (_, Register::RBP | Register::EBP) => effects.push(frame_pointer(instruction)),
        _ => match instruction.stack_pointer_increment() {
            0 => {}
            by => effects.push(Effect::MoveStackPointer(by.into())),
        },
    }
}

/// What an instruction does that sets the stack pointer.
fn stack_pointer(instruction: &Instruction) -> Effect {
    let moved = |by: Option<i64>| by.map_or(Effect::LoseStackPointer, Effect::MoveStackPointer);
    match instruction.mnemonic() {
        _ if instruction.op0_register() != Register::RSP => Effect::LoseStackPointer,
        Mnemonic::Sub => moved(constant(instruction).and_then(i64::checked_neg)),
        Mnemonic::Add => moved(constant(instruction)),
        Mnemonic::And if constant(instruction).is_some_and(|mask| mask < 0) => Effect::AlignStackPointer,
        Mnemonic::Mov if instruction.op1_register() == Register::RBP => {
            Effect::StackPointerFromFramePointer(0)
        }
        Mnemonic::Lea => match sum(instruction) {
            Some((Register::RSP, by)) => Effect::MoveStackPointer(by),
            Some((Register::RBP, by)) => Effect::StackPointerFromFramePointer(by),
            _ => Effect::LoseStackPointer,
        },
        _ => Effect::LoseStackPointer,
    }
}

/// What an instruction does that sets the frame pointer.
fn frame_pointer(instruction: &Instruction) -> Effect {
    match instruction.mnemonic() {
        _ if instruction.op0_register() != Register::RBP => Effect::LoseFramePointer,
        Mnemonic::Mov if instruction.op1_register() == Register::RSP => {
            Effect::FramePointerFromStackPointer(0)
        }
        Mnemonic::Mov => {
            word_on_stack(instruction).map_or(Effect::LoseFramePointer, Effect::LoadFramePointer)
        }
        Mnemonic::Lea => match sum(instruction) {
            Some((Register::RSP, by)) => Effect::FramePointerFromStackPointer(by),
            _ => Effect::LoseFramePointer,
        },
        _ => Effect::LoseFramePointer,
    }
}

/// How far above the stack pointer the operand in memory is, if it is a word there.
fn word_on_stack(instruction: &Instruction) -> Option<i64> {
    let word = instruction.memory_size().size() == 8 && instruction.segment_prefix() == Register::None;
    sum(instruction).filter(|(base, _)| word && *base == Register::RSP).map(|(_, offset)| offset)
}

/// The constant that an instruction adds or subtracts.
pub(super) fn constant(instruction: &Instruction) -> Option<i64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(instruction.immediate(1) as i64),
        _ => None,
    }
}

/// The address of the operand in memory, if it is a register and a constant.
pub(super) fn sum(instruction: &Instruction) -> Option<(Register, i64)> {
    let plain = instruction.memory_index() == Register::None;
    plain.then(|| (instruction.memory_base(), instruction.memory_displacement64() as i64))
}
