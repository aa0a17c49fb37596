//! What a row contains: how to find the caller's frame.
//!
//! One form serves every version, FDE type and architecture. So rows can be compared, converted and verified
//! no matter what bytes they came from. The form spells out values that a header or an encoding implies: on
//! x86-64, the return address is `*(CFA - 8)` in every row, and the scaled and biased CFA offsets of s390x
//! are plain byte offsets.

use core::fmt;

use crate::abi::{Abi, Register};

/// What a location counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The canonical frame address of this frame.
    Cfa,
    /// The value of a register in this frame, by DWARF number.
    Register(Register),
}

/// A value: `base + offset`, or the word in memory there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The origin of the offset.
    pub base: Base,
    /// Offset in bytes.
    pub offset: i32,
    /// Whether the value is the word in memory at that address instead of the address itself.
    pub dereference: bool,
}

impl Location {
    /// The word in memory at `CFA + offset`.
    #[inline]
    pub const fn at_cfa(offset: i32) -> Self {
        Self { base: Base::Cfa, offset, dereference: true }
    }

    /// The value of a register.
    #[inline]
    pub const fn in_register(register: Register) -> Self {
        Self { base: Base::Register(register), offset: 0, dereference: false }
    }
}

/// The canonical frame address: `register + offset`, or the word in memory there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CfaRule {
    /// DWARF number of the base register.
    pub register: Register,
    /// Whether the CFA is the word in memory at `register + offset`.
    pub dereference: bool,
    /// Offset in bytes. On s390x, it is the real offset, without the scale and bias of its encoding.
    pub offset: i64,
}

impl CfaRule {
    /// `register + offset`.
    #[inline]
    pub const fn register(register: Register, offset: i64) -> Self {
        Self { register, dereference: false, offset }
    }
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegisterRule {
    /// Still in the register itself. For the return address, this is the link register, so it is possible
    /// only in a frame that has called no other function.
    Unchanged,
    /// At a location.
    Saved(Location),
}

/// The rules of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The canonical frame address.
    pub cfa: CfaRule,
    /// The return address.
    pub ra: RegisterRule,
    /// The caller's frame pointer.
    pub fp: RegisterRule,
    /// AArch64: the return address is signed and its authentication bits must be stripped.
    pub mangled: bool,
}

/// The unwinding rules of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rules {
    /// The rules that find the caller.
    Frame(Frame),
    /// The return address is undefined: this is the outermost frame (V2 errata 2, V3).
    Outermost,
    /// A signal frame without rows (V3): GNU as could not express its CFI. The operating system's ABI says
    /// where the interrupted registers are ([`crate::signal`]).
    SignalContext,
}

/// A row's rules, with everything else that an unwinder needs to know of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnwindRules {
    /// Architecture of the blob.
    pub abi: Abi,
    /// Whether the function is a signal frame. Then its caller was interrupted and did not call.
    pub signal: bool,
    /// The rules of the row.
    pub rules: Rules,
}

/// One row of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// First byte that the row covers, counted from the function's start (in a PC-mask function, from the
    /// start of the repetition block). The row holds up to the next row.
    pub start: u32,
    /// Its rules.
    pub rules: Rules,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.dereference { ("*(", ")") } else { ("", "") };
        match self.base {
            Base::Cfa => write!(f, "{open}cfa{:+}{close}", self.offset),
            Base::Register(register) => write!(f, "{open}r{register}{:+}{close}", self.offset),
        }
    }
}

impl fmt::Display for CfaRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.dereference { ("*(", ")") } else { ("", "") };
        write!(f, "{open}r{}{:+}{close}", self.register, self.offset)
    }
}

impl fmt::Display for RegisterRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.pad("u"),
            Self::Saved(location) => location.fmt(f),
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(Frame { cfa, ra, fp, mangled }) => {
                write!(f, "cfa={cfa} fp={fp} ra={ra}{}", if *mangled { "[s]" } else { "" })
            }
            Self::Outermost => f.pad("outermost"),
            Self::SignalContext => f.pad("signal context"),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}: {}", self.start, self.rules)
    }
}
