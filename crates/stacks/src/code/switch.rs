//! How functions of Go find their way back to the stack on which they were called.
//!
//! The runtime does its own work, and calls C, on a stack that belongs to the thread. A function that goes
//! there has no row behind its call: the stack pointer of the stack before is a word of the goroutine, which
//! is found from the thread's base, or a word that the function has stored. The instructions behind the call
//! read it, and their offsets differ from version to version of Go. So this module runs them symbolically, up
//! to where the function returns.

use super::amd64::{constant, decode, sum};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use sframe_format::{Abi, FrameAddress, Registers};

/// The most words that lead to a stack pointer.
const MAX_PATH: usize = 6;
/// The most instructions that are run from a call to where its function returns.
const MAX_STEPS: usize = 96;
/// The most bytes of a function that are read.
const MAX_CODE: usize = 4096;
/// The most branches whose targets wait to be read.
const MAX_BRANCHES: usize = 32;
/// In a goroutine's saved registers, the program counter comes behind the stack pointer (`gobuf` in
/// `runtime/runtime2.go`).
const PROGRAM_COUNTER: i32 = 8;
/// Number of general registers.
const REGISTERS: usize = 16;

/// A call that a function makes on another stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The address behind the call, as the file has it.
    pub at: u64,
    /// `None`: nothing returns to the stack before.
    pub back: Option<Back>,
}

/// The way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// Where it starts.
    pub from: From,
    /// Offsets of words: each is read at the offset from the value of the one before. The last value is a
    /// stack pointer.
    pub path: Vec<i32>,
    /// The offset from the present stack pointer of a word to subtract.
    pub minus: Option<i32>,
    /// The CFA, counted from the value.
    pub cfa: i32,
    /// Where the frame pointer is that the function was called with.
    pub fp: FramePointer,
    /// The offset of the caller's address from the place of the path's last word, if it is not below the CFA.
    pub pc: Option<i32>,
    /// The offset from the value of a word that takes its place for calls further out.
    pub below: Option<i32>,
}

/// A value that is known behind the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The thread's base.
    Thread,
    /// The stack pointer.
    Stack,
    /// The frame pointer.
    Frame,
}

/// The caller's frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePointer {
    /// It has not changed.
    Kept,
    /// A word at this offset from the CFA.
    AtCfa(i32),
    /// A word at this offset from the place of the path's last word.
    Beside(i32),
}

/// What a walk knows besides its registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The base of the thread's own data, if it is known.
    pub base: Option<u64>,
    /// The stack pointer to which the last call led whose value moves from call to call.
    pub last: Option<u64>,
}

impl Back {
    /// Goes to the caller. `None`: a word on the way is not known, or there is no way.
    pub fn follow(
        &self,
        registers: &mut Registers,
        thread: &mut Thread,
        mut read: impl FnMut(u64) -> Option<u64>,
    ) -> Option<FrameAddress> {
        let (mut value, mut place) = match self.from {
            From::Thread => (thread.base?, 0),
            From::Stack => (registers.sp, 0),
            From::Frame => (registers.fp, 0),
        };
        match (self.below, thread.last) {
            (Some(below), Some(last)) => {
                value = read(last.wrapping_add_signed(below.into())).filter(|&value| value > last)?;
            }
            // Further out than such a call, the thread's data say nothing.
            (None, Some(_)) if self.from == From::Thread => return None,
            _ => {
                for &offset in &self.path {
                    place = value.wrapping_add_signed(offset.into());
                    value = read(place)?;
                }
            }
        }
        if let Some(minus) = self.minus {
            value = value.wrapping_sub(read(registers.sp.wrapping_add_signed(minus.into()))?);
        }
        if value == 0 {
            return None;
        }
        let cfa = value.wrapping_add_signed(self.cfa.into());
        let pc = self.pc.map_or(cfa.wrapping_sub(8), |offset| place.wrapping_add_signed(offset.into()));
        let fp = match self.fp {
            FramePointer::Kept => registers.fp,
            FramePointer::AtCfa(offset) => read(cfa.wrapping_add_signed(offset.into()))?,
            FramePointer::Beside(offset) => read(place.wrapping_add_signed(offset.into()))?,
        };
        let caller = read(pc).filter(|&caller| caller != 0)?;
        *registers = Registers::new(cfa, fp, None);
        thread.last = if self.below.is_some() { Some(value) } else { thread.last };
        Some(FrameAddress::ReturnAddress(caller))
    }
}

