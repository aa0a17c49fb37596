//! Unwinding: one step from a frame to its caller.
//!
//! [`step`] carries out the rules of a [`Match`]: three or four memory reads, no allocation, fit for a signal
//! handler. `Unwinder` (with `alloc`) finds the module and the row first. The interface follows the `framehop` crate: memory is
//! read by a closure, addresses are either instruction pointers or return addresses, and the end of the stack is
//! `Ok(None)`. Unlike framehop it does not fall back in silence: [`UnwindError::NoInformation`] lets the caller try
//! `.eh_frame` or frame pointers for this frame.

use core::fmt;
use core::hint::select_unpredictable;

use crate::abi::{Abi, Register};
use crate::error::Error;
use crate::lookup::Match;
use crate::rules::{Base, Frame, Location, RegisterRule, Rules};

/// A code address in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameAddress {
    /// The instruction that runs next: the topmost frame, and one that a signal interrupted.
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

    /// The address to look up: a byte inside the call for return addresses, since the call may be the function's
    /// last instruction.
    #[inline]
    pub fn lookup_address(self) -> u64 {
        match self {
            Self::InstructionPointer(address) => address,
            Self::ReturnAddress(address) => address.wrapping_sub(1),
        }
    }
}

/// The registers that unwinding follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'other> {
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer (rbp, x29, r11).
    pub fp: u64,
    /// Link register (x30, r14), known in the topmost frame only. x86-64 has none.
    pub link: Option<u64>,
    /// Other registers by DWARF number, for the flexible rules of the topmost frame; may be empty.
    pub others: &'other [Option<u64>],
    /// AArch64: number of bits in a code address; the bits above are stripped from signed return addresses.
    pub address_bits: u8,
}

impl<'other> Registers<'other> {
    /// Registers of the topmost frame, 48-bit code addresses.
    pub fn new(sp: u64, fp: u64, link: Option<u64>) -> Self {
        Self { sp, fp, link, others: &[], address_bits: 48 }
    }

    /// The same with further registers, indexed by DWARF number.
    #[must_use]
    pub fn with_others(mut self, others: &'other [Option<u64>]) -> Self {
        self.others = others;
        self
    }

    #[inline]
    fn get(&self, abi: Abi, register: Register) -> Result<u64, UnwindError> {
        // No processor can predict which of the two registers it is.
        if register == abi.stack_pointer() || register == abi.frame_pointer() {
            return Ok(select_unpredictable(register == abi.stack_pointer(), self.sp, self.fp));
        }
        let value = match register {
            number if number == abi.return_address() && self.link.is_some() => self.link,
            number => self.others.get(number as usize).copied().flatten(),
        };
        value.ok_or(UnwindError::Register { register })
    }

    /// A return address without its authentication bits: bit 55 tells user from kernel addresses.
    #[inline]
    fn strip(&self, address: u64) -> u64 {
        let mask = u64::MAX.checked_shl(self.address_bits.into()).unwrap_or(0);
        if address >> 55 & 1 == 0 { address & !mask } else { address | mask }
    }
}

/// Why a step was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnwindError {
    /// No SFrame row covers the address.
    NoInformation {
        /// The address that was looked up.
        address: u64,
    },
    /// The function's rows are malformed.
    Malformed(Error),
    /// Memory could not be read.
    Memory {
        /// Address of the 8-byte word.
        address: u64,
    },
    /// A rule needs a register whose value is known in the topmost frame only, or was not given.
    Register {
        /// DWARF number.
        register: Register,
    },
    /// The caller's frame would not lie above this one.
    NoProgress {
        /// Stack pointer of this frame.
        sp: u64,
        /// Stack pointer that the caller would have.
        caller_sp: u64,
    },
    /// A signal frame without rows: the saved registers must be read as the operating system lays them out.
    SignalContext,
}

impl fmt::Display for UnwindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInformation { address } => write!(f, "no SFrame row covers {address:#x}"),
            Self::Malformed(error) => write!(f, "malformed SFrame rows: {error}"),
            Self::Memory { address } => write!(f, "the word at {address:#x} cannot be read"),
            Self::Register { register } => {
                write!(f, "register {register} is needed, but its value is unknown")
            }
            Self::NoProgress { sp, caller_sp } => {
                write!(f, "the caller's stack pointer {caller_sp:#x} does not lie above {sp:#x}")
            }
            Self::SignalContext => write!(f, "signal frame without rows"),
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

