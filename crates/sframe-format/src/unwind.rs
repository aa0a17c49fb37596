//! Unwinding: one step from a frame to its caller.
//!
//! [`step`] executes the rules of a [`Match`]. It takes three or four memory reads and allocates nothing, so
//! signal handlers may call it. `Unwinder` (with `alloc`) first finds the module and the row. The interface
//! follows the `framehop` crate: a closure reads memory, an address is either an instruction pointer or a
//! return address, and `Ok(None)` is the end of the stack. Unlike framehop, this crate never falls back
//! silently: [`UnwindError::NoInformation`] lets the caller try other ways for this frame.

use core::fmt;

use crate::abi::{Abi, Register};
use crate::error::Error;
use crate::lookup::Match;
pub use crate::registers::Registers;
use crate::rules::{Base, Frame, Location, RegisterRule, Rules};
use crate::signal::interrupted;

/// The caller's number for a file. [`UnwindError::NoInformation`] contains it. The unwinder does not
/// interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u64);

/// A code address in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameAddress {
    /// The instruction that runs next: in the topmost frame, and in one that a signal interrupted.
    InstructionPointer(u64),
    /// The address after a call.
    ReturnAddress(u64),
}

impl FrameAddress {
    /// The address itself.
    pub fn address(self) -> u64 {
        match self {
            Self::InstructionPointer(address) | Self::ReturnAddress(address) => address,
        }
    }

    /// The address to look up. For a return address, it is a byte inside the call, because the call may be
    /// the function's last instruction.
    #[inline]
    pub fn lookup_address(self) -> u64 {
        match self {
            Self::InstructionPointer(address) => address,
            Self::ReturnAddress(address) => address.wrapping_sub(1),
        }
    }
}

/// Why a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnwindError {
    /// No row covers the address.
    NoInformation {
        /// The address that was looked up.
        address: u64,
        /// The file that covers the address, if there is one. It has rows for other addresses only, or none.
        module: Option<ModuleId>,
    },
    /// The function's rows are malformed.
    Malformed(Error),
    /// Memory could not be read.
    Memory {
        /// Address of the 8-byte word.
        address: u64,
    },
    /// A rule needs a register whose value is unknown: nobody gave it, or it is known in the topmost frame
    /// only. A walk by frame pointers also ends this way, at a frame pointer that is not a multiple of 8, and
    /// always on s390x.
    Register {
        /// DWARF number.
        register: Register,
    },
    /// The caller's frame would not be above this one.
    NoProgress {
        /// Stack pointer of this frame.
        sp: u64,
        /// Stack pointer that the caller would have.
        caller_sp: u64,
    },
}

impl fmt::Display for UnwindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInformation { address, module: Some(_) } => write!(f, "no row covers {address:#x}"),
            Self::NoInformation { address, module: None } => {
                write!(f, "no file with rows is at {address:#x}")
            }
            Self::Malformed(error) => write!(f, "malformed SFrame rows: {error}"),
            Self::Memory { address } => write!(f, "the word at {address:#x} cannot be read"),
            Self::Register { register } => {
                write!(f, "register {register} is needed, but its value is unknown")
            }
            Self::NoProgress { sp, caller_sp } => {
                write!(f, "the caller's stack pointer {caller_sp:#x} does not lie above {sp:#x}")
            }
        }
    }
}

impl core::error::Error for UnwindError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Malformed(error) => Some(error),
            _ => None,
        }
    }
}

/// Steps from the frame that `rules` hold for to its caller. Changes `registers` to the caller's, and returns
/// the address where the caller continues. `Ok(None)` is the end of the stack.
///
/// `topmost` marks a frame that has not called another function (the first frame, or one that a signal
/// interrupted), and `signal` marks a signal frame. `read_word` reads 8 bytes of memory.
///
/// # Errors
/// See [`UnwindError`]. `registers` are unchanged then.
///
/// ```
/// use sframe_format::unwind::{step, FrameAddress, Registers};
/// use sframe_format::{Abi, CfaRule, Frame, Location, RegisterRule, Rules};
/// // x86-64 after `push %rbp`: CFA = rsp + 16, the caller's rbp at CFA - 16.
/// let rules = Rules::Frame(Frame {
///     cfa: CfaRule::register(7, 16),
///     ra: RegisterRule::Saved(Location::at_cfa(-8)),
///     fp: RegisterRule::Saved(Location::at_cfa(-16)),
///     mangled: false,
/// });
/// let mut read = |address: u64| [0x7ff0, 0x401234].get((address as usize - 0x7000) / 8).copied().ok_or(());
/// let mut registers = Registers::new(0x7000, 0, None);
/// let caller = step(Abi::Amd64, &rules, true, false, &mut registers, &mut read);
/// assert_eq!(caller, Ok(Some(FrameAddress::ReturnAddress(0x401234))));
/// assert_eq!((registers.sp, registers.fp), (0x7010, 0x7ff0));
/// ```
#[inline]
pub fn step<F>(
    abi: Abi,
    rules: &Rules,
    topmost: bool,
    signal: bool,
    registers: &mut Registers,
    read_word: &mut F,
) -> Result<Option<FrameAddress>, UnwindError>
where
    F: FnMut(u64) -> Result<u64, ()>,
{
    let frame = match rules {
        Rules::Frame(frame) => frame,
        Rules::Outermost => return Ok(None),
        Rules::SignalContext => return step_from_context(abi, registers, read_word).map(Some),
    };
    let base = need(registers, abi, frame.cfa.register)?.wrapping_add_signed(frame.cfa.offset);
    let cfa = if frame.cfa.dereference {
        read_word(base).map_err(|()| UnwindError::Memory { address: base })?
    } else {
        base
    };
    if !signal {
        return step_from_cfa(abi, frame, cfa, topmost, signal, registers, read_word);
    }
    let context = interrupted(abi, registers, read_word);
    let caller = step_from_cfa(abi, frame, cfa, topmost, signal, registers, read_word)?;
    // The context contains all registers. Use it only if it agrees with the rows, so that no other stack is
    // mistaken for a context.
    if let (Ok((pc, restored)), Some(address)) = (context, caller)
        && (pc, restored.sp) == (address.address(), registers.sp)
    {
        *registers = restored;
    }
    Ok(caller)
}