/// The calls on other stacks in a function's code, which starts at `start`.
pub fn switches(abi: Abi, code: &[u8], start: u64) -> Vec<Switch> {
    calls(abi, code, start, |code, at, before| {
        let (state, stores) = code.run_to_return(at, before)?;
        state.back(&stores)
    })
}

/// The calls of a function that aligns its stack and keeps the stack pointer from before, or an address
/// beside it, in a word of its frame. How far the stack pointer moved is known only while the function runs,
/// so no row counts from it; but the word leads to the CFA.
pub fn aligned(abi: Abi, code: &[u8], start: u64) -> Vec<Switch> {
    let mut found = calls(abi, code, start, |code, at, before| code.run_to_return(at, before)?.0.kept_word());
    found.retain(|call| call.back.is_some());
    found
}

/// The calls of a function after which the stack pointer is not known from its first instruction on, with
/// what `back` says of each.
fn calls(
    abi: Abi,
    code: &[u8],
    start: u64,
    back: impl Fn(&Code<'_>, u64, &State) -> Option<Back>,
) -> Vec<Switch> {
    if abi != Abi::Amd64 {
        return Vec::new();
    }
    let code = Code { bytes: &code[..code.len().min(MAX_CODE)], start };
    let (mut found, mut waiting) = (Vec::new(), Vec::new());
    let (mut at, mut state) = (start, State::at_entry());
    while let Some(instruction) = code.at(at) {
        at = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => {
                if state.has_switched() {
                    found.push(Switch { at, back: back(&code, at, &state) });
                }
                state.call();
            }
            FlowControl::ConditionalBranch if waiting.len() < MAX_BRANCHES => {
                waiting.push((instruction.near_branch_target(), state.clone()));
            }
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                let branch = waiting.iter().find(|(target, _)| *target == at);
                state = branch.map_or_else(State::default, |(_, state)| state.clone());
            }
            _ => drop(state.run(&instruction)),
        }
    }
    found
}

/// How the function that makes a goroutine's stack larger gets back to the function that called it: it has
/// stored that one's registers in the goroutine, which `systemstack` finds, too.
pub fn of_larger_stack(code: &[u8], start: u64, systemstack: &Back) -> Option<Back> {
    let (from, path) = (systemstack.from, systemstack.path.clone());
    let sp = i64::from(*path.last()?);
    let code = Code { bytes: &code[..code.len().min(MAX_CODE)], start };
    let mut at = start;
    let fp = loop {
        let instruction = code.at(at)?;
        at = instruction.next_ip();
        let stores = instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_kind() == OpKind::Memory
            && instruction.op1_register() == Register::RBP;
        match sum(&instruction) {
            Some((register, offset)) if stores && register != Register::RSP => break offset - sp,
            _ => {}
        }
    };
    let fp = FramePointer::Beside(i32::try_from(fp).ok()?);
    Some(Back { from, path, minus: None, cfa: 0, fp, pc: Some(PROGRAM_COUNTER), below: None })
}

/// A function's instructions.
struct Code<'a> {
    bytes: &'a [u8],
    start: u64,
}

impl Code<'_> {
    fn at(&self, address: u64) -> Option<Instruction> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let instruction = decode(self.bytes.get(offset..).filter(|rest| !rest.is_empty())?, address);
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Runs what is behind a call, to where the function returns. Gives the state there, and what was stored.
    fn run_to_return(&self, mut at: u64, before: &State) -> Option<(State, Vec<(Place, Value)>)> {
        let mut state = before.behind_call();
        let mut stores = Vec::new();
        for _ in 0..MAX_STEPS {
            let instruction = self.at(at)?;
            at = instruction.next_ip();
            match instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => state.call(),
                FlowControl::Return => return Some((state, stores)),
                FlowControl::UnconditionalBranch => at = instruction.near_branch_target(),
                FlowControl::IndirectBranch => return None,
                _ => stores.extend(state.run(&instruction)),
            }
        }
        None
    }
}

/// What a value counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The stack pointer at the function's first instruction.
    Entry,
    /// Behind the call.
    Known(From),
}

/// A sum: a value that is known, or that words lead to, and an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    base: Base,
    /// Offsets of words that are read one after the other.
    path: Vec<i64>,
    offset: i64,
}