/// Goes from the frame that `rules` hold for to its caller: changes `registers` to the caller's and returns the
/// address there; `Ok(None)` is the end of the stack.
///
/// `topmost` marks a frame that has not called another (the first frame, or one that a signal interrupted),
/// `signal` a signal frame. `read_word` reads 8 bytes of memory.
///
/// # Errors
/// See [`UnwindError`]; `registers` are unchanged then.
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
    registers: &mut Registers<'_>,
    read_word: &mut F,
) -> Result<Option<FrameAddress>, UnwindError>
where
    F: FnMut(u64) -> Result<u64, ()>,
{
    let frame = match rules {
        Rules::Frame(frame) => frame,
        Rules::Outermost => return Ok(None),
        Rules::SignalContext => return Err(UnwindError::SignalContext),
    };
    let mut read = |address| read_word(address).map_err(|()| UnwindError::Memory { address });
    let cfa = canonical_frame_address(abi, frame, registers, &mut read)?;
    let caller_sp = cfa.wrapping_sub(abi.cfa_bias() as u64);
    // A leaf may have its caller's stack pointer; a signal frame may have come from another stack.
    if !signal && (caller_sp < registers.sp || caller_sp == registers.sp && !topmost) {
        return Err(UnwindError::NoProgress { sp: registers.sp, caller_sp });
    }
    let return_address = match frame.ra {
        RegisterRule::Saved(location) => resolve(abi, location, cfa, registers, &mut read)?,
        RegisterRule::Unchanged if topmost => registers.get(abi, abi.return_address())?,
        RegisterRule::Unchanged => return Err(UnwindError::Register { register: abi.return_address() }),
    };
    let fp = match frame.fp {
        RegisterRule::Unchanged => registers.fp,
        RegisterRule::Saved(location) => match resolve(abi, location, cfa, registers, &mut read) {
            Ok(value) => value,
            // Compilers leave the rule in force after they restored the register; its slot is then free stack.
            Err(UnwindError::Memory { address }) if topmost && address < registers.sp => registers.fp,
            Err(error) => return Err(error),
        },
    };
    let address = if frame.mangled { registers.strip(return_address) } else { return_address };
    if address == 0 {
        return Ok(None);
    }
    *registers = Registers { sp: caller_sp, fp, link: None, others: &[], ..*registers };
    Ok(Some(if signal {
        FrameAddress::InstructionPointer(address)
    } else {
        FrameAddress::ReturnAddress(address)
    }))
}

#[inline]
fn canonical_frame_address(
    abi: Abi,
    frame: &Frame,
    registers: &Registers<'_>,
    read: &mut impl FnMut(u64) -> Result<u64, UnwindError>,
) -> Result<u64, UnwindError> {
    let base = registers.get(abi, frame.cfa.register)?.wrapping_add_signed(frame.cfa.offset);
    if frame.cfa.dereference { read(base) } else { Ok(base) }
}

#[inline]
fn resolve(
    abi: Abi,
    location: Location,
    cfa: u64,
    registers: &Registers<'_>,
    read: &mut impl FnMut(u64) -> Result<u64, UnwindError>,
) -> Result<u64, UnwindError> {
    let base = match location.base {
        Base::Cfa => cfa,
        Base::Register(register) => registers.get(abi, register)?,
    };
    let address = base.wrapping_add_signed(location.offset.into());
    if location.dereference { read(address) } else { Ok(address) }
}

impl Match {
    /// [`step`] by the rules of this match.
    ///
    /// # Errors
    /// See [`UnwindError`].
    #[inline]
    pub fn step<F>(
        &self,
        topmost: bool,
        registers: &mut Registers<'_>,
        read_word: &mut F,
    ) -> Result<Option<FrameAddress>, UnwindError>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        step(self.abi, &self.row.rules, topmost, self.is_signal(), registers, read_word)
    }
}
