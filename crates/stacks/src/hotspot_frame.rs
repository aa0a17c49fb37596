//! How frames of code of HotSpot, Java's virtual machine, are left: by their size, by the frame pointer, or
//! by what the instructions have done so far. [`crate::hotspot`] says which code has which.

use crate::code::area::Area;
use crate::code::functions::{Functions, Kind, Piece};
use crate::code::{Code, ends_with_call};
use crate::process_memory::ProcessMemory;
use sframe_format::abi::Register;
use sframe_format::unwind::step;
use sframe_format::write::{Options, write_sorted};
use sframe_format::{
    Abi, Base, CfaRule, FileRows, Frame as Rule, FrameAddress, Location, RegisterRule, Registers, Rules,
    UnwindError,
};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// DWARF numbers of registers of x86-64.
const RBP: Register = 6;
const RSP: Register = 7;
/// The largest function whose instructions are read, in bytes.
const MAX_CODE: u64 = 1 << 20;
/// Where a frame of the interpreter has the stack pointer that its caller has when it goes on, and where it
/// has the return address, from the frame pointer.
const SENDER_SP: i32 = -8;
const RETURN_ADDRESS: i32 = 8;
/// How far below the frame pointer it has the method.
const METHOD: u64 = 24;
/// The largest bytes of a call of a stub.
const CALL: usize = 13;

/// What a frame of a blob is.
pub enum Shape {
    /// The interpreter's, except in the parts of its code that make the frame, ascending.
    Interpreted(Vec<Instructions>),
    /// Of one size from its prologue to its epilogue: that of a method that was compiled, and of most of what
    /// methods call of the run time.
    Sized {
        /// Bytes, with the return address.
        size: i64,
        /// The address where the prologue has made it.
        complete: u64,
        instructions: Instructions,
    },
    /// None, or one with a frame pointer: stubs and adapters.
    Stub,
}

/// How frames of a blob are left.
pub struct Frame {
    pub code: Range<u64>,
    pub shape: Shape,
    pub memory: Arc<ProcessMemory>,
}

/// Code, with rows from its instructions once they are asked for.
pub struct Instructions {
    code: Range<u64>,
    rows: OnceLock<Option<Box<FileRows<Vec<u8>>>>>,
}

type Stepped = Result<Option<FrameAddress>, UnwindError>;

impl Frame {
    /// Steps from the frame at an address to its caller. `None`: nothing says how.
    pub fn step_at<F: FnMut(u64) -> Result<u64, ()>>(
        &self,
        address: u64,
        topmost: bool,
        registers: &mut Registers,
        read_word: &mut F,
    ) -> Option<Stepped> {
        let rule = match &self.shape {
            Shape::Interpreted(entries) => match entry_at(entries, address, topmost) {
                Some(entry) => return self.step_from_entry(entry, address, registers, read_word),
                None => interpreted(),
            },
            Shape::Sized { size, .. } if !topmost => of_size(*size, true),
            Shape::Sized { complete, instructions, .. } => {
                match instructions.end_at(&self.memory, address)? {
                    CfaRule { register: RBP, .. } => by_frame_pointer(),
                    // The frame pointer is the caller's until the prologue ends, and once it was restored.
                    CfaRule { register: RSP, offset, .. } => {
                        of_size(offset, address >= *complete && offset > 8)
                    }
                    _ => return None,
                }
            }
            Shape::Stub if topmost => self.called_by(registers, read_word)?,
            Shape::Stub => return None,
        };
        Some(step(Abi::Amd64, &Rules::Frame(rule), topmost, false, registers, read_word))
    }