impl Place {
    const fn new(base: Base, offset: i64) -> Self {
        Self { base, path: Vec::new(), offset }
    }

    fn plus(&self, by: i64) -> Option<Self> {
        Some(Self { offset: self.offset.checked_add(by)?, ..self.clone() })
    }

    /// The word there.
    fn word(mut self) -> Option<Self> {
        self.path.push(self.offset);
        self.offset = 0;
        (self.path.len() <= MAX_PATH).then_some(self)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(i64),
    Place(Place),
    /// A value minus a word.
    Less(Place, Place),
    /// A word that was popped at an offset from such a difference.
    Popped(i64),
}

/// The values of registers.
#[derive(Clone, Default)]
struct State {
    registers: [Option<Value>; REGISTERS],
}

const SP: usize = Register::RSP as usize - Register::RAX as usize;
const FP: usize = Register::RBP as usize - Register::RAX as usize;

fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    register.is_gpr().then(|| full as usize - Register::RAX as usize)
}

impl State {
    fn at_entry() -> Self {
        let mut state = Self::default();
        state.registers[SP] = Some(Value::Place(Place::new(Base::Entry, 0)));
        state
    }

    /// Whether the stack pointer does not count from what it was at the function's first instruction.
    fn has_switched(&self) -> bool {
        !matches!(&self.registers[SP], Some(Value::Place(Place { base: Base::Entry, path, .. })) if path.is_empty())
    }

    /// Forgets registers that a called function may change.
    fn call(&mut self) {
        let kept = [Register::RBX, Register::RSP, Register::RBP, Register::R12];
        let kept = kept.into_iter().chain([Register::R13, Register::R14, Register::R15]).filter_map(number);
        let mut registers: [Option<Value>; REGISTERS] = Default::default();
        for number in kept {
            registers[number] = self.registers[number].take();
        }
        self.registers = registers;
    }

    /// The state behind a call, where stack pointer and frame pointer are known. Registers that have to do
    /// with the stack before do so through the frame pointer.
    fn behind_call(&self) -> Self {
        let mut state = self.clone();
        state.call();
        let on_entry = |value: &Option<Value>| match value {
            Some(Value::Place(Place { base: Base::Entry, path, offset })) if path.is_empty() => Some(*offset),
            _ => None,
        };
        let frame = on_entry(&self.registers[FP]);
        for value in &mut state.registers {
            let offset = on_entry(value).zip(frame).and_then(|(offset, frame)| offset.checked_sub(frame));
            *value = match value.take() {
                Some(Value::Number(number)) => Some(Value::Number(number)),
                _ => offset.map(|offset| Value::Place(Place::new(Base::Known(From::Frame), offset))),
            };
        }
        let known = |from| Some(Value::Place(Place::new(Base::Known(from), 0)));
        (state.registers[SP], state.registers[FP]) = (known(From::Stack), known(From::Frame));
        state
    }

    fn get(&self, register: Register) -> Option<Value> {
        self.registers.get(number(register)?)?.clone().filter(|_| register.is_gpr64())
    }

    /// The place of the operand in memory.
    fn place(&self, instruction: &Instruction) -> Option<Place> {
        let (base, offset) = sum(instruction)?;
        let value = if base == Register::None { Some(Value::Number(0)) } else { self.get(base) };
        let thread = Place::new(Base::Known(From::Thread), offset);
        match (instruction.segment_prefix(), value?) {
            (Register::FS, Value::Number(number)) => thread.plus(number),
            (Register::None, Value::Place(place)) => place.plus(offset),
            _ => None,
        }
    }

    fn word(&self, instruction: &Instruction) -> Option<Place> {
        (instruction.memory_size().size() == 8).then(|| self.place(instruction))??.word()
    }

    /// The value of an operand.
    fn operand(&self, instruction: &Instruction, operand: u32) -> Option<Value> {
        match instruction.op_kind(operand) {
            OpKind::Register => self.get(instruction.op_register(operand)),
            OpKind::Memory => self.word(instruction).map(Value::Place),
            OpKind::Immediate64 => Some(Value::Number(instruction.immediate64() as i64)),
            _ => constant(instruction).map(Value::Number),
        }
    }

