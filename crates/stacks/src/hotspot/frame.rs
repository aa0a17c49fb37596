//! How frames of HotSpot's code are left.

use crate::code::Code;
use crate::code::area::Area;
use crate::code::functions::{Functions, Kind, Piece};
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
        size: u64,
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
            Shape::Interpreted(entries) => {
                let makes_frame = |entry: &&Instructions| topmost && entry.code.contains(&address);
                match entries.iter().find(makes_frame) {
                    Some(entry) => return self.step_from_entry(entry, address, registers, read_word),
                    None => interpreted(),
                }
            }
            Shape::Sized { size, .. } if !topmost => of_size(*size, true),
            Shape::Sized { complete, instructions, .. } => {
                // The frame pointer is the caller's until the prologue ends, and once it was restored.
                let size = instructions.size_at(&self.memory, address)?;
                of_size(size, address >= *complete && size > 8)
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
        let size = entry.size_at(&self.memory, address).filter(|&size| size == 8)?;
        let (rules, mut caller) = (Rules::Frame(of_size(size, false)), *registers);
        let found = step(Abi::Amd64, &rules, true, false, &mut caller, read_word).ok().flatten();
        let found = found.filter(|at| self.code.contains(&at.lookup_address()))?;
        *registers = caller;
        Some(Ok(Some(found)))
    }

    /// Whether a frame that nothing describes may have a frame pointer.
    pub fn may_have_frame_pointer(&self, topmost: bool) -> bool {
        matches!(self.shape, Shape::Stub) && !topmost
    }

    /// The frame of a stub that runs: without anything in it, with the frame pointer alone, or one that the
    /// frame pointer leads out of. A call of this blob must be in front of the return address.
    fn called_by(
        &self,
        registers: &Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Rule> {
        let mut is_called = |place: u64| {
            let back = read_word(place).ok()?;
            let code = self.memory.bytes(back.checked_sub(CALL as u64)?, CALL)?;
            let target = called(code.first_chunk()?, back)?;
            self.code.contains(&target).then_some(())
        };
        let by_frame_pointer = Rule {
            cfa: CfaRule::register(RBP, 16),
            ra: RegisterRule::Saved(Location::at_cfa(-8)),
            fp: RegisterRule::Saved(Location::at_cfa(-16)),
            mangled: false,
        };
        let places = [
            (registers.fp, by_frame_pointer),
            (registers.sp, of_size(16, true)),
            (registers.sp.wrapping_sub(8), of_size(8, false)),
        ];
        places.into_iter().find(|(below, _)| is_called(below.wrapping_add(8)).is_some()).map(|found| found.1)
    }
}

impl Instructions {
    pub fn of(code: Range<u64>) -> Self {
        Self { code, rows: OnceLock::new() }
    }

    /// How many bytes above the stack pointer the frame ends at the instruction that runs, by what the
    /// instructions do.
    fn size_at(&self, memory: &ProcessMemory, address: u64) -> Option<u64> {
        let rows = self.rows.get_or_init(|| self.read(memory)).as_ref()?;
        let (found, _) = rows.rules_at(address).ok()??;
        match found.rules {
            Rules::Frame(Rule { cfa: CfaRule { register: RSP, dereference: false, offset }, .. }) => {
                u64::try_from(offset).ok()
            }
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
fn of_size(size: u64, with_frame_pointer: bool) -> Rule {
    let saved = || RegisterRule::Saved(Location::at_cfa(-16));
    Rule {
        cfa: CfaRule::register(RSP, size as i64),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: if with_frame_pointer { saved() } else { RegisterRule::Unchanged },
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