    /// Steps from where the interpreter has no frame yet to a caller that is interpreted, too. If compiled
    /// code has called, an adapter has moved the stack pointer, and nobody knows how far.
    fn step_from_entry(
        &self,
        entry: &Instructions,
        address: u64,
        registers: &mut Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Stepped> {
        let nothing = |end: &CfaRule| *end == CfaRule::register(RSP, 8);
        entry.end_at(&self.memory, address).filter(nothing)?;
        let (rules, mut caller) = (Rules::Frame(of_size(8, false)), *registers);
        let found = step(Abi::Amd64, &rules, true, false, &mut caller, read_word).ok().flatten();
        let found = found.filter(|at| self.code.contains(&at.lookup_address()))?;
        *registers = caller;
        Some(Ok(Some(found)))
    }

    /// Where the method is that the interpreter runs in the frame at an address.
    pub fn method_at(
        &self,
        address: u64,
        topmost: bool,
        registers: &Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<u64> {
        match &self.shape {
            Shape::Interpreted(entries) if entry_at(entries, address, topmost).is_none() => {
                read_word(registers.fp.checked_sub(METHOD)?).ok()
            }
            _ => None,
        }
    }

    /// Whether a frame that nothing describes may have a frame pointer.
    pub fn may_have_frame_pointer(&self, topmost: bool) -> bool {
        matches!(self.shape, Shape::Stub) && !topmost
    }

    /// The frame of a stub that runs: one that the frame pointer leads out of, one with the frame pointer
    /// alone, or one without anything in it. A call of this blob must be in front of the return address, or
    /// in the last case any call.
    fn called_by(
        &self,
        registers: &Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Rule> {
        let mut call_at = |place: u64| {
            let back = read_word(place).ok()?;
            let code = self.memory.bytes(back.checked_sub(CALL as u64)?, CALL)?;
            let code: [u8; CALL] = *code.first_chunk()?;
            Some((code, called(&code, back).is_some_and(|target| self.code.contains(&target))))
        };
        let mut is_called = |place: u64| call_at(place).is_some_and(|(_, here)| here);
        if is_called(registers.fp.wrapping_add(8)) {
            return Some(by_frame_pointer());
        }
        if is_called(registers.sp.wrapping_add(8)) {
            return Some(of_size(16, true));
        }
        let (code, is_called) = call_at(registers.sp)?;
        (is_called || ends_with_call(Abi::Amd64, &code)).then(|| of_size(8, false))
    }
}

/// The part of the interpreter that is about to make the frame at an address.
fn entry_at(entries: &[Instructions], address: u64, topmost: bool) -> Option<&Instructions> {
    entries.iter().find(|entry| topmost && entry.code.contains(&address))
}

impl Instructions {
    pub fn of(code: Range<u64>) -> Self {
        Self { code, rows: OnceLock::new() }
    }

    /// Where the frame ends at the instruction that runs, by what the instructions do.
    fn end_at(&self, memory: &ProcessMemory, address: u64) -> Option<CfaRule> {
        let rows = self.rows.get_or_init(|| self.read(memory)).as_ref()?;
        let (found, _) = rows.rules_at(address).ok()??;
        match found.rules {
            Rules::Frame(Rule { cfa, .. }) if !cfa.dereference => Some(cfa),
            _ => None,
        }
    }

    fn read(&self, memory: &ProcessMemory) -> Option<Box<FileRows<Vec<u8>>>> {
        let size = (self.code.end - self.code.start).min(MAX_CODE);
        let code = memory.bytes(self.code.start, usize::try_from(size).ok()?)?;
        let areas = vec![Area { address: self.code.start, code: &code }];
        let piece = Piece { range: self.code.start..self.code.start + size, kind: Kind::Function };
        let rows = Code { abi: Abi::Amd64, areas, functions: &Functions::default() }.rows_of(&[piece]);
        let written = write_sorted(Options::new(Abi::Amd64), self.code.start, &rows).ok()?;
        Some(FileRows::default().with_instructions(written.bytes, self.code.start).into())
    }
}

/// The address that is called by the instructions in front of a return address: `call target`, or
/// `mov $target, %r10; call *%r10`.
fn called(code: &[u8; CALL], back: u64) -> Option<u64> {
    match code {
        [0x49, 0xba, target @ .., 0x41, 0xff, 0xd2] => Some(u64::from_le_bytes(*target)),
        [_, _, _, _, _, _, _, _, 0xe8, distance @ ..] => {
            Some(back.wrapping_add_signed(i32::from_le_bytes(*distance).into()))
        }
        _ => None,
    }
}

/// A frame of so many bytes above the stack pointer, with or without the caller's frame pointer in it.
fn of_size(size: i64, with_frame_pointer: bool) -> Rule {
    let fp = if with_frame_pointer { by_frame_pointer().fp } else { RegisterRule::Unchanged };
    Rule { cfa: CfaRule::register(RSP, size), fp, ..by_frame_pointer() }
}

/// A frame that the frame pointer leads out of.
fn by_frame_pointer() -> Rule {
    Rule {
        cfa: CfaRule::register(RBP, 16),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Saved(Location::at_cfa(-16)),
        mangled: false,
    }
}

/// A frame of the interpreter. Its caller's stack pointer may lie further up than this frame ends: an adapter
/// between compiled code and the interpreter moves arguments in between.
fn interpreted() -> Rule {
    let at = |offset| {
        let base = Base::Register(RBP);
        RegisterRule::Saved(Location { base, offset, dereference: true })
    };
    Rule {
        cfa: CfaRule { register: RBP, dereference: true, offset: SENDER_SP.into() },
        ra: at(RETURN_ADDRESS),
        fp: at(0),
        mangled: false,
    }
}