    /// Runs an instruction that goes on to the next. Returns what it stores in a word.
    fn run(&mut self, instruction: &Instruction) -> Option<(Place, Value)> {
        let to = number(instruction.op0_register());
        let value = match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Memory => {
                return self.place(instruction).zip(self.operand(instruction, 1));
            }
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop => return None,
            Mnemonic::Push => {
                self.move_stack_pointer(-8);
                return None;
            }
            Mnemonic::Pop => {
                let top = self.registers[SP].clone();
                self.move_stack_pointer(8);
                match top? {
                    Value::Place(place) => place.word().map(Value::Place),
                    Value::Less(place, _) => Some(Value::Popped(place.offset)),
                    _ => None,
                }
            }
            Mnemonic::Leave => {
                let frame = self.registers[FP].take();
                self.registers[SP] = frame.as_ref().and_then(|frame| sum_of(frame, &Value::Number(8), false));
                let Some(Value::Place(place)) = frame else { return None };
                self.registers[FP] = place.word().map(Value::Place);
                return None;
            }
            Mnemonic::Mov => self.operand(instruction, 1),
            Mnemonic::Lea => self.place(instruction).map(Value::Place),
            Mnemonic::Add | Mnemonic::Sub => {
                let operands = self.operand(instruction, 0).zip(self.operand(instruction, 1));
                operands.and_then(|(to, by)| sum_of(&to, &by, instruction.mnemonic() == Mnemonic::Sub))
            }
            // It may change registers that it does not name.
            _ => {
                let named = [Some(instruction.op1_register()), Some(Register::RAX), Some(Register::RCX)];
                let changed = named.into_iter().flatten().chain([Register::RDX]).filter_map(number);
                changed.for_each(|register| self.registers[register] = None);
                None
            }
        };
        if let Some(register) = to {
            self.registers[register] = value.filter(|_| instruction.op0_register().is_gpr64());
        }
        None
    }

    fn move_stack_pointer(&mut self, by: i64) {
        let top = self.registers[SP].take();
        self.registers[SP] = top.and_then(|top| sum_of(&top, &Value::Number(by), false));
    }

    /// The way back, where the function returns.
    fn back(&self, stores: &[(Place, Value)]) -> Option<Back> {
        let (place, minus) = match self.registers[SP].clone()? {
            Value::Place(place) => (place, None),
            Value::Less(place, word) => match (word.base, &word.path[..]) {
                (Base::Known(From::Stack), [minus]) => (place, Some(i32::try_from(*minus).ok()?)),
                _ => return None,
            },
            Value::Number(_) | Value::Popped(_) => return None,
        };
        let Base::Known(from) = place.base else { return None };
        // Without a word on the way, it would be a stack pointer of the same stack.
        if (from == From::Frame) != place.path.is_empty() {
            return None;
        }
        let path: Option<Vec<i32>> = place.path.iter().map(|&word| i32::try_from(word).ok()).collect();
        let cfa = i32::try_from(place.offset.checked_add(8)?).ok()?;
        let fp = self.frame_pointer(&place, cfa.into()).unwrap_or(FramePointer::Kept);
        Some(Back { from, path: path?, minus, cfa, fp, pc: None, below: below(&place, stores) })
    }

    /// The way back, where the function returns, if one word of its frame leads there.
    fn kept_word(&self) -> Option<Back> {
        let Some(Value::Place(place)) = &self.registers[SP] else { return None };
        let (Base::Known(from @ (From::Stack | From::Frame)), [word]) = (place.base, &place.path[..]) else {
            return None;
        };
        let cfa = i32::try_from(place.offset.checked_add(8)?).ok()?;
        let own = Value::Place(Place::new(Base::Known(From::Frame), 0));
        let fp = if from == From::Stack && self.registers[FP].as_ref() == Some(&own) {
            FramePointer::Kept
        } else {
            self.frame_pointer(place, cfa.into())?
        };
        let path = vec![i32::try_from(*word).ok()?];
        Some(Back { from, path, minus: None, cfa, fp, pc: None, below: None })
    }

    /// Where the caller's frame pointer is. `sp` is the stack pointer where the function returns.
    fn frame_pointer(&self, sp: &Place, cfa: i64) -> Option<FramePointer> {
        if let Some(Value::Popped(offset)) = self.registers[FP] {
            return Some(FramePointer::AtCfa(i32::try_from(offset.checked_sub(cfa)?).ok()?));
        }
        let Some(Value::Place(Place { base, path, offset: 0 })) = &self.registers[FP] else { return None };
        let (word, before) = path.split_last()?;
        if *base != sp.base {
            return None;
        }
        if *before == sp.path[..] {
            return Some(FramePointer::AtCfa(i32::try_from(word.checked_sub(cfa)?).ok()?));
        }
        let (last, same) = sp.path.split_last()?;
        let beside = i32::try_from(word.checked_sub(*last)?).ok()?;
        (*before == *same).then_some(FramePointer::Beside(beside))
    }
}