/// Steps from a signal frame to the interrupted code, by the registers that the kernel saved.
///
/// # Errors
/// [`UnwindError::Memory`]. `registers` are unchanged then.
#[cold]
pub(crate) fn step_from_context(
    abi: Abi,
    registers: &mut Registers,
    read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Result<FrameAddress, UnwindError> {
    let (pc, restored) =
        interrupted(abi, registers, read_word).map_err(|address| UnwindError::Memory { address })?;
    *registers = restored;
    Ok(FrameAddress::InstructionPointer(pc))
}

/// The rest of a step, when the CFA is known.
#[inline(always)]
pub(crate) fn step_from_cfa<F>(
    abi: Abi,
    frame: &Frame,
    cfa: u64,
    topmost: bool,
    signal: bool,
    registers: &mut Registers,
    read_word: &mut F,
) -> Result<Option<FrameAddress>, UnwindError>
where
    F: FnMut(u64) -> Result<u64, ()>,
{
    let mut read = |address| read_word(address).map_err(|()| UnwindError::Memory { address });
    let caller_sp = cfa.wrapping_sub(abi.cfa_bias() as u64);
    // A leaf may have its caller's stack pointer. A signal frame may have come from another stack.
    if !signal && (caller_sp < registers.sp || caller_sp == registers.sp && !topmost) {
        return Err(UnwindError::NoProgress { sp: registers.sp, caller_sp });
    }
    let return_address = match frame.ra {
        RegisterRule::Saved(location) => resolve(abi, location, cfa, registers, &mut read)?,
        RegisterRule::Unchanged if topmost => need(registers, abi, abi.return_address())?,
        RegisterRule::Unchanged => return Err(UnwindError::Register { register: abi.return_address() }),
    };
    let fp = match frame.fp {
        RegisterRule::Unchanged => registers.fp,
        RegisterRule::Saved(location) => match resolve(abi, location, cfa, registers, &mut read) {
            Ok(value) => value,
            // Compilers leave the rule in force after they have restored the register. Its slot is then free
            // stack.
            Err(UnwindError::Memory { address }) if topmost && address < registers.sp => registers.fp,
            Err(error) => return Err(error),
        },
    };
    let address = if frame.mangled { registers.strip(return_address) } else { return_address };
    if address == 0 && !signal {
        return Ok(None);
    }
    registers.enter_caller(caller_sp, fp);
    Ok(Some(if signal {
        FrameAddress::InstructionPointer(address)
    } else {
        FrameAddress::ReturnAddress(address)
    }))
}

#[inline]
fn need(registers: &Registers, abi: Abi, register: Register) -> Result<u64, UnwindError> {
    registers.get(abi, register).ok_or(UnwindError::Register { register })
}

#[inline(always)]
fn resolve(
    abi: Abi,
    location: Location,
    cfa: u64,
    registers: &Registers,
    read: &mut impl FnMut(u64) -> Result<u64, UnwindError>,
) -> Result<u64, UnwindError> {
    let base = match location.base {
        Base::Cfa => cfa,
        Base::Register(register) => need(registers, abi, register)?,
    };
    let address = base.wrapping_add_signed(location.offset.into());
    if location.dereference { read(address) } else { Ok(address) }
}

impl Match {
    /// Does a [`step`] by the rules of this match.
    ///
    /// # Errors
    /// See [`UnwindError`].
    #[inline]
    pub fn step<F>(
        &self,
        topmost: bool,
        registers: &mut Registers,
        read_word: &mut F,
    ) -> Result<Option<FrameAddress>, UnwindError>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        step(self.abi, &self.row.rules, topmost, self.is_signal(), registers, read_word)
    }
}