/// The offset of a word of the stack that is stored where the stack pointer came from, for the next call
/// further out.
fn below(sp: &Place, stores: &[(Place, Value)]) -> Option<i32> {
    let (&offset, before) = sp.path.split_last()?;
    let source = Place { base: sp.base, path: before.to_vec(), offset };
    stores.iter().find_map(|(to, value)| match value {
        Value::Place(Place { base, path, offset: 0 }) if *to == source && *base == sp.base => {
            let (word, value) = path.split_last()?;
            if *value == sp.path[..] { i32::try_from(*word).ok() } else { None }
        }
        _ => None,
    })
}

/// The sum or the difference of two values.
fn sum_of(to: &Value, by: &Value, subtract: bool) -> Option<Value> {
    match (to, by) {
        (Value::Place(place), Value::Number(by)) => {
            place.plus(if subtract { by.checked_neg()? } else { *by }).map(Value::Place)
        }
        (Value::Place(one), Value::Place(other)) if subtract => {
            if one.base == other.base && one.path == other.path {
                return one.offset.checked_sub(other.offset).map(Value::Number);
            }
            let is_word = other.offset == 0 && !other.path.is_empty();
            is_word.then(|| Value::Less(one.clone(), other.clone()))
        }
        (Value::Less(place, word), Value::Number(by)) => {
            let by = if subtract { by.checked_neg()? } else { *by };
            Some(Value::Less(place.plus(by)?, word.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Back, FramePointer, From, Switch};
    use crate::image::Image;
    use std::path::Path;

    const AT_SYSTEM_STACK: u64 = 0x40_012a;
    const AT_LARGER_STACK: u64 = 0x40_0176;

    fn switches() -> Vec<Switch> {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/go_stacks");
        Image::open(&fixture).unwrap().functions().switches().to_vec()
    }

    #[test]
    fn ways_back_are_read_off_instructions() {
        let back = |from, path: &[i32], cfa, fp| {
            let (minus, pc, below) = (None, None, None);
            Some(Back { from, path: path.to_vec(), minus, cfa, fp, pc, below })
        };
        let (beside, saved) = (FramePointer::Beside(48), FramePointer::AtCfa(-16));
        let larger =
            back(From::Thread, &[-16, 40, 24, 56], 0, beside).map(|back| Back { pc: Some(8), ..back });
        let from_c = back(From::Thread, &[-16, 40, 8, 56], 32, saved);
        let expected = [
            (AT_SYSTEM_STACK, back(From::Thread, &[-16, 40, 24, 56], 8, beside)),
            (AT_LARGER_STACK, larger),
            // Calls behind which nothing returns.
            (0x40_017b, None),
            (0x40_019a, None),
            (0x40_01df, back(From::Stack, &[16, 16], 16, saved).map(|back| Back { minus: Some(8), ..back })),
            (0x40_0204, back(From::Stack, &[8], 16, saved)),
            (0x40_024f, from_c.map(|back| Back { below: Some(0), ..back })),
            (0x40_02af, back(From::Frame, &[], 16, saved)),
            (0x40_02f4, None),
        ];
        assert_eq!(switches(), expected.map(|(at, back)| Switch { at, back }));
    }

    /// Every prefix of the code, and code with changed bytes, is read to an end.
    #[test]
    fn damaged_code_is_read_to_an_end() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/go_stacks");
        let image = Image::open(&fixture).unwrap();
        let code = image.code_from(0x40_00b0, 0x230).unwrap();
        let read = |code: &[u8]| {
            let found = super::switches(image.abi(), code, 0x40_00b0);
            assert!(found.iter().all(|switch| switch.at > 0x40_00b0 && switch.at <= 0x40_02e0));
        };
        for length in 0..code.len() {
            read(&code[..length]);
            for change in [0x01, 0x48, 0xff] {
                let mut changed = code.to_vec();
                changed[length] ^= change;
                read(&changed);
            }
        }
    }
}
